# Functions of the steps. A step is a file NN-name.sh in this folder. It starts with
# `. /steps/lib.sh`, prints what it likes, and one line per check: `== NAME: ok (seconds)` or
# `== NAME: FAILED reason`. It leaves no process and no traffic behind. Each runs in busybox's
# shell; a check may end early. Programs that busybox has as well are called by their path:
# otherwise its shell takes its own.

began=$(cut -d. -f1 /proc/uptime)

now() { cut -d. -f1 /proc/uptime; }

# Prints the result of a check: report NAME STATUS [REASON]. Its time counts from the last report.
report() {
    took=$(($(now) - began))
    # A command may have left the cursor in the middle of a line.
    if [ "$2" -eq 0 ]; then
        printf '\n== %s: ok (%s s)\n' "$1" "$took"
    else
        printf '\n== %s: FAILED %s (%s s)\n' "$1" "${3:-exit code $2}" "$took"
    fi
    began=$(now)
    [ "$2" -eq 0 ]
}

# Runs a shell command and reports how it ended: check NAME COMMAND.
check() {
    (eval "$2")
    report "$1" $?
}

# Waits until a shell command is true: await SECONDS COMMAND.
await() {
    await_end=$(($(now) + $1))
    until eval "$2"; do
        [ "$(now)" -lt "$await_end" ] || return 1
        sleep 1
    done
}

# Whether the agent's socket answers.
agent_is_up() { cofferdam status >/dev/null 2>&1; }

# Starts the agent with the rules on standard input; waits until it answers. Its id is in $agent,
# and for another shell in /tmp/agent.pid (`pidof` also finds clients such as `status`).
start_agent() {
    cat >/tmp/agent.toml
    cofferdam agent --config /tmp/agent.toml >/tmp/agent.log 2>&1 &
    agent=$!
    echo "$agent" >/tmp/agent.pid
    await 150 'agent_is_up || ! kill -0 $agent 2>/dev/null' && agent_is_up
}

# Ends the agent by SIGTERM; returns its exit code.
stop_agent() {
    kill "$agent"
    wait "$agent"
}

# Runs a command inside a container of the scene, on one CPU: inside NAME CPU COMMAND...
inside() {
    inside_name=$1 inside_cpu=$2; shift 2
    (echo 0 >"/sys/fs/cgroup/tenants/$inside_name/cgroup.procs"
     exec taskset -c "$inside_cpu" /bin/ip netns exec "$inside_name" "$@") \
         >/dev/null 2>&1 </dev/null &
}

# Ends every process inside a container of the scene, except for its first, which keeps it alive.
quiet() {
    for quiet_name in "$@"; do
        for quiet_pid in $(cat "/sys/fs/cgroup/tenants/$quiet_name/cgroup.procs"); do
            [ "$quiet_pid" = "$(cat "/run/scene/$quiet_name")" ] ||
                kill -9 "$quiet_pid" 2>/dev/null
        done
    done
    for quiet_pid in $(cat /run/scene/outside 2>/dev/null); do
        kill -9 "$quiet_pid" 2>/dev/null
    done
    rm -f /run/scene/outside
}

# Floods the address $2 from CPU $1, from outside the host: no container causes this traffic.
flood_from_outside() {
    /bin/ip netns exec outside taskset -c "$1" \
        bash -c "while :; do echo datagram; done >/dev/udp/$2/9000" >/dev/null 2>&1 </dev/null &
    echo $! >>/run/scene/outside
}

# Writes everything on the host that cofferdam may change to a file, as text.
snapshot() {
    {
        find /sys/fs/cgroup -type d | sort | while read -r dir; do
            for knob in cpu.weight cpu.weight.nice cpu.max cpu.idle cpuset.cpus \
                cpuset.cpus.effective cpuset.mems cpuset.cpus.partition \
                cgroup.subtree_control cgroup.type cgroup.procs; do
                [ -e "$dir/$knob" ] || continue
                value=$(tr '\n' ' ' <"$dir/$knob" 2>/dev/null)
                # A populated cgroup refuses an empty list: that of its parent has the same effect.
                [ "$knob" != cpuset.cpus ] ||
                    [ "$value" != "$(tr '\n' ' ' <"$dir/../cpuset.cpus.effective")" ] || value=' '
                echo "$dir/$knob: $value"
            done
            # In v2 an empty list means all possible CPUs, and a cgroup with processes refuses it.
        done | sed "s|/cpuset.cpus: *$|/cpuset.cpus: $(cat /sys/devices/system/cpu/possible) |" |
            grep -v '/sys/fs/cgroup/cgroup.procs'
        for netns in '' $(ls /run/netns); do
            echo "namespace ${netns:-host}"
            in_netns "$netns" sh -c '
                /bin/ip -d link | sed "s/ qlen [0-9]*//"
                /bin/ip addr | grep inet | sed "s/ tentative//"; /bin/ip rule; /bin/ip route
                /bin/tc qdisc
                for d in /sys/class/net/*; do /bin/tc filter show dev ${d##*/} ingress
                ethtool -k ${d##*/} 2>/dev/null; ethtool -l ${d##*/} 2>/dev/null; done
                for f in /sys/class/net/*/threaded /sys/class/net/*/gro_flush_timeout \
                    /sys/class/net/*/napi_defer_hard_irqs /sys/class/net/*/queues/*/?ps_*; do
                    [ ! -e $f ] || echo "$f: $(cat $f 2>/dev/null)"; done'
        done
        bpftool prog show | sed -n 's/^[0-9]*: \([^ ]* *name [^ ]*\).*/bpf program \1/p' | sort
        bpftool link show | sed 's/^[0-9]*:/bpf link/'
        ls /sys/fs/bpf /run/cofferdam 2>&1
        grep . /proc/irq/*/smp_affinity_list 2>/dev/null
        grep -v '^proc ' /proc/mounts
        sysctl -a 2>/dev/null |
            grep -E '^net\.(core|ipv4\.ip_forward)|^kernel\.(bpf|sched|unpriv)' | grep -v random
    } >"$1"
}

in_netns() {
    in_netns_name=$1; shift
    if [ -n "$in_netns_name" ]; then /bin/ip netns exec "$in_netns_name" "$@"; else "$@"; fi
}

# Reports whether the host is as it was: same NAME BEFORE.
same() {
    snapshot /tmp/now
    # A thread that has just ended may show for another moment.
    for same_try in 1 2 3; do
        diff -U 0 "$2" /tmp/now | grep '^[-+][^-+]' >/tmp/difference || break
        sleep 1; snapshot /tmp/now
    done
    cat /tmp/difference
    [ ! -s /tmp/difference ]
    report "$1" $? "$(grep -c . /tmp/difference) lines differ: $(head -1 /tmp/difference)"
}
