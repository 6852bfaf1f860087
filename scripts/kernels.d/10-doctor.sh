. /steps/lib.sh
check 'doctor' 'cofferdam doctor && cofferdam doctor --json >/tmp/doctor.json'
# What a kernel from 6.1 on has must not be told as missing, nor be asked to be upgraded to.
check 'doctor: threaded NAPI' '! grep -i "5\.12" /tmp/doctor.json'
