//! The rings of the dataplane's cores, and which of them a connection's calls go through.

use super::{Event, Session};
use crate::abi::{Call, Condition, Entry, Refusal};
use crate::engine::MOST_CORES;
use crate::handle;
use crate::ring::ApplicationEnd;
use cofferdam_netstack::FLOW_GROUPS;
use nix::sys::eventfd::EventFd;
use std::collections::VecDeque;

/// One core's rings.
pub(super) struct CoreEnd {
    pub end: ApplicationEnd,
    door: EventFd,
    /// Calls that found the ring full.
    waiting: VecDeque<Entry>,
    /// A flow group that has arrived here, and the core whose ring must be read first up to where
    /// it left.
    stalled: Option<(u8, u8)>,
}

impl CoreEnd {
    pub fn new((end, door): (ApplicationEnd, EventFd)) -> CoreEnd {
        CoreEnd {
            end,
            door,
            waiting: VecDeque::new(),
            stalled: None,
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
    /// With the owners that the dataplane tells of; where it does not, all are the first core's.
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

    /// The group is on `core`: it was told, or a connection of it has opened there.
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

    /// The next core behind `last`, of so many, that has groups.
    fn next_in_use(&self, last: usize, cores: usize) -> usize {
        let behind = (1..=cores).map(|n| (last + n) % cores);
        let mut used = behind.filter(|core| self.counts.get(*core) > Some(&0));
        used.next().unwrap_or(0)
    }

    /// Whether the calls of the group's connections must wait.
    pub fn is_unsettled(&self, group: u8) -> bool {
        self.unsettled.get(usize::from(group)) > Some(&0)
    }

    fn core(&self, group: u8) -> usize {
        self.core
            .get(usize::from(group))
            .copied()
            .map_or(0, usize::from)
    }

    fn take_left(&mut self, group: u8, core: u8) -> bool {
        let place = self.left.iter().position(|left| *left == (group, core));
        place.map(|place| self.left.swap_remove(place)).is_some()
    }
}

/// A bound address: every core has it.
pub(super) struct BoundPlace {
    /// What each core calls it; 0 is a name too.
    handles: Vec<Option<u64>>,
    /// Cores that have not answered.
    unanswered: usize,
    refused: Option<Refusal>,
    /// Where its last datagram came from: the way back is known there.
    pub core: usize,
}

impl BoundPlace {
    pub fn new(cores: usize) -> BoundPlace {
        BoundPlace {
            handles: vec![None; cores],
            unanswered: cores,
            refused: None,
            core: 0,
        }
    }

    /// The handle at the core that a datagram is best sent from.
    pub fn sender(&self) -> Option<(usize, u64)> {
        let handle = self.handles.get(self.core).copied().flatten()?;
        Some((self.core, handle))
    }

    /// Takes the handles away, with their cores.
    pub fn take(&mut self) -> Vec<(usize, u64)> {
        let handles = self.handles.iter_mut().enumerate();
        handles
            .filter_map(|(core, handle)| Some((core, handle.take()?)))
            .collect()
    }

    /// Takes a core's answer; the whole answer when it was the last one's.
    pub fn answer(
        &mut self,
        core: usize,
        result: Result<u64, Refusal>,
    ) -> Option<Result<(), Refusal>> {
        match result {
            Ok(handle) => {
                if let Some(place) = self.handles.get_mut(core) {
                    *place = Some(handle);
                }
            }
            Err(refusal) => {
                self.refused.get_or_insert(refusal);
            }
        }
        self.unanswered = self.unanswered.saturating_sub(1);
        (self.unanswered == 0).then(|| self.refused.map_or(Ok(()), Err))
    }
}

impl Session {
    /// Makes a call through the ring of the core that it is for.
    #[inline(always)]
    pub(super) fn call(&mut self, call: Call) {
        let core = match call {
            Call::Accept { handle, .. }
            | Call::Reject { handle }
            | Call::Send { handle, .. }
            | Call::Shutdown { handle }
            | Call::Close { handle }
            | Call::Abort { handle } => self.groups.core(handle::group(handle)),
            // Their connections are spread as those of peers are.
            Call::Connect { .. } => {
                self.next_connect = (self.groups).next_in_use(self.next_connect, self.cores.len());
                self.next_connect
            }
            _ => 0,
        };
        self.push(core, Entry::from(call));
    }

    /// Makes a call through every core's ring.
    pub(super) fn call_all(&mut self, call: Call) {
        for core in 0..self.cores.len() {
            self.push(core, call.into());
        }
    }

    pub(crate) fn push(&mut self, core: usize, entry: Entry) {
        let Some(core) = self.cores.get_mut(core) else {
            return;
        };
        if !core.waiting.is_empty() || !core.end.push(entry) {
            core.waiting.push_back(entry);
        }
    }

    /// Shows the dataplane all calls so far, and wakes it when it sleeps.
    pub fn flush(&mut self) {
        while let Some((core, entry)) = self.inbox.next_done() {
            self.push(core, entry);
        }
        for core in &mut self.cores {
            while let Some(entry) = core.waiting.front() {
                if !core.end.push(*entry) {
                    break;
                }
                core.waiting.pop_front();
            }
            core.end.release();
            if core.end.publish() {
                // A full counter rings as well.
                let _ = core.door.write(1);
            }
        }
    }

    /// The next event; `None` when there is none now.
    pub fn next_event(&mut self) -> Option<Event> {
        let mut empty = 0;
        while empty < self.cores.len() {
            let core = self.turn;
            let Some(entry) = self.take_from(core) else {
                self.turn = (core + 1) % self.cores.len();
                empty += 1;
                continue;
            };
            empty = 0;
            let condition = Condition::decode(&entry);
            if let Some(event) = condition.and_then(|c| self.translate(core, c)) {
                return Some(event);
            }
        }
        self.memory_again()
    }

    /// Whether no event is there now.
    pub fn is_empty(&self) -> bool {
        self.cores.iter().all(|core| core.end.is_empty())
    }

    /// The next condition of a core, unless one of another core's must be read before it.
    fn take_from(&mut self, core: usize) -> Option<Entry> {
        if let Some((group, from)) = self.cores.get(core)?.stalled {
            if !self.groups.take_left(group, from) {
                return None;
            }
            self.arrived(core, group, from);
        }
        self.cores.get_mut(core)?.end.take()
    }

    /// A flow group moves: three conditions tell of it.
    pub(super) fn moved(&mut self, core: usize, condition: Condition) {
        match condition {
            Condition::Left { group } => self.groups.left.push((group, core as u8)),
            Condition::Arrived { group, from } => {
                if self.groups.take_left(group, from) {
                    self.arrived(core, group, from);
                } else if let Some(place) = self.cores.get_mut(core) {
                    place.stalled = Some((group, from));
                }
            }
            Condition::Settled { group } => {
                if let Some(count) = self.groups.unsettled.get_mut(usize::from(group)) {
                    *count = count.saturating_sub(1);
                }
                if !self.groups.is_unsettled(group) {
                    for connection in self.connections.of_group(group) {
                        self.advance(connection);
                    }
                }
            }
            _ => {}
        }
    }

    fn arrived(&mut self, core: usize, group: u8, from: u8) {
        if let Some(place) = self.cores.get_mut(core) {
            place.stalled = None;
        }
        self.groups.is_at(group, core);
        if let Some(count) = self.groups.unsettled.get_mut(usize::from(group)) {
            *count += 1;
        }
        // Behind all calls that went the old way.
        self.push(usize::from(from), Call::Passed { group }.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        // What nobody could know: a core that is not there, a table that is short or too long.
        groups.is_at(9, 32);
        assert_eq!(groups.next_in_use(0, 4), 0);
        assert_eq!(Groups::new(&[]).next_in_use(1, 2), 0);
        assert_eq!(Groups::new(&[1; 200]).next_in_use(0, 2), 1);
    }
}
