//! Decision when to stop polling. Polling pays if the next packet probably arrives before a sleeper
//! would be awake; otherwise sleeping pays.

use crate::tuning::idle::{LONGEST_GAP, MOMENT, NEWEST};
use cofferdam_netstack::Time;
use std::time::Duration;

/// Mean gap between bursts of work.
#[derive(Debug)]
pub(super) struct Idle {
    most: Duration,
    last_work: Time,
    mean_gap_ns: f64,
}

impl Idle {
    pub fn new(most: Duration) -> Idle {
        Idle {
            most,
            last_work: Time::ZERO,
            mean_gap_ns: 0.0,
        }
    }

    /// Records work. Work within a moment belongs to the same burst and is no gap.
    pub fn worked(&mut self, now: Time) {
        let gap = now.since(self.last_work);
        self.last_work = now;
        if gap < MOMENT {
            return;
        }
        let gap = gap.as_nanos() as f64;
        let gap = gap.min(LONGEST_GAP * self.most.as_nanos() as f64);
        self.mean_gap_ns += (gap - self.mean_gap_ns) * NEWEST;
    }

    /// Time to poll after the last work: a multiple of the mean gap, at most `most`. With a longer
    /// mean gap most polling would be wasted, so that the loop polls for a moment only.
    pub fn patience(&self) -> Duration {
        let most = self.most.as_nanos() as f64;
        if self.mean_gap_ns > most {
            return self.most.min(MOMENT);
        }
        self.most
    }

    pub fn should_sleep(&self, now: Time) -> bool {
        now.since(self.last_work) >= self.patience()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: Duration = Duration::from_millis(1);

    fn after_gaps(gap: Duration) -> Idle {
        let mut idle = Idle::new(MOST);
        let mut now = Time::ZERO;
        for _ in 0..100 {
            now = now + gap;
            idle.worked(now);
        }
        idle
    }

    /// Promise 54.
    #[test]
    fn it_polls_through_short_gaps_and_sleeps_through_long_ones() {
        let busy = after_gaps(Duration::from_micros(100));
        assert!(!busy.should_sleep(busy.last_work + Duration::from_micros(900)));
        assert!(busy.should_sleep(busy.last_work + MOST));
        let quiet = after_gaps(Duration::from_millis(10));
        assert!(quiet.should_sleep(quiet.last_work + MOMENT));
    }

    /// Promise 54.
    #[test]
    fn turns_of_one_burst_do_not_count_as_gaps() {
        let mut idle = after_gaps(MOST * 2);
        for _ in 0..100 {
            idle.worked(idle.last_work + Duration::from_micros(3));
            idle.worked(idle.last_work + MOST * 2);
        }
        assert_eq!(idle.patience(), MOMENT);
    }

    #[test]
    fn one_long_silence_is_soon_forgotten() {
        let mut idle = after_gaps(Duration::from_micros(100));
        let mut now = idle.last_work + Duration::from_secs(60);
        idle.worked(now);
        for _ in 0..8 {
            now = now + Duration::from_micros(100);
            idle.worked(now);
        }
        assert_eq!(idle.patience(), MOST);
    }
}
