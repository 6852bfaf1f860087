# An agent is started while a flood already runs and every CPU is full. Meanwhile its threads are
# sampled: name, state and kernel stack, most frequent first. R without a stack is user mode.
. /steps/lib.sh

sample() { # PID
    while kill -0 "$1" 2>/dev/null && ! [ -e /tmp/sampled ]; do
        for task in /proc/"$1"/task/*; do
            echo "$(cat "$task/comm" 2>/dev/null) $(
                sed -n 's/^State:.//p' "$task/status" 2>/dev/null | cut -c1) $(
                sed 's/^\[<0>\] //; s/+.*//' "$task/stack" 2>/dev/null | head -6 | tr '\n' '<')"
        done
        sleep 0.2
    done >>/tmp/samples 2>/dev/null
}

flood() {
    inside c 0 sh -c 'while :; do :; done'
    inside a 1 bash -c 'while :; do echo datagram; done >/dev/udp/10.9.2.2/9000'
    flood_from_outside 1 10.9.2.2
    flood_from_outside 1 10.9.3.2
}

flood
rm -f /tmp/agent.pid
start_agent <<END &
[[rule]]
match = "cgroup:/tenants/*"
network_cpu = "enforce"
END
starter=$!
await 60 '[ -s /tmp/agent.pid ]'
agent=$(cat /tmp/agent.pid)
sample "$agent" &
sampler=$!
wait $starter
status=$?
touch /tmp/sampled; wait $sampler
report 'load under a flood: the agent starts' $status
echo "ticks of CPU (user, kernel): $(cut -d' ' -f14,15 "/proc/$agent/stat")"
sort /tmp/samples | uniq -c | sort -rn | head -12
kill "$agent"
await 60 '! kill -0 "$agent" 2>/dev/null'
report 'load under a flood: the agent ends' $?
quiet a b c
