# Enforcement of network CPU. A flood from outside goes to b, whose receive work runs on CPU 0,
# where
# c computes and is the victim. Emulated senders are slow, so b's share is made so small that a
# lower
# weight alone cannot repay c: the NAPI thread of b, in b's cgroup, must come into force. Then the
# share is made so small that the flood exceeds it, and packets must be dropped where they enter the
# host.
. /steps/lib.sh

status_has() {
    cofferdam status --json 2>/dev/null | tr -d '\n' >/tmp/status.json
    grep -qE "$1" /tmp/status.json
}
in_force() { status_has "\"means\": *\"$1\",[^{}]*\"in_force\": *true"; }
why_not() { grep -oE "\"means\": *\"$1\"[^{}]*" /tmp/status.json | sort -u | tr '\n' ';'; }

snapshot /tmp/before
start_agent <<END
[[rule]]
match = "cgroup:/tenants/*"
network_cpu = "enforce"
END
report 'enforcement: the agent starts' $?
echo 10 >/sys/fs/cgroup/tenants/b/cpu.weight
inside c 0 sh -c 'while :; do :; done'
flood_from_outside 1 10.9.2.2
await 60 'in_force napi_thread'
report 'enforcement: napi_thread is in force' $? "$(why_not napi_thread)"
check 'enforcement: the thread is in the cgroup of b' 'grep -l "^Name:.napi/" /proc/[0-9]*/status |
    while read -r f; do cat "${f%status}cgroup"; done | grep "/tenants/b"'
echo 1 >/sys/fs/cgroup/tenants/b/cpu.weight
# The limit is in force for moments only: with such a weight the thread soon does so little that no
# limit is needed until the next burst. The count of dropped packets stays in the status.
await 90 'status_has "\"dropped_rx_packets\": *[1-9]"'
report 'enforcement: packets are dropped by ingress_drop' $? "$(why_not ingress_drop)"
in_netns '' /bin/ip -d link show host-outside | grep -E 'xdp|prog'
cofferdam status; cat /tmp/status.json
quiet a b c
echo 100 >/sys/fs/cgroup/tenants/b/cpu.weight
stop_agent
report 'enforcement: the agent ends in good order' $? "exit code $?: $(tail -1 /tmp/agent.log)"
cat /tmp/agent.log
same 'enforcement: the host is as before' /tmp/before
