//! Wall-clock time as the store has it: milliseconds since 1970, also before.

use std::time::{Duration, SystemTime};

pub(crate) fn ms(time: SystemTime) -> i64 {
    let limit = |d: Duration| i64::try_from(d.as_millis()).unwrap_or(i64::MAX);
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => limit(since),
        Err(before) => -limit(before.duration()),
    }
}

/// The nearest time that the system can express.
pub(crate) fn time(ms: i64) -> SystemTime {
    let length = Duration::from_millis(ms.unsigned_abs());
    let epoch = SystemTime::UNIX_EPOCH;
    let found = if ms < 0 {
        epoch.checked_sub(length)
    } else {
        epoch.checked_add(length)
    };
    found.unwrap_or(epoch)
}
