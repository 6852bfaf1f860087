//! Wall-clock time as the store has it: milliseconds since 1970, possibly negative.

use std::time::{Duration, SystemTime};

/// End of the year 9999: RFC 3339 has no later time, and none before 1970 can be written here.
const LATEST_MS: u64 = 253_402_300_799_999;

pub(crate) fn ms(time: SystemTime) -> i64 {
    let limit = |d: Duration| i64::try_from(d.as_millis()).unwrap_or(i64::MAX);
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => limit(since),
        Err(before) => -limit(before.duration()),
    }
}

/// Nearest time that RFC 3339 can express.
pub(crate) fn time(ms: i64) -> SystemTime {
    let since = u64::try_from(ms).unwrap_or(0).min(LATEST_MS);
    SystemTime::UNIX_EPOCH + Duration::from_millis(since)
}
