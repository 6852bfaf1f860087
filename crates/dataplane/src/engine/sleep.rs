//! Sleep of the loop until a packet, a call, an order or a timer.

use super::Engine;
use crate::tuning::idle::STUCK;
use cofferdam_netstack::{MOST_INTERFACES, Time};
use cofferdam_xsk::Port;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use std::iter;
use std::os::fd::AsFd;

impl<P: Port> Engine<P> {
    /// Sleeps until a packet, a call, an order or a timer.
    pub(super) fn sleep(&mut self, now: Time) {
        // During a long sleep the counters are those of its start.
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
        let doors = self.cores.my_doors();
        let watch = |fd| PollFd::new(fd, PollFlags::POLLIN);
        // The bell, the doors and the devices; further entries of the array are not polled.
        let mut fds = [(); 2 + MOST_INTERFACES].map(|()| watch(doors.as_fd()));
        let watched = iter::once(self.cores.me().bell.as_fd()).chain(iter::once(doors.as_fd()));
        let watched = watched.chain(self.link.descriptors());
        let mut count = 0;
        for (place, fd) in fds.iter_mut().zip(watched) {
            *place = watch(fd);
            count += 1;
        }
        let fds = fds.get_mut(..count).unwrap_or_default();
        let timeout = match self.link.is_stuck() && self.cores.is_many() {
            // Another core takes the frames that this one has sent on its queue, and does not
            // notify it.
            true => Some(timeout.map_or(STUCK, |at| at.min(STUCK))),
            false => timeout,
        };
        // After any return, interrupted or not, the loop checks everything.
        let _ = ppoll(fds, timeout.map(TimeSpec::from), None);
        let rang = |n: usize| fds.get(n).is_some_and(|fd| fd.any().unwrap_or(false));
        let (bell, door) = (rang(0), rang(1));
        if bell {
            // Only this process has the descriptor, so that nobody else can make it block.
            let _ = self.cores.me().bell.read();
        }
        if door {
            doors.take_rings();
        }
    }
}
