# Pods of a real container runtime, made over the CRI as a kubelet makes them. A step that sources
# this file sets $driver first: with cgroupfs the runtime makes the cgroups itself, with systemd it
# asks systemd for a scope in a slice.

at=/run/pods-$driver
mkdir -p $at/logs $at/nri $at/cni
touch /etc/resolv.conf /etc/hosts
# The driver systemd: commands run in its namespaces, so that its process ids hold.
on_node=
[ "$driver" = cgroupfs ] || on_node="nsenter -t $systemd -m -p --"

# Starts containerd on $at/containerd.sock, with an image. Its id: $containerd.
start_containerd() {
    # Without pivot_root: the kernel cannot pivot away from an initramfs.
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
  SystemdCgroup = $([ "$driver" = systemd ] && echo true || echo false)
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
    $on_node containerd --config $at/config.toml >$at/log 2>&1 &
    containerd=$!
    await 180 'cri version >/dev/null && [ -S $at/nri.sock ]'
    report "$driver pods: containerd answers over the CRI" $? "$(tail -1 $at/log)"
    check "$driver pods: an image" \
        'ctr -a $at/containerd.sock -n k8s.io images import --local /image.tar'
}
stop_containerd() {
    for each in $(cri pods -q); do cri rmp -f "$each" >/dev/null; done
    kill "$containerd"
    wait "$containerd" 2>/dev/null
}
cri() {
    crictl -t 180s -r "unix://$at/containerd.sock" -i "unix://$at/containerd.sock" "$@" \
        2>>$at/crictl.log
}

# pod NAME ANNOTATIONS SHARES: starts a pod with one container, whose first program prints the CPUs
# that it may use. Its id: $sandbox; its container's cgroup: $cgroup.
pods=0
pod() {
    pods=$((pods + 1))
    uid=0000000$pods-0000-4000-8000-000000000000
    case $driver in
    cgroupfs) parent=/kubepods/burstable/pod$uid ;;
    systemd) parent=kubepods-burstable-pod$(echo $uid | tr - _).slice ;;
    esac
    cat >$at/pod.json <<END
{"metadata": {"name": "$1", "namespace": "shop", "uid": "$uid", "attempt": 1},
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
    case $driver in
    cgroupfs) cgroup=/sys/fs/cgroup$parent/$container ;;
    systemd)
        cgroup=/sys/fs/cgroup/kubepods.slice/kubepods-burstable.slice/$parent
        cgroup=$cgroup/cri-containerd-$container.scope ;;
    esac
    cri start "$container" >/dev/null && await 60 "grep -q Cpus_allowed_list $at/logs/$1.log"
}
# remove SANDBOX CGROUP: removes a pod and its cgroup, which the kubelet would remove.
remove() {
    cri rmp -f "$1" >/dev/null
    case $driver in
    cgroupfs) rmdir "$(dirname "$2")" ;;
    systemd) $on_node systemctl stop "$(basename "$(dirname "$2")")" ;;
    esac
}
first_cpus() { sed -n 's/.*Cpus_allowed_list:[[:space:]]*//p' "$at/logs/$1.log"; }
why() { tail -1 $at/crictl.log; }
effective() { cat "$1/cpuset.cpus.effective"; }

# Starts the agent as a plugin of the runtime.
plugin() {
    start_agent <<END
[nri]
socket = "$at/nri.sock"
may_ask = ["shop"]
END
}
connected() { cofferdam status --json | grep -q '"connected": *true'; }
