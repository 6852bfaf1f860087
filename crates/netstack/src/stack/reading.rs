//! Stopping and resuming of the application's readers.

use super::Stack;
use crate::api::ConnectionId;
use crate::tuning::READERS;

impl Stack {
    /// Sets the reader of a connection's data, a number below [`READERS`]. Default 0.
    pub fn set_reader(&mut self, connection: ConnectionId, reader: u8) {
        if let Some(slot) = self.slot_of(connection) {
            self.connections.get_mut(slot).set_reader(reader % READERS);
        }
    }

    /// Stops a reader that has no space. `poll_event` returns no `Recv` of its connections, and
    /// their peers see a closed window and retransmit later. Data that the reader already has is
    /// not affected.
    pub fn stop_reader(&mut self, reader: u8) {
        self.readers.stop(reader);
    }

    /// Resumes a reader: pending data is reported, and the peers get a window announcement.
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
        self.update_tables(slot);
    }

    /// Remembers a connection whose reader is stopped.
    pub(super) fn suspend(&mut self, slot: u32) {
        self.connections.tcb_mut(slot).suspend();
        let connection = self.connections.id_of(slot);
        self.readers.suspend(connection, &self.connections);
    }

    /// Adopts a connection of another stack, where its reader may have been stopped.
    pub(super) fn take_over_reader(&mut self, slot: u32) {
        if self.connections.tcb(slot).receiver().is_suspended() {
            match self.is_stopped(slot) {
                true => self.suspend(slot),
                false => self.resume(slot),
            }
        }
    }
}
