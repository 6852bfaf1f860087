# The agent's changes are all reverted, in each cgroup layout and however it ends. This step removes
# the scene and makes its own cgroups, so it comes after the others. s has a reservation, and
# interrupts are moved. n is flooded, so its interface, NAPI thread and weight are changed. o
# computes and is the victim. A kernel without the v1 cpuset controller uses that of v2, together
# with the v1 cpu controller.
# Promise 63.
# Promise 64.
. /steps/lib.sh

possible=$(cat /sys/devices/system/cpu/possible)
ip() { /bin/ip "$@"; }
# Ends the processes that a file lists. 0 is a process of another namespace, and `kill 0` would end
# this step.
end_processes() { for end in $(grep -vx 0 "$1"); do kill -9 "$end" 2>/dev/null; done; }

# The folders in which the containers' cgroups are.
hierarchies() {
    case $layout in
    v2) echo /sys/fs/cgroup ;;
    hybrid) echo /sys/fs/cgroup/unified /sys/fs/cgroup/cpu /sys/fs/cgroup/cpuacct $v1_cpuset ;;
    v1) echo /sys/fs/cgroup/unified /sys/fs/cgroup/cpu,cpuacct $v1_cpuset ;;
    esac
}

# Mounts controllers of cgroup v1. The kernel keeps the hierarchy of the last layout for some time
# after it is unmounted, and some kernels have no v1 cpuset.
mount_v1() { # CONTROLLERS
    at=/sys/fs/cgroup/$1
    mkdir "$at"
    await 120 "mount -t cgroup -o $1 $1 $at 2>/tmp/mount.log || ! grep -q busy /tmp/mount.log"
    grep -q " $at " /proc/mounts || { rmdir "$at"; return 1; }
}

lay_out() {
    v1_cpuset= cpusets=/sys/fs/cgroup
    if [ $layout = v2 ]; then
        mount -t cgroup2 cgroup2 /sys/fs/cgroup
        echo '+cpu +cpuset' >/sys/fs/cgroup/cgroup.subtree_control
        return
    fi
    mount -t tmpfs cgroups /sys/fs/cgroup
    mkdir /sys/fs/cgroup/unified
    mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified
    if mount_v1 cpuset; then
        v1_cpuset=/sys/fs/cgroup/cpuset cpusets=$v1_cpuset
    else
        cpusets=/sys/fs/cgroup/unified
        echo +cpuset >$cpusets/cgroup.subtree_control
    fi
    [ $layout = v1 ] && joined=cpu,cpuacct || joined='cpu cpuacct'
    for controllers in $joined; do
        mount_v1 $controllers
        report "undo, $layout: $controllers is mounted" $? "$(cat /tmp/mount.log)" || return
    done
}

remove_layout() {
    for directory in $(hierarchies); do
        rmdir "$directory/tenants"
        for controller in cpu cpuset; do
            echo -$controller >"$directory/cgroup.subtree_control"
        done 2>/dev/null
    done
    umount /sys/fs/cgroup/*/ 2>/dev/null
    umount /sys/fs/cgroup
}

# Makes a container. Its cpuset is empty where that is possible, unless $3 is given.
container() { # NAME NUMBER [CPUSET]
    for directory in $(hierarchies); do
        mkdir -p "$directory/tenants"
        if [ -e "$directory/cgroup.subtree_control" ]; then
            sed 's/[a-z]\+/+&/g' "$directory/cgroup.subtree_control" \
                >"$directory/tenants/cgroup.subtree_control"
        fi
        mkdir "$directory/tenants/$1"
        [ "$directory" = "$v1_cpuset" ] &&
            for cpuset in "$directory/tenants" "$directory/tenants/$1"; do
            echo "$possible" >"$cpuset/cpuset.cpus"; echo 0 >"$cpuset/cpuset.mems"
        done
    done
    [ -z "$3" ] || echo "$3" >"$cpusets/tenants/$1/cpuset.cpus"
    ip netns add "$1"
    ip link add "host-$1" type veth peer name eth0 netns "$1"
    ip addr add "10.9.$2.1/24" dev "host-$1"; ip link set "host-$1" up
    ip -n "$1" addr add "10.9.$2.2/24" dev eth0
    ip -n "$1" link set lo up; ip -n "$1" link set eth0 up
    ip netns exec "$1" sh -c 'echo 1 >/sys/class/net/eth0/queues/rx-0/rps_cpus'
    join "$1" sleep 1000000
}
join() { # NAME COMMAND...
    join_name=$1; shift
    (for directory in $(hierarchies); do echo 0 >"$directory/tenants/$join_name/cgroup.procs"; done
     exec /bin/ip netns exec "$join_name" "$@") >/dev/null 2>&1 </dev/null &
}
remove_containers() { # NAME...
    for removed in "$@"; do
        for directory in $(hierarchies); do
            end_processes "$directory/tenants/$removed/cgroup.procs"
        done
        ip link del "host-$removed"; ip netns del "$removed"
        for directory in $(hierarchies); do
            await 20 "rmdir $directory/tenants/$removed 2>/dev/null"
        done
    done
}

# Writes the state of the host: the shared snapshot, cgroup v1, and the allowed CPUs of threads.
state() { # FILE
    snapshot /tmp/state
    {
        grep -vE '^/sys/fs/cgroup/[a-z,]*/cgroup.procs' /tmp/state
        find /sys/fs/cgroup -name cpu.shares -o -name cpu.cfs_quota_us -o -name cpuset.cpus | sort |
            grep -v '/unified/' | while read -r file; do
                [ $layout = v2 ] || echo "$file $(cat "$file")"
            done
        for directory in $(hierarchies); do
            for task in $(cat "$directory"/tenants/*/cgroup.procs); do
                echo "$directory $task $(grep Cpus_allowed_list "/proc/$task/status")"
            done
        done | sort
        cat /proc/irq/default_smp_affinity
        cat /proc/[0-9]*/comm 2>/dev/null | grep ^napi/ | sort
    } >"$1"
}
as_before() {
    for as_before_try in 1 2 3 4; do
        state /tmp/now
        diff /tmp/before /tmp/now >/tmp/difference && return
        sleep 1
    done
    cat /tmp/difference /tmp/agent.log
    return 1
}
ended() { # EXIT_CODE
    : >/tmp/difference
    [ "$1" -eq 0 ] && as_before
    report "undo, $layout, $ending" $? "exit code $1, differs: $(grep -m2 '^[-+]/' /tmp/difference)"
}

rules() {
    echo 'reservation.move_irqs = true'
    [ "$1" = none ] || printf '[[rule]]\nmatch = "cgroup:/tenants/%s"\n%s\n' \
        s 'cpu = "strict"
cpus = 1' n 'network_cpu = "enforce"'
}
applied() {
    [ "$(cat "$cpusets/tenants/s/cpuset.cpus")" = 1 ] &&
        [ "$(cat /proc/irq/default_smp_affinity)" = 1 ] &&
        cat /proc/[0-9]*/comm 2>/dev/null | grep -q ^napi/
}
# Whether a cpuset that was empty again follows CPUs that come and go, and the cgroup above it.
follows() {
    above=/sys/fs/cgroup/tenants effective=/sys/fs/cgroup/tenants/s/cpuset.cpus.effective
    echo 0 >/sys/devices/system/cpu/cpu1/online
    [ "$(cat $effective)" = 0 ]; went=$?
    echo 1 >/sys/devices/system/cpu/cpu1/online
    await 30 "[ \$(cat $effective) = $possible ]"; came=$?
    echo 0 >$above/cpuset.cpus
    [ "$(cat $effective)" = 0 ]; narrow=$?
    echo "$possible" >$above/cpuset.cpus
    [ "$(cat $effective)" = "$possible" ]; wide=$?
    [ "$went$came$narrow$wide" = 0000 ]
}

for name in a b c; do
    end_processes /sys/fs/cgroup/tenants/$name/cgroup.procs
    ip link del host-$name; ip netns del $name
    await 10 "rmdir /sys/fs/cgroup/tenants/$name 2>/dev/null"
done
layout=v2 v1_cpuset=
remove_layout
for layout in v2 hybrid v1; do
    lay_out || { remove_layout; continue; }
    container o 3 "$possible"
    # May use any CPU: before Linux 6.2 a thread loses its own affinity whenever a cpuset changes.
    join o sh -c 'while :; do :; done'
    for ending in SIGTERM restart restore reload gone; do
        container s 1; container n 2
        # Compared with o its share is so small that no weight can repay a flood, only a NAPI
        # thread.
        for directory in $(hierarchies); do
            [ ! -e "$directory/tenants/n/cpu.weight" ] || echo 10 >"$directory/tenants/n/cpu.weight"
            [ ! -e "$directory/tenants/n/cpu.shares" ] ||
                echo 102 >"$directory/tenants/n/cpu.shares"
        done
        sleep 1
        state /tmp/before
        rules >/tmp/rules
        start_agent </tmp/rules
        flood_from_outside 1 10.9.2.2
        await 150 applied
        report "undo, $layout, $ending: in force" $? \
            "$(cat "$cpusets/tenants/s/cpuset.cpus") $(tail -1 /tmp/agent.log)"
        quiet
        case $ending in
        SIGTERM) stop_agent; ended $? ;;
        restart)
            kill -9 "$agent"; wait "$agent" 2>/dev/null
            rules none >/tmp/rules; start_agent </tmp/rules; stop_agent; ended $? ;;
        restore)
            kill -9 "$agent"; wait "$agent" 2>/dev/null
            cofferdam agent --restore; ended $?
            [ $layout != v2 ] || { follows; report "undo, $layout: the cpuset follows" $?; } ;;
        reload)
            rules none >/tmp/agent.toml
            cofferdam agent --reload; code=$?
            none='"changes_in_force": ?0[,}]'
            [ $code -ne 0 ] ||
                await 20 'cofferdam status --json | grep -qE "$none"' || code=99
            state /tmp/now
            # The running agent has its programs and files; everything else is as it was.
            diff /tmp/before /tmp/now | grep '^[-+][^-+[:space:]]' |
                grep -vE 'bpf|\.lock|agent\.sock|/run/cofferdam' >/tmp/difference
            [ $code -eq 0 ] && [ ! -s /tmp/difference ]
            report "undo, $layout, $ending: at once" $? "exit code $code, $(cat /tmp/difference)"
            stop_agent; ended $? ;;
        gone)
            remove_containers s n
            stop_agent; code=$?
            [ $code -eq 0 ] && [ ! -e /run/cofferdam ] &&
                [ "$(cat "$cpusets/tenants/o/cpuset.cpus")" = "$possible" ] &&
                [ "$(cat /proc/irq/default_smp_affinity)" = 3 ]
            report "undo, $layout, $ending" $? \
                "exit code $code, o has $(cat "$cpusets/tenants/o/cpuset.cpus"), $(
                    ls /run/cofferdam 2>&1)" ;;
        esac
        [ $ending = gone ] || remove_containers s n
    done
    remove_containers o
    remove_layout
done
# The layout that the guest started with. The kernel gives controllers back some time after their v1
# hierarchy is unmounted.
mount -t cgroup2 cgroup2 /sys/fs/cgroup
controllers=/sys/fs/cgroup/cgroup.controllers
check 'undo: cgroup v2 has its controllers again' \
    'await 60 "grep -qw cpuset $controllers && grep -qw cpu $controllers"'
