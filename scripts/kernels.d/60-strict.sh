# A CPU reservation is reverted, however the agent ends: SIGTERM, kill -9 and a restart, kill -9 and
# `agent --restore`.
. /steps/lib.sh

reserve() {
    start_agent <<END
[[rule]]
match = "cgroup:/tenants/a"
cpu = "strict"
cpus = 1
END
}
reserved() {
    [ -n "$(cat /sys/fs/cgroup/tenants/a/cpuset.cpus)" ] &&
        ! diff -q /sys/fs/cgroup/tenants/[ab]/cpuset.cpus.effective
}

snapshot /tmp/before
reserve
report 'strict: the agent starts' $?
check 'strict: a has CPUs of its own' 'await 20 reserved'
stop_agent
report 'strict, SIGTERM: exit code 0' $? "exit code $?: $(tail -1 /tmp/agent.log)"
same 'strict, SIGTERM: the host is as before' /tmp/before

reserve; await 20 reserved
kill -9 $agent; wait $agent 2>/dev/null
check 'strict, kill -9, --restore: exit code 0' 'cofferdam agent --restore'
same 'strict, kill -9, --restore: the host is as before' /tmp/before

reserve; await 20 reserved
kill -9 $agent; wait $agent 2>/dev/null
start_agent </dev/null
report 'strict, kill -9, restart: the agent starts' $?
stop_agent
report 'strict, kill -9, restart: exit code 0' $? "exit code $?: $(tail -1 /tmp/agent.log)"
same 'strict, kill -9, restart: the host is as before' /tmp/before
