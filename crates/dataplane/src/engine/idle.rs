//! When to stop polling. Polling pays while the next packet is likely to come before a sleeper
//! could have been woken; sleeping pays when it is far away.

use super::Engine;
use cofferdam_netstack::Time;
use cofferdam_xsk::Port;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use std::os::fd::AsFd;
use std::time::Duration;

/// Weight of the newest gap in the mean.
const NEWEST: f64 = 1.0 / 8.0;

/// What one polls after work where the next is far away: what belongs together often comes close.
const MOMENT: Duration = Duration::from_micros(50);

/// When to try again to send what the device refused.
const STUCK: Duration = Duration::from_millis(1);

/// Follows the gaps between bursts of work.
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

    /// Something was done. What comes within a moment belongs to it and tells nothing of gaps.
    pub fn worked(&mut self, now: Time) {
        let gap = now.since(self.last_work);
        self.last_work = now;
        if gap < MOMENT {
            return;
        }
        let gap = gap.as_nanos() as f64;
        // One long silence must not make the next minute slow.
        let gap = gap.min(4.0 * self.most.as_nanos() as f64);
        self.mean_gap_ns += (gap - self.mean_gap_ns) * NEWEST;
    }

    /// How long to poll after the last work: some gaps' length, at most `most`. Where the mean
    /// gap is longer than that, polling would mostly be in vain: a moment only.
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

impl<P: Port> Engine<P> {
    /// Sleeps until a packet, a call, an order or a timer.
    pub(super) fn sleep(&mut self, now: Time) {
        // Counters of a long sleep are those of its beginning.
        self.since_shown = now;
        self.show();
        let mut calm = self.cores.sleep(true);
        for domain in self.domains.iter().flatten() {
            calm &= domain.inside.end.sleep(true);
        }
        if calm && self.port.pending() == 0 {
            self.tally.sleeps += 1;
            self.block(now);
        }
        self.cores.sleep(false);
        for domain in self.domains.iter().flatten() {
            domain.inside.end.sleep(false);
        }
    }

    fn block(&mut self, now: Time) {
        let timeout = self.stack.sleep_until().map(|at| at.since(now));
        let port = self.port.descriptor();
        let doors = self.cores.my_doors();
        let mut fds = [port, self.cores.me().bell.as_fd(), doors.as_fd()]
            .map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        let timeout = match self.is_stuck && self.cores.is_many() {
            // Another core takes back what this one has sent on its queue, and tells nobody.
            true => Some(timeout.map_or(STUCK, |at| at.min(STUCK))),
            false => timeout,
        };
        // Interrupted or not: the loop looks at everything next.
        let _ = ppoll(&mut fds, timeout.map(TimeSpec::from), None);
        let [_, bell, door] = fds.map(|fd| fd.any().unwrap_or(false));
        if bell {
            // Of this process alone: nobody else can make it block.
            let _ = self.cores.me().bell.read();
        }
        if door {
            doors.rest();
        }
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

    #[test]
    fn it_polls_through_short_gaps_and_sleeps_through_long_ones() {
        let busy = after_gaps(Duration::from_micros(100));
        assert!(!busy.should_sleep(busy.last_work + Duration::from_micros(900)));
        assert!(busy.should_sleep(busy.last_work + MOST));
        let quiet = after_gaps(Duration::from_millis(10));
        assert!(quiet.should_sleep(quiet.last_work + MOMENT));
    }

    #[test]
    fn turns_of_one_burst_are_no_gaps() {
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
