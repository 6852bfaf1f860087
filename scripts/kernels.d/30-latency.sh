# `latency` loads, and each command reports pings from container a to b correctly.
# Promise 19.
. /steps/lib.sh

ping_from_a() { inside a 1 sh -c 'while :; do ping -q -c 10 10.9.2.2; sleep 1; done'; }

ping_from_a
check 'latency record: loads and reports' 'cofferdam latency record --duration 3s --interval 3s \
    --container name:a --format jsonl >/tmp/latency ||
    cofferdam latency record --duration 3s --interval 3s --format jsonl >/tmp/latency'
tail -2 /tmp/latency
check 'latency record: packets in both directions' '
    grep -q "\"direction\":\"egress\"" /tmp/latency &&
    grep -q "\"direction\":\"ingress\"" /tmp/latency'
# --start device needs tcx: Linux 6.6 and later.
check 'latency record by devices: reports, or says why not' '
    cofferdam latency record --start device --duration 3s --interval 3s --format jsonl \
        >/tmp/devices 2>/tmp/devices.error
    code=$?; cat /tmp/devices.error; tail -2 /tmp/devices
    case $(uname -r) in
    6.1.*) [ $code -eq 3 ] && grep -q "(tcx): boot Linux 6.6" /tmp/devices.error ;;
    *) [ $code -eq 0 ] && grep -q "\"direction\":\"egress\"" /tmp/devices &&
        grep -q "\"direction\":\"ingress\"" /tmp/devices ;;
    esac'
check 'latency ping: from a container' '
    cofferdam latency ping 10.9.2.2 --container a -c 5 --json >/tmp/ping; code=$?
    cat /tmp/ping
    [ $code -eq 0 ] && grep -qE "\"added_us\":[0-9]|\"egress_[a-z_]*\":[0-9]" /tmp/ping'
check 'latency watch: draws on a terminal' '
    watch="stty rows 40 cols 120; TERM=xterm cofferdam latency watch"
    (sleep 60; printf q) | timeout 150 /bin/script -qec "$watch" /dev/null >/tmp/watch; code=$?
    tail -c 2000 /tmp/watch | tr "\033" "^"; [ $code -eq 0 ] && grep -q "coverage" /tmp/watch'
quiet a
cofferdam latency serve --socket /run/latency.sock >/tmp/serve 2>&1 &
server=$!
check 'latency serve: opens its socket' '
    await 150 "[ -S /run/latency.sock ] || ! kill -0 $server" && [ -S /run/latency.sock ]'
check 'latency serve: a container reads its own' '
    echo 0 >/sys/fs/cgroup/tenants/a/cgroup.procs
    /bin/ip netns exec a cofferdam latency ping 10.9.2.2 --socket /run/latency.sock -c 5 --json \
        >/tmp/served; code=$?
    cat /tmp/served; [ $code -eq 0 ]'
kill $server
wait $server
code=$?
[ $code -eq 130 ] # interrupted, after cleaning up
report 'latency serve: ends in good order' $? "exit code $code"
