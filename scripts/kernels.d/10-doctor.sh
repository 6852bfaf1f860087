. /steps/lib.sh
check 'doctor' 'cofferdam doctor && cofferdam doctor --json >/tmp/doctor.json'
# Optional for the accounting: doctor reports it if these programs cannot be loaded.
check 'doctor: interrupts are timed' \
	'tr -d " \n" </tmp/doctor.json | grep -q "\"id\":\"interrupts\",[^}]*\"status\":\"yes\""'
# Linux 6.1 has it: doctor must neither call it missing nor ask for an upgrade.
check 'doctor: threaded NAPI' '! grep -i "5\.12" /tmp/doctor.json'
