//! Converts the kernel's monotonic clock to the time of day.

use nix::time::{ClockId, clock_gettime};
use std::fs;
use std::sync::OnceLock;
use std::time::{Duration, SystemTime};

/// Distance between the two clocks at one moment. It is taken again for every reading: a step of
/// the wall clock then shifts later times of day, but no latency.
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

    /// Returns the time of day of a moment of CLOCK_MONOTONIC.
    pub fn wall(&self, monotonic_ns: u64) -> SystemTime {
        if monotonic_ns <= self.monotonic_ns {
            let before = Duration::from_nanos(self.monotonic_ns - monotonic_ns);
            self.wall.checked_sub(before).unwrap_or(self.wall)
        } else {
            self.wall + Duration::from_nanos(monotonic_ns - self.monotonic_ns)
        }
    }
}

/// Returns CLOCK_MONOTONIC of the host, ns: the clock of all reports. In a time namespace a process
/// reads another clock, at a constant distance.
pub fn monotonic_ns() -> u64 {
    static OFFSET_NS: OnceLock<i64> = OnceLock::new();
    let offset_ns = *OFFSET_NS.get_or_init(|| {
        // Linux before 5.6, or without time namespaces, has no such file and no distance.
        let text = fs::read_to_string("/proc/self/timens_offsets").unwrap_or_default();
        offset_ns(&text)
    });
    let now = clock_gettime(ClockId::CLOCK_MONOTONIC)
        .map_or(0, |time| time.tv_sec() * 1_000_000_000 + time.tv_nsec());
    now.wrapping_sub(offset_ns).max(0).cast_unsigned()
}

/// Parses the offset of a time namespace to CLOCK_MONOTONIC, ns: a line
/// `monotonic SECONDS NANOSECONDS`.
fn offset_ns(text: &str) -> i64 {
    let mut lines = text.lines().map(str::split_ascii_whitespace);
    let found = lines.find_map(|mut words| {
        let seconds: i64 = match words.next()? {
            "monotonic" => words.next()?.parse().ok()?,
            _ => return None,
        };
        let nanoseconds: i64 = words.next()?.parse().ok()?;
        seconds.checked_mul(1_000_000_000)?.checked_add(nanoseconds)
    });
    found.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::Sample;
    use cofferdam_bpf::latency::Direction;

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

    #[test]
    fn the_distance_of_a_time_namespace_is_read() {
        let text = "monotonic      100000         5\nboottime            0         0\n";
        assert_eq!(offset_ns(text), 100_000_000_000_005);
        assert_eq!(offset_ns("monotonic -1 0"), -1_000_000_000);
        for text in ["", "boottime 1 1", "monotonic", "monotonic x y"] {
            assert_eq!(offset_ns(text), 0, "{text}");
        }
    }

    /// Promise 21.
    #[test]
    fn a_wall_clock_step_shifts_only_times_of_day() {
        let before = Clock::now();
        let after = Clock {
            wall: before.wall + Duration::from_secs(3600),
            ..before
        };
        let report = crate::stages::tests::report(Direction::Ingress, [Some(7); 5]);
        let [early, late] = [before, after].map(|clock| Sample::new(report.clone(), &clock));
        assert_eq!(early.stages, late.stages);
        assert_eq!(early.end_ns(), late.end_ns());
        let shift = late.time.duration_since(early.time).unwrap();
        assert_eq!(shift, Duration::from_secs(3600));
    }
}
