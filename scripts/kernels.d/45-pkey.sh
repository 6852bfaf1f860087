# Protection keys: every attack is stopped, and a dataplane runs an application behind them.
. /steps/lib.sh

report 'pkey: the CPU has protection keys' "$(grep -qw ospke /proc/cpuinfo; echo $?)" 'no ospke in /proc/cpuinfo'
ip link set lo up 2>/dev/null
cofferdam dataplane attack >/tmp/attack 2>&1
report 'pkey: every attack is stopped' $? "$(tail -1 /tmp/attack)"
cat /tmp/attack
