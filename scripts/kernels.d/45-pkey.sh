# Protection keys. Every attack on them is stopped. A dataplane serves an application behind them,
# and a fault of that application ends it and no other.
# Promise 69.
. /steps/lib.sh

grep -qw ospke /proc/cpuinfo
report 'pkey: the CPU has protection keys' $? 'no ospke in /proc/cpuinfo'
cofferdam dataplane attack >/tmp/attack 2>&1
report 'pkey: every attack is stopped' $? \
    "$(grep -m 1 SUCCEEDED /tmp/attack || tail -1 /tmp/attack)"
cat /tmp/attack

snapshot /tmp/before
/bin/ip netns add server; /bin/ip netns add client
/bin/ip -n server link add eth0 type veth peer name eth0 netns client
/bin/ip -n server link set eth0 up; /bin/ip -n client link set eth0 up
/bin/ip -n client address add 10.0.0.2/24 dev eth0
/bin/ip netns exec client ethtool -K eth0 tx off

# Starts a dataplane with two applications: `hot` runs the program $1 behind protection keys, `web`
# is a process.
start() {
    cat >/tmp/dataplane.toml <<END
device.name = "eth0"
network.addresses = ["10.0.0.9/24"]

[[application]]
name = "hot"
user = "nobody"
bind = ["tcp/10.0.0.9:7"]
domain = "pkey"
program = "$1 10.0.0.9:7"

[[application]]
name = "web"
user = "nobody"
bind = ["tcp/10.0.0.9:80"]
END
    /bin/ip netns exec server cofferdam dataplane run --config /tmp/dataplane.toml \
        >/tmp/dataplane.log 2>&1 &
    dataplane=$!
    await 60 'grep -q serving /tmp/dataplane.log || ! kill -0 $dataplane' && kill -0 $dataplane
}
# Sends the line $1 from the client's namespace and prints the answer of the next five seconds.
exchange() {
    timeout 20 /bin/ip netns exec client bash -c \
        "exec 3<>/dev/tcp/10.0.0.9/7 && echo '$1' >&3 && read -r -t 5 line <&3; echo \"\$line\""
}
page() {
    /bin/ip netns exec client curl -s -m 10 http://10.0.0.9/ | grep -q 'Served by the dataplane'
}
offence() { cofferdam dataplane top --json | grep last_offence; }
start_web() {
    /bin/setpriv --reuid nobody --clear-groups \
        cofferdam dataplane serve http 10.0.0.9:80 --name web >/tmp/web.log 2>&1 &
    web=$!
}

start faulty
report 'pkey: a dataplane starts' $? "$(tail -1 /tmp/dataplane.log)"
check 'pkey: its application answers' '[ "$(exchange hello)" = hello ]'
check 'pkey: the status names the domain' \
    'cofferdam dataplane top --json | grep -q "\"domain\": \"pkey\""'
check "pkey: the loop has no rights but a user's" '
    for task in /proc/$dataplane/task/*; do [ "$(cat $task/comm)" != "core 0" ] || core=$task; done
    grep -E "^(Uid|CapEff|CapPrm|Seccomp|NoNewPrivs):" $core/status
    grep -q "^Uid:.65534.65534.65534.65534" $core/status && grep -q "^CapEff:.0*$" $core/status &&
        grep -q "^NoNewPrivs:.1" $core/status && grep -q "^Seccomp:.2" $core/status'
start_web
check 'pkey: a process is served at the same time' 'await 40 page'
exchange 'write to what is not yours' >/dev/null
check 'pkey: a write to the dataplane'"'"'s memory ends it' \
    'await 10 "offence | grep \"hot: it wrote to the dataplane.s memory\""; offence | grep -q hot:'
check 'pkey: its end is reported' 'grep "application ended: hot: it wrote" /tmp/dataplane.log'
check 'pkey: the process is still served' 'page && page'
kill $web; wait $web 2>/dev/null
start_web
check 'pkey: a process that ended is attached again' 'await 40 page'
kill $dataplane
wait $dataplane
report 'pkey: ends in good order' $? "exit code $?: $(tail -1 /tmp/dataplane.log)"
wait $web 2>/dev/null
cat /tmp/dataplane.log

for word in null exit panic; do
    start faulty
    exchange $word >/dev/null
    check "pkey: $word ends the application alone" \
        'await 10 "offence | grep hot:"; kill -0 $dataplane; offence | grep -q hot:'
    kill $dataplane; wait $dataplane
done
start faulty
exchange spin >/dev/null
kill $dataplane
check 'pkey: one that never returns does not keep the dataplane' \
    'await 10 "! kill -0 $dataplane"; ! kill -0 $dataplane'
wait $dataplane
cat /tmp/dataplane.log
grep -q 'did not return to the dataplane' /tmp/dataplane.log
report 'pkey: and is named' $? "$(tail -1 /tmp/dataplane.log)"
rm -f /tmp/dataplane.toml
/bin/ip netns del server; /bin/ip netns del client
same 'pkey: the host is as before' /tmp/before
