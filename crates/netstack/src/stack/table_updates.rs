//! Updates of the tables after a change of a connection, and TIME_WAIT.

use super::Stack;
use super::connection::Connection;
use super::flows::Place;
use super::timers::Timer;
use crate::api::{ConnectionId, DeadReason, Time};

impl Stack {
    /// Slot of the connection of a handle, unless the handle is stale or the connection has ended.
    pub(super) fn slot_of(&self, id: ConnectionId) -> Option<u32> {
        self.connections.find_alive(id)
    }

    /// Adds a new connection to the tables.
    pub(super) fn insert(&mut self, connection: Connection) -> Option<u32> {
        let slot = self.connections.insert(connection)?;
        self.flows
            .insert(connection.hash(), Place::Connection(slot));
        Some(slot)
    }

    /// Updates the tables after a change of a connection: its events, its readiness to send, its
    /// deadline, or its end.
    pub(super) fn update_tables(&mut self, slot: u32) {
        let tcb = self.connections.tcb(slot);
        if tcb.notices.has_ended() {
            self.remove_from_tables(slot);
        } else {
            if let Some(at) = tcb.deadline() {
                self.timers.arm_no_later(Timer::Connection(slot), at);
            }
            self.connections.push_ready(slot);
        }
        let tcb = self.connections.tcb(slot);
        if tcb.has_news() && !tcb.notices.is_end_reported() {
            self.connections.push_news(slot);
        }
    }

    /// Removes an ended connection from all tables and lists except the ones that still refer to
    /// its slot.
    fn remove_from_tables(&mut self, slot: u32) {
        let hash = self.connections.get(slot).hash();
        if self.flows.remove(hash, Place::Connection(slot)) {
            self.connections.leave_group(slot);
            self.timers.disarm(Timer::Connection(slot));
            let tcb = self.connections.tcb_mut(slot);
            if tcb.fast_open_mut().take_early() {
                self.listeners.drop_early();
            }
            self.leave_listener(slot);
        }
    }

    /// Replaces an ended connection by a TIME_WAIT entry.
    pub(super) fn enter_time_wait(&mut self, slot: u32, now: Time) {
        self.drop_old_time_wait(now);
        let connection = self.connections.get_mut(slot);
        let (tcb, hash) = (&connection.tcb, connection.hash());
        if let Some(place) = self.time_wait.add(tcb, hash, &self.config.tcp, now) {
            let reason = DeadReason::Closed;
            connection.tcb.end(
                reason,
                &mut self.ranges.context(&self.config, &mut self.counters, now),
            );
            self.update_tables(slot);
            self.flows.insert(hash, Place::TimeWait(place));
            self.arm_time_wait();
        }
    }

    /// Removes a TIME_WAIT entry.
    pub(super) fn remove_time_wait(&mut self, place: u32) {
        let hash = self.time_wait.get(place).hash;
        self.flows.remove(hash, Place::TimeWait(place));
        self.time_wait.remove(place);
    }

    /// Removes expired TIME_WAIT entries, and the oldest one if the table is full.
    pub(super) fn drop_old_time_wait(&mut self, now: Time) {
        while let Some(place) = self.time_wait.entry_to_evict(now) {
            if self.time_wait.next_end().is_some_and(|end| end > now) {
                self.counters.time_wait_overflow += 1;
            }
            self.remove_time_wait(place);
        }
    }

    pub(super) fn arm_time_wait(&mut self) {
        if let Some(end) = self.time_wait.next_end() {
            self.timers.arm_no_later(Timer::TimeWait, end);
        }
    }
}
