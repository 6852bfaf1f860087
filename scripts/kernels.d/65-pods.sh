# Pods of a real container runtime, made over the CRI as a kubelet makes them: containerd asks the agent
# over NRI, and a strict pod is on its CPU from its first instruction, on cgroup v2 alone.
. /steps/lib.sh

at=/run/pods
mkdir -p $at/logs $at/nri $at/cni
touch /etc/resolv.conf /etc/hosts
# An initramfs is no file system that can be pivoted away from.
cat >$at/config.toml <<END
version = 3
root = "$at/root"
state = "$at/state"
[grpc]
  address = "$at/containerd.sock"
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "native"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "test.local/node:1"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
  SystemdCgroup = false
  NoPivotRoot = true
[plugins."io.containerd.cri.v1.runtime".cni]
  bin_dirs = ["$at/cni"]
  conf_dir = "$at/cni"
[plugins."io.containerd.nri.v1.nri"]
  disable = false
  socket_path = "$at/nri.sock"
  plugin_path = "$at/nri"
  plugin_config_path = "$at/nri"
END

cri() { crictl -t 180s -r "unix://$at/containerd.sock" -i "unix://$at/containerd.sock" "$@" 2>>$at/crictl.log; }

# pod NAME ANNOTATIONS SHARES: a pod with one container, whose first program tells where it may run. Its
# id: $sandbox; its container's cgroup: $cgroup.
pods=0
pod() {
    pods=$((pods + 1))
    parent=/kubepods/burstable/pod0000000$pods-0000-4000-8000-000000000000
    cat >$at/pod.json <<END
{"metadata": {"name": "$1", "namespace": "shop", "uid": "${parent##*/pod}", "attempt": 1},
 "annotations": {$2}, "log_directory": "$at/logs",
 "linux": {"cgroup_parent": "$parent", "security_context": {"namespace_options": {"network": 2}}}}
END
    cat >$at/container.json <<END
{"metadata": {"name": "app"}, "image": {"image": "test.local/node:1"}, "log_path": "$1.log",
 "command": ["/bin/busybox", "sh", "-c",
  "/bin/busybox grep Cpus_allowed_list /proc/self/status; exec /bin/busybox sleep 10000"],
 "linux": {"resources": {"cpu_shares": $3}}}
END
    sandbox=$(cri runp $at/pod.json | tail -1) && [ -n "$sandbox" ] || return 1
    container=$(cri create --no-pull "$sandbox" $at/container.json $at/pod.json | tail -1)
    cgroup=/sys/fs/cgroup$parent/$container
    cri start "$container" >/dev/null && await 60 "grep -q Cpus_allowed_list $at/logs/$1.log"
}
# remove SANDBOX CGROUP: a pod, and its own cgroup, which is the kubelet's to remove.
remove() {
    cri rmp -f "$1" >/dev/null
    rmdir "$(dirname "$2")"
}
first_cpus() { sed -n 's/.*Cpus_allowed_list:[[:space:]]*//p' "$at/logs/$1.log"; }
why() { tail -1 $at/crictl.log; }

containerd --config $at/config.toml >$at/log 2>&1 &
containerd=$!
await 180 'cri version >/dev/null && [ -S $at/nri.sock ]'
report 'pods: containerd answers over the CRI' $? "$(tail -1 $at/log)"
check 'pods: an image' 'ctr -a $at/containerd.sock -n k8s.io images import --local /image.tar'
pod before '' 102
report 'pods: a pod runs without an agent' $? "$(why)"
neighbour=$cgroup
snapshot /tmp/before

plugin() {
    start_agent <<END
[nri]
socket = "$at/nri.sock"
may_ask = ["shop"]
END
}
plugin
report 'pods: the agent starts' $?
check 'pods: it has a session with containerd' 'await 60 "cofferdam status --json | grep -q \"\\\"connected\\\": *true\""'
pod strict '"cofferdam.dev/cpu": "strict", "cofferdam.dev/lend": "false"' 1024
report 'pods: a strict pod runs' $? "$(why)"
check 'pods: its first instruction ran on CPU 1 alone' '[ "$(first_cpus strict)" = 1 ]'
check 'pods: its neighbour had left that CPU' '[ "$(cat "$neighbour/cpuset.cpus.effective")" = 0 ]'
check 'pods: the one before ran anywhere' '[ "$(first_cpus before)" = 0-1 ]'
check 'pods: it is told by name of its pod' 'await 60 "cofferdam top --once --json | grep -q shop/strict"'
strict=$cgroup first=$sandbox
kill -9 "$agent"
wait "$agent" 2>/dev/null
check 'pods: kill -9 leaves it where it is' '[ "$(cat "$strict/cpuset.cpus.effective")" = 1 ]'
plugin
report 'pods: the agent starts again' $? "$(tail -1 /tmp/agent.log)"
check 'pods: and takes it over' 'await 60 "cofferdam status --json | grep -q own_cpus"'
pod typo '"cofferdam.dev/cpu": "exclusive"' 1024
report 'pods: one with a wrong annotation runs' $? "$(why)"
check 'pods: and is refused by name' 'await 60 "cofferdam status --json | grep -q annotation_invalid"'
remove "$sandbox" "$cgroup"
stop_agent
report 'pods, SIGTERM: exit code 0' $? "exit code $?: $(tail -1 /tmp/agent.log)"
check 'pods: the strict pod has all CPUs again' 'await 20 "[ \"\$(cat $strict/cpuset.cpus.effective)\" = 0-1 ]"'
remove "$first" "$strict"
same 'pods: the host is as before' /tmp/before

for each in $(cri pods -q); do cri rmp -f "$each" >/dev/null; done
kill "$containerd"
wait "$containerd" 2>/dev/null
find /sys/fs/cgroup/kubepods -depth -type d -exec rmdir {} + 2>/dev/null
[ ! -d /sys/fs/cgroup/kubepods ]
report 'pods: nothing is left of them' $?
