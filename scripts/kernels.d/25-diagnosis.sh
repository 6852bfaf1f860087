# Diagnosis of waiting. a and c compute on CPU 0, so each is the other's neighbour. A host task that
# wakes up there all the time and runs for a moment between them is neither's.
. /steps/lib.sh

start_agent </dev/null
report 'diagnosis: the agent starts' $?
inside a 0 sh -c 'while :; do :; done'
inside c 0 sh -c 'while :; do :; done'
mkfifo /tmp/never
taskset -c 0 bash -c 'exec 3<>/tmp/never; while :; do read -t 0.003 -u 3; done' &
host=$!
sleep 5
cofferdam status --json >/tmp/status.json
grep -oE '"(name|kind|entitled_by|got_ns|entitled_ns|forced_sharing_ns)": ?[^,}]*' \
    /tmp/status.json | tr '\n' ' '; echo
tr -d '\n' </tmp/status.json >/tmp/status.line
has_neighbour() { # NAME NEIGHBOUR
    grep -qE "\"name\": *\"$1\",[^{}]*\"neighbour\": *\{[^}]*\"name\": *\"$2\"" /tmp/status.line
}
check 'diagnosis: status names c as the neighbour of a' 'has_neighbour a c'
check 'diagnosis: status names a as the neighbour of c' 'has_neighbour c a'
cofferdam status
quiet a c
kill $host
# No container loses time any more. The agent now counts in windows, and each starts with a record
# of the task that runs on each CPU.
windows() {
    cofferdam status --json | tr -d '\n' >/tmp/status.line
    grep -qE '"counted_s": *[0-9]' /tmp/status.line
}
await 60 windows
check 'diagnosis: counts in windows when nobody loses anything' windows
check 'diagnosis: windows can be begun' '! grep -q diagnosis_unreadable /tmp/status.line'
stop_agent
report 'diagnosis: the agent ends in good order' $?
