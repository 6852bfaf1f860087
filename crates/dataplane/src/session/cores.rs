//! The rings of the dataplane's cores, and where its flow groups are.

use crate::abi::{Entry, Parts};
use crate::ring::ApplicationEnd;
use crate::tuning::MOST_CORES;
use cofferdam_netstack::FLOW_GROUPS;
use nix::sys::eventfd::EventFd;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// One core's rings.
pub(super) struct CoreEnd {
    pub end: ApplicationEnd,
    door: EventFd,
    /// Calls that found the ring full.
    waiting: VecDeque<Entry>,
    /// A flow group that has arrived here, and the core whose ring must be read first up to where
    /// it left.
    pub stalled: Option<(u8, u8)>,
    /// A report of a connection that has come in part.
    pub parts: Parts,
}

impl CoreEnd {
    pub fn new((end, door): (ApplicationEnd, EventFd)) -> CoreEnd {
        CoreEnd {
            end,
            door,
            waiting: VecDeque::new(),
            stalled: None,
            parts: Parts::default(),
        }
    }

    /// Puts what `moved` makes of the door in its place; the number.
    pub fn move_door(
        &mut self,
        moved: impl Fn(BorrowedFd<'_>) -> io::Result<OwnedFd>,
    ) -> io::Result<RawFd> {
        // SAFETY: a copy of an eventfd's descriptor.
        self.door = unsafe { EventFd::from_owned_fd(moved(self.door.as_fd())?) };
        Ok(self.door.as_raw_fd())
    }

    /// A call, behind those before it.
    #[inline(always)]
    pub fn push(&mut self, entry: Entry) {
        if !self.waiting.is_empty() || !self.end.push(entry) {
            self.waiting.push_back(entry);
        }
    }

    /// Shows the core all calls that its ring takes, and wakes it when it sleeps.
    pub fn flush(&mut self) {
        while let Some(entry) = self.waiting.front() {
            if !self.end.push(*entry) {
                break;
            }
            self.waiting.pop_front();
        }
        self.end.release();
        let is_stuck = !self.waiting.is_empty() && self.end.is_broken();
        if self.end.publish() || is_stuck {
            // A full counter rings as well.
            let _ = self.door.write(1);
        }
    }
}

/// Where the flow groups are, as far as this application has read.
pub(super) struct Groups {
    core: [u8; FLOW_GROUPS as usize],
    /// How many each core has.
    counts: [u8; MOST_CORES],
    /// Groups that have left a core and not been seen to arrive.
    left: Vec<(u8, u8)>,
    /// Moves of each group whose `Settled` has not come: its calls wait.
    unsettled: [u8; FLOW_GROUPS as usize],
}

impl Groups {
    /// With the owners that the dataplane gave; without them, all are the first core's.
    pub fn new(owners: &[u8]) -> Groups {
        let mut groups = Groups {
            core: [0; FLOW_GROUPS as usize],
            counts: [0; MOST_CORES],
            left: Vec::new(),
            unsettled: [0; FLOW_GROUPS as usize],
        };
        groups.counts[0] = FLOW_GROUPS;
        for (group, core) in (0..FLOW_GROUPS).zip(owners) {
            groups.is_at(group, usize::from(*core));
        }
        groups
    }

    /// The group is on `core`: a condition says so, or a connection of it has opened there.
    pub fn is_at(&mut self, group: u8, core: usize) {
        let place = self.core.get_mut(usize::from(group));
        let (Some(place), true) = (place, core < MOST_CORES) else {
            return;
        };
        let before = usize::from(std::mem::replace(place, core as u8));
        if let Some(count) = self.counts.get_mut(before) {
            *count -= 1;
        }
        if let Some(count) = self.counts.get_mut(core) {
            *count += 1;
        }
    }

    /// The next of `cores` behind `last` that has groups.
    pub fn next_in_use(&self, last: usize, cores: usize) -> usize {
        let behind = (1..=cores).map(|n| (last + n) % cores);
        let mut used = behind.filter(|core| self.counts.get(*core) > Some(&0));
        used.next().unwrap_or(0)
    }

    /// Whether the calls of the group's connections must wait.
    pub fn is_unsettled(&self, group: u8) -> bool {
        self.unsettled.get(usize::from(group)) > Some(&0)
    }

    /// The core that has the group.
    pub fn core(&self, group: u8) -> usize {
        self.core
            .get(usize::from(group))
            .copied()
            .map_or(0, usize::from)
    }

    /// The group has left a core.
    pub fn left(&mut self, group: u8, core: usize) {
        self.left.push((group, core as u8));
    }

    /// Whether it was read that the group has left a core; it counts once.
    pub fn take_left(&mut self, group: u8, core: u8) -> bool {
        let place = self.left.iter().position(|left| *left == (group, core));
        place.map(|place| self.left.swap_remove(place)).is_some()
    }

    /// The group has arrived on `core`: its calls wait until that is settled.
    pub fn arrived(&mut self, group: u8, core: usize) {
        self.is_at(group, core);
        if let Some(count) = self.unsettled.get_mut(usize::from(group)) {
            *count += 1;
        }
    }

    /// A move of the group is settled; true when its calls need not wait any more.
    pub fn settled(&mut self, group: u8) -> bool {
        if let Some(count) = self.unsettled.get_mut(usize::from(group)) {
            *count = count.saturating_sub(1);
        }
        !self.is_unsettled(group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise 54.
    #[test]
    fn connections_are_opened_on_cores_that_have_flow_groups() {
        let mut groups = Groups::new(&[0; FLOW_GROUPS as usize]);
        assert_eq!(groups.next_in_use(0, 4), 0);
        // One group each goes to two of the others.
        groups.is_at(9, 1);
        groups.is_at(10, 3);
        let mut last = 0;
        let opened: Vec<usize> = std::iter::repeat_with(|| {
            last = groups.next_in_use(last, 4);
            last
        })
        .take(6)
        .collect();
        assert_eq!(opened, [1, 3, 0, 1, 3, 0]);
        // They come back.
        groups.is_at(9, 0);
        groups.is_at(10, 0);
        assert_eq!(groups.next_in_use(3, 4), 0);
        // What no dataplane sends: a core that is not there, a table that is short or too long.
        groups.is_at(9, 32);
        assert_eq!(groups.next_in_use(0, 4), 0);
        assert_eq!(Groups::new(&[]).next_in_use(1, 2), 0);
        assert_eq!(Groups::new(&[1; 200]).next_in_use(0, 2), 1);
    }
}
