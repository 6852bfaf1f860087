. /steps/lib.sh
check 'doctor' 'cofferdam doctor && cofferdam doctor --json >/tmp/doctor.json'
# They are no part of the accounting, which would say so if they could not be loaded.
check 'doctor: interrupts are timed' \
	'tr -d " \n" </tmp/doctor.json | grep -q "\"id\":\"interrupts\",[^}]*\"status\":\"yes\""'
# What a kernel from 6.1 on has must not be told as missing, nor be asked to be upgraded to.
check 'doctor: threaded NAPI' '! grep -i "5\.12" /tmp/doctor.json'
