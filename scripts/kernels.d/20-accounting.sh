# The ledger. a floods b, whose receive work runs on CPU 0, where only c computes. Both a and b
# cause network work, and c is charged for some of it: 10 ms or more, while its own router
# solicitations take less than 1 ms. Then the same while CPU 1, which runs the senders, goes offline
# and comes back. The programs are loaded before the flood starts.
. /steps/lib.sh

flood() {
    inside c 0 sh -c 'while :; do :; done'
    inside b 1 sh -c 'while :; do sleep 1000 | nc -l -p 7000; done'
    sleep 1
    inside a 1 sh -c 'while :; do ping -q -A -c 1000 10.9.2.2; done'
    inside a 1 bash -c 'while :; do echo datagram; done >/dev/udp/10.9.2.2/9000'
    inside a 1 sh -c 'while :; do dd if=/dev/zero bs=4096 | nc 10.9.2.2 7000; done'
}

check 'accounting: record, table' 'cofferdam accounting record --duration 2s --interval 1s'
echo 10 >/sys/fs/cgroup/tenants/cpu.weight
cofferdam accounting record --duration 12s --interval 1s --format jsonl >/tmp/ledger &
recorder=$!
await 240 '[ -s /tmp/ledger ] || ! kill -0 $recorder'
flood
wait $recorder
report 'accounting: record, JSON Lines' $?
tail -3 /tmp/ledger
charged='"name":"c",[^{}]*"caused_ns":[0-9]{1,6},[^{}]*"charged_network_ns":[0-9]{8,}'
check 'accounting: a and b cause, c is charged' 'tail -1 /tmp/ledger >/tmp/last &&
    grep -qE "\"name\":\"a\",[^{}]*\"caused_ns\":[1-9]" /tmp/last &&
    grep -qE "\"name\":\"b\",[^{}]*\"caused_ns\":[1-9]" /tmp/last &&
    grep -qE "$charged" /tmp/last'
# A reading follows each change, however slow the machine is.
lines() { wc -l </tmp/hotplug; }
further() {
    from=$(lines)
    await 240 "[ \$(wc -l </tmp/hotplug) -gt $from ] || ! kill -0 $recorder"
}
cofferdam accounting record --duration 1h --interval 2s --format jsonl >/tmp/hotplug &
recorder=$!
further
echo 0 >/sys/devices/system/cpu/cpu1/online; off=$(cat /sys/devices/system/cpu/online)
further
further
echo 1 >/sys/devices/system/cpu/cpu1/online; on=$(cat /sys/devices/system/cpu/online)
further
further
kill -INT $recorder
wait $recorder
[ $? -eq 130 ] # interrupted, after cleaning up
report 'accounting: record while a CPU goes and comes' $?
cat /tmp/hotplug
check 'accounting: hot-plug is counted' \
    '[ "$off $on" = "0 0-1" ] && grep -qE "\"cpu_hotplugs\":2[,}]" /tmp/hotplug'
# In every interval the books balance within 1% on each CPU.
balanced='"worst_cpu_error_pct":(0|0\.[0-9]+|[0-9.]+e-[0-9]+)[,}]'
check 'accounting: the books balance' '! grep -vE "$balanced" /tmp/hotplug | grep .'
quiet a b c
echo 100 >/sys/fs/cgroup/tenants/cpu.weight
