//! Readers: who takes the data of connections, several connections each. One that has no room is
//! stopped as a whole, so that what its peers send is neither lost nor kept here.

use super::Stack;
use crate::api::ConnectionId;

/// Readers that may be told apart.
pub const READERS: u8 = 32;

/// Which readers are stopped, and whose data waits.
#[derive(Debug)]
pub(super) struct Readers {
    /// The readers that are stopped: a bit for each.
    stopped: u32,
    /// Connections whose peers were told to wait, or whose data was not handed up; some may have
    /// ended since.
    held_up: Vec<ConnectionId>,
    most: usize,
}

impl Readers {
    pub fn new(connections: u32) -> Self {
        Self {
            stopped: 0,
            held_up: Vec::with_capacity(connections as usize),
            most: connections as usize,
        }
    }

    /// The reader has no room for more.
    pub fn is_stopped(&self, reader: u8) -> bool {
        self.stopped & bit(reader) != 0
    }
}

fn bit(reader: u8) -> u32 {
    1 << (reader % READERS)
}

impl Stack {
    /// Says who reads a connection's data, below [`READERS`]; number 0 unless told.
    pub fn set_reader(&mut self, connection: ConnectionId, reader: u8) {
        if let Some(slot) = self.slot_of(connection) {
            self.connections.get_mut(slot).set_reader(reader % READERS);
        }
    }

    /// The reader has no room for more: no `Recv` of its connections is polled, and what else
    /// their peers send is not taken: they are told that the window is closed, and send it again
    /// later. What it was given stays its own.
    pub fn stop_reader(&mut self, reader: u8) {
        self.readers.stopped |= bit(reader);
    }

    /// The reader has room again: what waits is polled, and the peers are told.
    pub fn resume_reader(&mut self, reader: u8) {
        if !self.readers.is_stopped(reader) {
            return;
        }
        self.readers.stopped &= !bit(reader);
        let mut n = 0;
        while let Some(connection) = self.readers.held_up.get(n).copied() {
            let slot = self.connections.find(connection);
            if slot.is_some_and(|slot| self.is_stopped(slot)) {
                n += 1;
                continue;
            }
            self.readers.held_up.swap_remove(n);
            if let Some(slot) = slot {
                self.go_on(slot);
            }
        }
    }

    fn is_stopped(&self, slot: u32) -> bool {
        self.readers.is_stopped(self.connections.get(slot).reader())
    }

    fn go_on(&mut self, slot: u32) {
        self.connections.tcb_mut(slot).go_on();
        self.settle(slot);
    }

    /// Remembers a connection whose reader is stopped. Without room for it the peer has to ask.
    pub(super) fn hold_up(&mut self, slot: u32) {
        self.connections.tcb_mut(slot).hold_up();
        let readers = &mut self.readers;
        if readers.held_up.len() >= readers.most {
            let connections = &self.connections;
            readers.held_up.retain(|id| {
                let slot = connections.find(*id);
                slot.is_some_and(|slot| connections.tcb(slot).receiver().is_held_up())
            });
        }
        if self.readers.held_up.len() < self.readers.most {
            let connection = self.connections.id_of(slot);
            self.readers.held_up.push(connection);
        }
    }

    /// A connection comes from another stack, where its reader may have been stopped.
    pub(super) fn take_over_reader(&mut self, slot: u32) {
        if self.connections.tcb(slot).receiver().is_held_up() {
            match self.is_stopped(slot) {
                true => self.hold_up(slot),
                false => self.go_on(slot),
            }
        }
    }
}
