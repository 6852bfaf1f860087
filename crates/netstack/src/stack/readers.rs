//! Readers: each takes the data of several connections. A reader that has no room is
//! stopped as a whole, so that what its peers send is neither lost nor kept here.

use super::connections::Connections;
use crate::api::ConnectionId;
use crate::tuning::READERS;

/// Which readers are stopped, and whose data waits.
#[derive(Debug)]
pub(super) struct Readers {
    /// The readers that are stopped: a bit for each.
    stopped: u32,
    /// Connections whose peers see a closed window, or whose data was not handed up; some may have
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

    /// Whether the reader has no room for more.
    pub fn is_stopped(&self, reader: u8) -> bool {
        self.stopped & bit(reader) != 0
    }

    /// The reader has no room for more.
    pub fn stop(&mut self, reader: u8) {
        self.stopped |= bit(reader);
    }

    /// The reader has room again; `false` when it had.
    pub fn resume(&mut self, reader: u8) -> bool {
        let was_stopped = self.is_stopped(reader);
        self.stopped &= !bit(reader);
        was_stopped
    }

    /// Takes the next connection, from place `n` of the list on, whose reader is not stopped any
    /// more.
    pub fn next_resumed(&mut self, n: &mut usize, connections: &Connections) -> Option<u32> {
        while let Some(id) = self.held_up.get(*n).copied() {
            let slot = connections.find(id);
            let reader = slot.map(|slot| connections.get(slot).reader());
            if reader.is_some_and(|reader| self.is_stopped(reader)) {
                *n += 1;
                continue;
            }
            self.held_up.swap_remove(*n);
            if slot.is_some() {
                return slot;
            }
        }
        None
    }

    /// Remembers a connection whose reader is stopped. Without room for it the peer has to ask.
    pub fn hold_up(&mut self, connection: ConnectionId, connections: &Connections) {
        if self.held_up.len() >= self.most {
            self.held_up.retain(|id| {
                let slot = connections.find(*id);
                slot.is_some_and(|slot| connections.tcb(slot).receiver().is_held_up())
            });
        }
        if self.held_up.len() < self.most {
            self.held_up.push(connection);
        }
    }
}

fn bit(reader: u8) -> u32 {
    1 << (reader % READERS)
}
