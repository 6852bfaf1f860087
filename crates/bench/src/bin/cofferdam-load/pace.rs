//! Open-loop schedule: when each operation is due, whatever became of earlier ones.

use std::time::Duration;

/// Delay above which an operation is given up.
pub const GIVE_UP: Duration = Duration::from_millis(500);

/// Steady rate.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    per_s: f64,
}

impl Pace {
    /// Schedule of `per_s` operations a second; 0 or less: as fast as possible.
    pub fn new(per_s: f64) -> Option<Pace> {
        (per_s > 0.0).then_some(Pace { per_s })
    }

    /// Due time of operation `index` (from 0).
    pub fn due(&self, index: u64) -> Duration {
        Duration::from_secs_f64(index as f64 / self.per_s)
    }

    /// Index of the first operation that is not too late at `now`.
    pub fn first_in_time(&self, now: Duration) -> u64 {
        let oldest = now.saturating_sub(GIVE_UP).as_secs_f64();
        (oldest * self.per_s).ceil() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schedule_is_fixed_and_late_turns_are_skipped() {
        assert!(Pace::new(0.0).is_none());
        let pace = Pace::new(1000.0).unwrap();
        assert_eq!(pace.due(0), Duration::ZERO);
        assert_eq!(pace.due(500), Duration::from_millis(500));
        assert_eq!(pace.first_in_time(Duration::from_millis(400)), 0);
        assert_eq!(pace.first_in_time(Duration::from_millis(1500)), 1000);
    }
}
