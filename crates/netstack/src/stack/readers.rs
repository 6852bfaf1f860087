//! Readers, each of which takes the data of several connections. A reader without space is stopped
//! as a whole: its peers see a closed window, and the stack neither loses nor buffers their data.

use super::connections::Connections;
use crate::api::ConnectionId;
use crate::tuning::READERS;

/// Stopped readers and their connections.
#[derive(Debug)]
pub(super) struct Readers {
    /// Stopped readers, one bit each.
    stopped: u32,
    /// Connections whose peers see a closed window or whose data was not delivered. Some may have
    /// ended since.
    suspended: Vec<ConnectionId>,
    most: usize,
}

impl Readers {
    pub fn new(connections: u32) -> Self {
        Self {
            stopped: 0,
            suspended: Vec::with_capacity(connections as usize),
            most: connections as usize,
        }
    }

    /// Whether the reader is stopped.
    pub fn is_stopped(&self, reader: u8) -> bool {
        self.stopped & bit(reader) != 0
    }

    /// Stops a reader.
    pub fn stop(&mut self, reader: u8) {
        self.stopped |= bit(reader);
    }

    /// Resumes a reader. Returns `false` if it was not stopped.
    pub fn resume(&mut self, reader: u8) -> bool {
        let was_stopped = self.is_stopped(reader);
        self.stopped &= !bit(reader);
        was_stopped
    }

    /// Removes the next connection, from index `n` of the list on, whose reader is not stopped.
    pub fn next_resumed(&mut self, n: &mut usize, connections: &Connections) -> Option<u32> {
        while let Some(id) = self.suspended.get(*n).copied() {
            let slot = connections.find(id);
            let reader = slot.map(|slot| connections.get(slot).reader());
            if reader.is_some_and(|reader| self.is_stopped(reader)) {
                *n += 1;
                continue;
            }
            self.suspended.swap_remove(*n);
            if slot.is_some() {
                return slot;
            }
        }
        None
    }

    /// Remembers a connection whose reader is stopped. If the list is full, the peer must probe the
    /// window.
    pub fn suspend(&mut self, connection: ConnectionId, connections: &Connections) {
        if self.suspended.len() >= self.most {
            self.suspended.retain(|id| {
                let slot = connections.find(*id);
                slot.is_some_and(|slot| connections.tcb(slot).receiver().is_suspended())
            });
        }
        if self.suspended.len() < self.most {
            self.suspended.push(connection);
        }
    }
}

fn bit(reader: u8) -> u32 {
    1 << (reader % READERS)
}
