//! Table of the 4-tuples of connections and TIME_WAIT entries, and the flow groups of this stack.

use crate::core::siphash::Key;
use crate::core::table::Table;
use crate::flow::{self, FlowKey};

/// Owner of a 4-tuple.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Connection in this slot.
    Connection(u32),
    /// TIME_WAIT entry with this index.
    TimeWait(u32),
}

/// Table of the 4-tuples in use.
#[derive(Debug)]
pub struct Flows {
    key: Key,
    /// Slots of connections, followed by indices of TIME_WAIT entries.
    table: Table,
    /// Number of connection slots.
    connections: u32,
    /// Flow groups of this stack: bit n for group n.
    owned_groups: u128,
}

impl Flows {
    /// A table for `connections` and `time_wait` entries. The stack initially owns all flow groups.
    pub fn new(connections: u32, time_wait: u32, secret: &[u8; 16]) -> Self {
        Self {
            key: Key::new(secret, 1),
            table: Table::new(connections as usize + time_wait as usize),
            connections,
            owned_groups: u128::MAX,
        }
    }

    /// Hash of a 4-tuple; its highest bits are the flow group.
    #[inline]
    pub fn hash(&self, key: &FlowKey) -> u64 {
        key.hash(&self.key)
    }

    /// Owner with this hash for which `is` returns `true`.
    pub fn find(&self, hash: u64, is: impl Fn(Place) -> bool) -> Option<Place> {
        let found = self.table.find(hash, |index| is(self.place(index)));
        found.map(|index| self.place(index))
    }

    fn place(&self, index: u32) -> Place {
        match index.checked_sub(self.connections) {
            None => Place::Connection(index),
            Some(entry) => Place::TimeWait(entry),
        }
    }

    fn index(&self, place: Place) -> u32 {
        match place {
            Place::Connection(slot) => slot,
            Place::TimeWait(entry) => self.connections + entry,
        }
    }

    /// Adds the owner of a 4-tuple with this hash.
    pub fn insert(&mut self, hash: u64, place: Place) {
        let index = self.index(place);
        self.table.insert(hash, index);
    }

    /// Removes the owner of a 4-tuple with this hash. Returns `false` if there was none.
    pub fn remove(&mut self, hash: u64, place: Place) -> bool {
        let index = self.index(place);
        self.table.remove(hash, index)
    }

    /// Sets the flow groups of this stack: bit n for group n.
    pub fn own_groups(&mut self, groups: u128) {
        self.owned_groups = groups;
    }

    /// Whether this stack owns the flow group of this hash.
    pub fn has_group(&self, hash: u64) -> bool {
        self.owned_groups >> flow::group(hash) & 1 == 1
    }
}
