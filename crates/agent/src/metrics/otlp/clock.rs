//! Timestamps of pushes: the host's clock, made monotonic.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Slowdown of timestamps that are ahead of the host's clock: they advance by one part in this many
/// less than time. The clock catches up, and rates are too high by an eighth at most.
const SLOWER_BY: u32 = 9;

/// One moment on both clocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// Host's clock, which may be set.
    pub wall: SystemTime,
    /// Monotonic clock.
    pub at: Instant,
}

impl Moment {
    /// Reads both clocks.
    pub fn now() -> Moment {
        Moment {
            wall: SystemTime::now(),
            at: Instant::now(),
        }
    }
}

/// Source of timestamps that only grow. They follow the host's clock forwards, and continue from
/// the last one after it was set back.
#[derive(Debug, Default)]
pub(super) struct PushClock {
    last: Option<(u64, Instant)>,
}

impl PushClock {
    /// Timestamp of `moment`, nanoseconds since 1970; later than every one before. `None` for a
    /// moment that is not later than the last.
    pub fn advance(&mut self, moment: Moment) -> Option<u64> {
        let wall_ns = nanoseconds(moment.wall.duration_since(UNIX_EPOCH).unwrap_or_default());
        let unix_ns = match self.last {
            None => wall_ns,
            Some((_, at)) if moment.at <= at => return None,
            Some((last_ns, at)) => {
                let passed = moment.at.duration_since(at);
                let steady_ns = last_ns.saturating_add(nanoseconds(passed - passed / SLOWER_BY));
                wall_ns.max(steady_ns).max(last_ns.saturating_add(1))
            }
        };
        self.last = Some((unix_ns, moment.at));
        Some(unix_ns)
    }

    /// Last timestamp.
    pub fn last(&self) -> Option<u64> {
        self.last.map(|(unix_ns, _)| unix_ns)
    }
}

/// Converts `time` to nanoseconds.
pub(super) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise 22.
    #[test]
    fn timestamps_follow_the_clock_forwards_and_never_go_back() {
        let begin = Instant::now();
        let (second, hour) = (Duration::from_secs(1), Duration::from_secs(3600));
        let epoch = UNIX_EPOCH + 1000 * hour;
        let mut clock = PushClock::default();
        let mut time = |after: Duration, wall: SystemTime| {
            clock.advance(Moment {
                wall,
                at: begin + after,
            })
        };
        let first = time(Duration::ZERO, epoch);
        assert_eq!(first, Some(nanoseconds(1000 * hour)));
        // The clock jumps an hour forwards, then back: timestamps continue, a little slower than
        // time.
        let ahead = time(second, epoch + hour).expect("later");
        assert_eq!(ahead, nanoseconds(1001 * hour));
        let behind = time(2 * second, epoch + 2 * second).expect("later");
        assert_eq!(behind - ahead, nanoseconds(second - second / SLOWER_BY));
        // The timestamps meet the clock again.
        let later = time(10 * hour, epoch + 10 * hour);
        assert_eq!(later, Some(nanoseconds(1010 * hour)));
        // A moment in the past has no timestamp.
        assert_eq!(time(second, epoch + 20 * hour), None);
    }
}
