//! Calls and conditions in the rings of their cores.

use super::cores::CoreEnd;
use super::{Event, Session};
use crate::abi::{Call, Condition, Entry};
use crate::handle;

impl Session {
    /// Makes a call in the ring of its core.
    #[inline(always)]
    pub(super) fn call(&mut self, call: Call) {
        let core = match call {
            Call::Accept { handle, .. }
            | Call::Reject { handle }
            | Call::Send { handle, .. }
            | Call::Shutdown { handle }
            | Call::Close { handle }
            | Call::Abort { handle }
            | Call::Options { handle, .. }
            | Call::Info { handle } => self.groups.core(handle::group(handle)),
            // Connections are distributed as those of peers are.
            Call::Connect { .. } => {
                self.next_connect = (self.groups).next_in_use(self.next_connect, self.cores.len());
                self.next_connect
            }
            _ => 0,
        };
        self.push(core, Entry::from(call));
    }

    /// Makes a call in every core's ring.
    pub(super) fn call_all(&mut self, call: Call) {
        for core in 0..self.cores.len() {
            self.push(core, call.into());
        }
    }

    pub(crate) fn push(&mut self, core: usize, entry: Entry) {
        if let Some(core) = self.cores.get_mut(core) {
            core.push(entry);
        }
    }

    /// Publishes all calls to the dataplane, and wakes it if it sleeps.
    pub fn flush(&mut self) {
        while let Some((core, entry)) = self.inbox.next_done() {
            self.push(core, entry);
        }
        self.cores.iter_mut().for_each(CoreEnd::flush);
    }

    /// Takes the next event; `None` if there is none.
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

    /// Whether no event is pending.
    pub fn is_empty(&self) -> bool {
        self.cores.iter().all(|core| core.end.is_empty())
    }

    /// Takes the next condition of a core, unless another core's must be read first.
    fn take_from(&mut self, core: usize) -> Option<Entry> {
        if let Some((group, from)) = self.cores.get(core)?.stalled {
            if !self.groups.take_left(group, from) {
                return None;
            }
            self.arrived(core, group, from);
        }
        self.cores.get_mut(core)?.end.take()
    }

    /// Handles the three conditions of a moving flow group.
    pub(super) fn moved(&mut self, core: usize, condition: Condition) {
        match condition {
            Condition::Left { group } => self.groups.left(group, core),
            Condition::Arrived { group, from } => {
                if self.groups.take_left(group, from) {
                    self.arrived(core, group, from);
                } else if let Some(place) = self.cores.get_mut(core) {
                    place.stalled = Some((group, from));
                }
            }
            Condition::Settled { group } if self.groups.end_move(group) => {
                for connection in self.connections.of_group(group) {
                    self.advance(connection);
                }
            }
            _ => {}
        }
    }

    fn arrived(&mut self, core: usize, group: u8, from: u8) {
        if let Some(place) = self.cores.get_mut(core) {
            place.stalled = None;
        }
        self.groups.arrived(group, core);
        // The mark follows all calls that used the old ring.
        self.push(usize::from(from), Call::Passed { group }.into());
    }
}
