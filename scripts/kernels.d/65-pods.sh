# Pods whose cgroups a real containerd makes (cgroupfs driver). It asks the agent over NRI, and a
# strict pod is on its CPU from its first instruction, on pure cgroup v2. Then the same on a node
# with
# one CPU.
# Promise 37.
# Promise 63.
. /steps/lib.sh
driver=cgroupfs
. /steps/pods.sh

start_containerd
pod before '' 102
report 'pods: a pod runs without an agent' $? "$(why)"
neighbour=$cgroup
snapshot /tmp/before

plugin
report 'pods: the agent starts' $?
check 'pods: it has a session with containerd' 'await 60 connected'
pod strict '"cofferdam.dev/cpu": "strict", "cofferdam.dev/lend": "false"' 1024
report 'pods: a strict pod runs' $? "$(why)"
check 'pods: its first instruction ran on CPU 1 alone' '[ "$(first_cpus strict)" = 1 ]'
check 'pods: its neighbour had left that CPU' '[ "$(effective "$neighbour")" = 0 ]'
check 'pods: the earlier one ran anywhere' '[ "$(first_cpus before)" = 0-1 ]'
check 'pods: it is reported by the name of its pod' \
    'await 60 "cofferdam top --once --json | grep -q shop/strict"'
strict=$cgroup first=$sandbox
kill -9 "$agent"
wait "$agent" 2>/dev/null
check 'pods: kill -9 leaves it where it is' '[ "$(effective "$strict")" = 1 ]'
plugin
report 'pods: the agent starts again' $? "$(tail -1 /tmp/agent.log)"
check 'pods: and takes it over' 'await 60 "cofferdam status --json | grep -q own_cpus"'
pod typo '"cofferdam.dev/cpu": "exclusive"' 1024
report 'pods: one with a wrong annotation runs' $? "$(why)"
check 'pods: and is refused by name' \
    'await 60 "cofferdam status --json | grep -q annotation_invalid"'
remove "$sandbox" "$cgroup"
stop_agent
report 'pods, SIGTERM: exit code 0' $? "exit code $?: $(tail -1 /tmp/agent.log)"
check 'pods: the strict pod has all CPUs again' 'await 20 "[ \"\$(effective $strict)\" = 0-1 ]"'
remove "$first" "$strict"
same 'pods: the host is as before' /tmp/before

# A node with one CPU cannot reserve it: a strict pod runs, and the status says that it has no
# promise.
check 'one CPU: the other goes offline' \
    'echo 0 >/sys/devices/system/cpu/cpu1/online && [ "$(nproc)" = 1 ]'
plugin
report 'one CPU: the agent starts' $? "$(tail -1 /tmp/agent.log)"
check 'one CPU: it has a session with containerd' 'await 60 connected'
pod alone '"cofferdam.dev/cpu": "strict"' 1024
report 'one CPU: a strict pod runs' $? "$(why)"
check 'one CPU: on the only CPU there is' '[ "$(effective "$cgroup")" = 0 ]'
check 'one CPU: the status says that nothing can be promised' \
    'await 60 "cofferdam status --json | grep -q reservation_impossible"'
cofferdam status
remove "$sandbox" "$cgroup"
stop_agent
report 'one CPU, SIGTERM: exit code 0' $? "exit code $?: $(tail -1 /tmp/agent.log)"
check 'one CPU: the other is back' '
    echo 1 >/sys/devices/system/cpu/cpu1/online &&
    await 20 "[ \"\$(effective $neighbour)\" = 0-1 ]"'
same 'one CPU: the host is as before' /tmp/before

stop_containerd
find /sys/fs/cgroup/kubepods -depth -type d -exec rmdir {} + 2>/dev/null
[ ! -d /sys/fs/cgroup/kubepods ]
report 'pods: nothing is left of them' $?
