//! From the kernel's monotonic clock to the time of day.

use nix::time::{ClockId, clock_gettime};
use std::time::{Duration, SystemTime};

/// The distance between the two clocks, as it was at one moment. Taken anew for every reading:
/// a step of the wall clock then shifts the times that follow, and no latency.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    monotonic_ns: u64,
    wall: SystemTime,
}

impl Clock {
    /// Reads both clocks.
    pub fn now() -> Clock {
        Clock {
            monotonic_ns: monotonic_ns(),
            wall: SystemTime::now(),
        }
    }

    /// Time of day of a moment of CLOCK_MONOTONIC.
    pub fn wall(&self, monotonic_ns: u64) -> SystemTime {
        if monotonic_ns <= self.monotonic_ns {
            let before = Duration::from_nanos(self.monotonic_ns - monotonic_ns);
            self.wall.checked_sub(before).unwrap_or(self.wall)
        } else {
            self.wall + Duration::from_nanos(monotonic_ns - self.monotonic_ns)
        }
    }
}

/// CLOCK_MONOTONIC, ns: the clock of all reports.
pub fn monotonic_ns() -> u64 {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).map(Duration::from);
    time.map_or(0, |t| u64::try_from(t.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn past_and_future_keep_their_distance() {
        let clock = Clock::now();
        let past = clock.wall(clock.monotonic_ns - 1_000);
        let future = clock.wall(clock.monotonic_ns + 1_000);
        assert_eq!(
            future.duration_since(past).unwrap(),
            Duration::from_nanos(2_000)
        );
    }
}
