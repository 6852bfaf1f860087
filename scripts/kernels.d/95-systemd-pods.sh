# Pods whose cgroups systemd makes (the systemd driver of kubelet and runtime): scopes in slices. A
# promise holds whatever systemd writes there. This step is the last, because systemd takes over the
# cgroup tree.
# Promise 37.
. /steps/lib.sh
driver=systemd

mkdir -p /etc/systemd/system
[ -s /etc/machine-id ] || echo 0123456789abcdef0123456789abcdef >/etc/machine-id
cat >/etc/systemd/system/default.target <<END
[Unit]
Description=The node of this test
DefaultDependencies=no
END
cat >/etc/systemd/system/batch.service <<END
[Unit]
DefaultDependencies=no
[Service]
ExecStart=/bin/sleep 100000
AllowedCPUs=0-1
END
# Process 1 of a process namespace, as in a container: the guest's own process 1 runs this script.
unshare --mount --pid --fork --mount-proc env container=test \
    /lib/systemd/systemd --system --log-target=console >/tmp/systemd.log 2>&1 &
unshare=$!
await 60 '[ -S /run/systemd/private ]' && systemd=$(pidof systemd)
. /steps/pods.sh
await 60 '$on_node systemctl is-system-running | grep -qE "running|degraded"'
report 'systemd: it runs' $? "$(tail -1 /tmp/systemd.log)"

start_containerd
check 'systemd: a service runs with the pods' '$on_node systemctl start batch.service'
pod before '' 102
report 'systemd pods: a pod runs without an agent' $? "$(why)"
neighbour=$cgroup
check 'systemd pods: systemd made its cgroup' '[ -n "$(cat "$neighbour/cgroup.procs")" ]'
snapshot /tmp/before

plugin
report 'systemd pods: the agent starts' $?
check 'systemd pods: it has a session with containerd' 'await 60 connected'
pod strict '"cofferdam.dev/cpu": "strict", "cofferdam.dev/lend": "false"' 1024
report 'systemd pods: a strict pod runs' $? "$(why)"
strict=$cgroup first=$sandbox
check 'systemd pods: its first instruction ran on CPU 1 alone' '[ "$(first_cpus strict)" = 1 ]'
is_kept() { [ "$(effective "$strict")" = 1 ] && [ "$(effective "$neighbour")" = 0 ]; }
check 'systemd pods: no pod shares its CPU' 'await 30 is_kept'
check 'systemd pods: it is reported by the name of its pod' \
    'await 60 "cofferdam top --once --json | grep -q shop/strict"'
# Commands that administrators and package managers run all day.
check 'systemd pods: kept after daemon-reload' \
    '$on_node systemctl daemon-reload && sleep 2 && await 30 is_kept'
check 'systemd pods: kept after daemon-reexec' \
    '$on_node systemctl daemon-reexec && sleep 2 && await 60 is_kept'
set_cpus() { # CGROUP
    $on_node systemctl set-property --runtime $(basename "$1") AllowedCPUs=0-1
}
check 'systemd pods: kept when systemd writes its CPUs' \
    'set_cpus "$strict" && await 30 is_kept'
check 'systemd pods: kept when systemd writes the CPUs of its neighbour' \
    'set_cpus "$neighbour" && await 30 is_kept'
check 'systemd pods: a service keeps the CPUs of its unit' \
    '[ "$(effective /sys/fs/cgroup/system.slice/batch.service)" = 0-1 ]'
pod next '' 102
report 'systemd pods: another pod runs' $? "$(why)"
check 'systemd pods: on the other CPU from its first instruction' '[ "$(first_cpus next)" = 0 ]'
remove "$sandbox" "$cgroup"
kill -9 "$agent"
wait "$agent" 2>/dev/null
check 'systemd pods: kill -9 leaves it where it is' is_kept
$on_node systemctl daemon-reload
plugin
report 'systemd pods: the agent starts again' $? "$(tail -1 /tmp/agent.log)"
check 'systemd pods: and takes it over' \
    'await 60 "cofferdam status --json | grep -q own_cpus" && await 30 is_kept'
stop_agent
report 'systemd pods, SIGTERM: exit code 0' $? "exit code $?: $(tail -1 /tmp/agent.log)"
check 'systemd pods: all have all CPUs again' \
    'await 20 "[ \"\$(effective $strict) \$(effective $neighbour)\" = \"0-1 0-1\" ]"'
remove "$first" "$strict"
same 'systemd pods: the host is as before' /tmp/before

stop_containerd
kill -9 "$systemd"
wait $unshare 2>/dev/null
