//! Sleeping until a packet, a call, an order or a timer, and what wakes the loop.

use super::Engine;
use crate::tuning::idle::STUCK;
use cofferdam_netstack::Time;
use cofferdam_xsk::Port;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use std::os::fd::AsFd;

impl<P: Port> Engine<P> {
    /// Sleeps until a packet, a call, an order or a timer.
    pub(super) fn sleep(&mut self, now: Time) {
        // Counters of a long sleep are those of its beginning.
        self.shown_at = now;
        self.show();
        let mut calm = self.cores.sleep(true);
        for domain in self.domains.iter() {
            calm &= domain.sleep(true);
        }
        if calm && self.link.pending() == 0 {
            self.tally.sleeps += 1;
            self.block(now);
        }
        self.cores.sleep(false);
        for domain in self.domains.iter() {
            domain.sleep(false);
        }
    }

    fn block(&mut self, now: Time) {
        let timeout = self.stack.sleep_until().map(|at| at.since(now));
        let port = self.link.descriptor();
        let doors = self.cores.my_doors();
        let mut fds = [port, self.cores.me().bell.as_fd(), doors.as_fd()]
            .map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        let timeout = match self.link.is_stuck() && self.cores.is_many() {
            // Another core takes back what this one has sent on its queue, and sends no signal.
            true => Some(timeout.map_or(STUCK, |at| at.min(STUCK))),
            false => timeout,
        };
        // Interrupted or not: the loop looks at everything next.
        let _ = ppoll(&mut fds, timeout.map(TimeSpec::from), None);
        let [_, bell, door] = fds.map(|fd| fd.any().unwrap_or(false));
        if bell {
            // Of this process alone: no other can make it block.
            let _ = self.cores.me().bell.read();
        }
        if door {
            doors.rest();
        }
    }
}
