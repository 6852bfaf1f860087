//! The application's readers stop and resume.

use super::Stack;
use crate::api::ConnectionId;
use crate::tuning::READERS;

impl Stack {
    /// Sets the reader of a connection's data, below [`READERS`]; 0 by default.
    pub fn set_reader(&mut self, connection: ConnectionId, reader: u8) {
        if let Some(slot) = self.slot_of(connection) {
            self.connections.get_mut(slot).set_reader(reader % READERS);
        }
    }

    /// The reader has no room for more: no `Recv` of its connections is polled, and what else
    /// their peers send is not taken: the window that they see is closed, and they send it again
    /// later. What it was given stays its own.
    pub fn stop_reader(&mut self, reader: u8) {
        self.readers.stop(reader);
    }

    /// The reader has room again: what waits is polled, and the window is announced to the peers.
    pub fn resume_reader(&mut self, reader: u8) {
        if !self.readers.resume(reader) {
            return;
        }
        let mut n = 0;
        while let Some(slot) = self.readers.next_resumed(&mut n, &self.connections) {
            self.resume(slot);
        }
    }

    fn is_stopped(&self, slot: u32) -> bool {
        self.readers.is_stopped(self.connections.get(slot).reader())
    }

    fn resume(&mut self, slot: u32) {
        self.connections.tcb_mut(slot).resume();
        self.settle(slot);
    }

    /// Remembers a connection whose reader is stopped. Without room for it the peer has to ask.
    pub(super) fn hold_up(&mut self, slot: u32) {
        self.connections.tcb_mut(slot).hold_up();
        let connection = self.connections.id_of(slot);
        self.readers.hold_up(connection, &self.connections);
    }

    /// A connection comes from another stack, where its reader may have been stopped.
    pub(super) fn take_over_reader(&mut self, slot: u32) {
        if self.connections.tcb(slot).receiver().is_held_up() {
            match self.is_stopped(slot) {
                true => self.hold_up(slot),
                false => self.resume(slot),
            }
        }
    }
}
