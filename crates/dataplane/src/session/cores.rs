//! Rings of the dataplane's cores, and the cores of its flow groups.

use crate::abi::{Entry, Parts};
use crate::ring::ApplicationEnd;
use crate::tuning::MOST_CORES;
use cofferdam_netstack::FLOW_GROUPS;
use nix::sys::eventfd::EventFd;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// Rings of one core.
pub(super) struct CoreEnd {
    pub end: ApplicationEnd,
    door: EventFd,
    /// Calls that found the ring full.
    waiting: VecDeque<Entry>,
    /// A flow group that has arrived here. The ring of its previous core must be read first,
    /// up to the group's departure.
    pub stalled: Option<(u8, u8)>,
    /// Report of a connection that is not complete.
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

    /// Replaces the door by a moved copy. Returns its number.
    pub fn move_door(
        &mut self,
        moved: impl Fn(BorrowedFd<'_>) -> io::Result<OwnedFd>,
    ) -> io::Result<RawFd> {
        // SAFETY: a copy of an eventfd's descriptor.
        self.door = unsafe { EventFd::from_owned_fd(moved(self.door.as_fd())?) };
        Ok(self.door.as_raw_fd())
    }

    /// Makes a call, behind the previous ones.
    #[inline(always)]
    pub fn push(&mut self, entry: Entry) {
        if !self.waiting.is_empty() || !self.end.push(entry) {
            self.waiting.push_back(entry);
        }
    }

    /// Publishes the calls that fit the ring, and wakes the core if it sleeps.
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

/// Cores of the flow groups, as far as this application has read.
pub(super) struct Groups {
    core: [u8; FLOW_GROUPS as usize],
    /// Number of groups on each core.
    counts: [u8; MOST_CORES],
    /// Groups whose departure was read, and not their arrival.
    left: Vec<(u8, u8)>,
    /// Number of moves of each group that are not settled. Its calls wait meanwhile.
    unsettled: [u8; FLOW_GROUPS as usize],
}

impl Groups {
    /// Cores of the groups at the attachment; if they are unknown, the first core has all.
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

    /// Records the core of a group, from a condition or from a connection that has opened there.
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

    /// Next core after `last`, of `cores`, that has groups.
    pub fn next_in_use(&self, last: usize, cores: usize) -> usize {
        let behind = (1..=cores).map(|n| (last + n) % cores);
        let mut used = behind.filter(|core| self.counts.get(*core) > Some(&0));
        used.next().unwrap_or(0)
    }

    /// Whether the calls of the group's connections must wait.
    pub fn is_unsettled(&self, group: u8) -> bool {
        self.unsettled.get(usize::from(group)) > Some(&0)
    }

    /// Core that has the group.
    pub fn core(&self, group: u8) -> usize {
        self.core
            .get(usize::from(group))
            .copied()
            .map_or(0, usize::from)
    }

    /// Records that a group has left a core.
    pub fn left(&mut self, group: u8, core: usize) {
        self.left.push((group, core as u8));
    }

    /// Whether the departure of a group from a core was read. It counts once.
    pub fn take_left(&mut self, group: u8, core: u8) -> bool {
        let place = self.left.iter().position(|left| *left == (group, core));
        place.map(|place| self.left.swap_remove(place)).is_some()
    }

    /// Records that a group has arrived on `core`. Its calls wait until the move is settled.
    pub fn arrived(&mut self, group: u8, core: usize) {
        self.is_at(group, core);
        if let Some(count) = self.unsettled.get_mut(usize::from(group)) {
            *count += 1;
        }
    }

    /// Records that a move is settled. Returns true if the group's calls need not wait any more.
    pub fn end_move(&mut self, group: u8) -> bool {
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
        // One group moves to each of two other cores.
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
        // The groups return.
        groups.is_at(9, 0);
        groups.is_at(10, 0);
        assert_eq!(groups.next_in_use(3, 4), 0);
        // Invalid facts: a core that does not exist, a table that is too short or too long.
        groups.is_at(9, 32);
        assert_eq!(groups.next_in_use(0, 4), 0);
        assert_eq!(Groups::new(&[]).next_in_use(1, 2), 0);
        assert_eq!(Groups::new(&[1; 200]).next_in_use(0, 2), 1);
    }
}
