//! Which connection, or which entry in TIME_WAIT, has a 4-tuple; and which 4-tuples are this
//! stack's.

use crate::core::siphash::Key;
use crate::core::table::Table;
use crate::flow::{self, FlowKey};

/// Where a 4-tuple is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// By the connection in this slot.
    Connection(u32),
    /// By this entry in TIME_WAIT.
    TimeWait(u32),
}

/// The 4-tuples in use.
#[derive(Debug)]
pub struct Flows {
    key: Key,
    /// Connections by slot, and TIME_WAIT entries by place behind them.
    table: Table,
    /// Slots of connections.
    connections: u32,
    /// Flow groups of this stack: bit n for group n.
    owned_groups: u128,
}

impl Flows {
    /// Room for `connections` and `time_wait` entries. All flow groups are this stack's.
    pub fn new(connections: u32, time_wait: u32, secret: &[u8; 16]) -> Self {
        Self {
            key: Key::new(secret, 1),
            table: Table::new(connections as usize + time_wait as usize),
            connections,
            owned_groups: u128::MAX,
        }
    }

    /// The hash of a 4-tuple; its highest bits are the flow group.
    #[inline]
    pub fn hash(&self, key: &FlowKey) -> u64 {
        key.hash(&self.key)
    }

    /// The place with this hash whose key `is` the sought one.
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

    /// A 4-tuple with this hash is in use there.
    pub fn insert(&mut self, hash: u64, place: Place) {
        let index = self.index(place);
        self.table.insert(hash, index);
    }

    /// It is in use there no more; `false` when it was not.
    pub fn remove(&mut self, hash: u64, place: Place) -> bool {
        let index = self.index(place);
        self.table.remove(hash, index)
    }

    /// Which flow groups are this stack's: bit n for group n.
    pub fn own_groups(&mut self, groups: u128) {
        self.owned_groups = groups;
    }

    /// Whether the flow group of this hash is this stack's.
    pub fn has_group(&self, hash: u64) -> bool {
        self.owned_groups >> flow::group(hash) & 1 == 1
    }
}
