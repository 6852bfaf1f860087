//! Flow groups (IX, OSDI'14, 4.4): moving the connections of one hash bucket to another core's
//! stack.

use super::Stack;
use super::connection::Connection;
use super::flows::Place;
use super::ranges::ConnectionRanges;
use crate::api::{BufferId, ConnectionId, Time};
use crate::tcp::timewait::Entry;

/// Connection that moves to another stack.
#[derive(Debug, Clone)]
struct MovingConnection {
    old: ConnectionId,
    connection: Connection,
    ranges: ConnectionRanges,
}

/// Connections of a flow group between two stacks. Their buffers must be valid for the destination
/// stack too.
#[derive(Debug, Clone, Default)]
pub struct FlowGroup {
    connections: Vec<MovingConnection>,
    time_wait: Vec<Entry>,
}

impl FlowGroup {
    /// Number of connections without those in TIME_WAIT.
    pub fn len(&self) -> usize {
        self.connections.len()
    }

    /// Whether there is no connection.
    pub fn is_empty(&self) -> bool {
        self.connections.is_empty()
    }

    /// Handles that the connections had in their previous stack.
    pub fn handles(&self) -> impl Iterator<Item = ConnectionId> + '_ {
        self.connections.iter().map(|c| c.old)
    }

    /// Drops the connections. Returns their handles and the received buffers. A peer's next segment
    /// will be answered with an RST.
    pub fn give_up(self) -> (Vec<ConnectionId>, Vec<BufferId>) {
        let handles = self.connections.iter().map(|c| c.old).collect();
        let buffers = self.connections.iter().flat_map(|c| c.ranges.buffers());
        (handles, buffers.collect())
    }
}

impl Stack {
    /// Removes all connections of a group: open, half-open, waiting for `accept`, and in TIME_WAIT.
    /// Ended connections stay. The caller polls events first: the next stack reports what this one
    /// has not.
    pub fn take_group(&mut self, group: u8) -> FlowGroup {
        let mut taken = FlowGroup::default();
        let mut next = self.connections.first_of_group(group);
        while let Some(slot) = next {
            next = self.connections.next_of_group(slot);
            taken.connections.push(self.take_out(slot));
        }
        for place in self.time_wait.of_group(group) {
            taken.time_wait.push(*self.time_wait.get(place));
            self.remove_time_wait(place);
        }
        taken
    }

    fn take_out(&mut self, slot: u32) -> MovingConnection {
        let old = self.connections.id_of(slot);
        let original = self.connections.get_mut(slot);
        let mut connection = *original;
        // The remaining copy ends without an event.
        original.tcb.end_after_move();
        let ranges = self.ranges.take_ranges_of(&mut connection.tcb);
        self.update_tables(slot);
        MovingConnection {
            old,
            connection,
            ranges,
        }
    }

    /// Adds the connections of a group. Returns the old and the new handle of each. Connections
    /// that were not accepted wait at the listener of their address in this stack, or are reset if
    /// there is none.
    ///
    /// # Errors
    ///
    /// Returns the group if there is not enough space for all of it.
    pub fn put_group(
        &mut self,
        now: Time,
        group: FlowGroup,
    ) -> Result<Vec<(ConnectionId, ConnectionId)>, FlowGroup> {
        let ranges: usize = group.connections.iter().map(|c| c.ranges.len()).sum();
        let connections = self.config.limits.connections;
        let free = connections.saturating_sub(self.connections.used()) as usize;
        if free < group.connections.len() || (self.ranges.free() as usize) < ranges {
            return Err(group);
        }
        let mut handles = Vec::with_capacity(group.connections.len());
        for moved in group.connections {
            let old = moved.old;
            if let Some(slot) = self.put_in(now, moved) {
                handles.push((old, self.connections.id_of(slot)));
            }
        }
        for entry in group.time_wait {
            self.drop_old_time_wait(now);
            if let Some(place) = self.time_wait.put(entry) {
                self.flows.insert(entry.hash, Place::TimeWait(place));
            }
        }
        self.arm_time_wait();
        Ok(handles)
    }

    fn put_in(&mut self, now: Time, moved: MovingConnection) -> Option<u32> {
        let mut connection = moved.connection;
        connection.arrive();
        self.ranges
            .add_ranges_to(&mut connection.tcb, &moved.ranges);
        let waits = connection.take_listener().is_some();
        let tcb = &connection.tcb;
        let listener = self.listeners.find(&tcb.key.local, tcb.key.local_port);
        if let (true, Some(listener)) = (waits, listener) {
            let half_open = tcb.notices.is_half_open();
            connection.set_listener(listener);
            if half_open {
                self.listeners.add_half_open(listener);
            } else {
                self.listeners.get_mut(listener).add_pending();
            }
        }
        if connection.tcb.fast_open().is_early() {
            self.listeners.add_early();
        }
        let slot = self.insert(connection)?;
        self.take_over_reader(slot);
        if waits && listener.is_none() {
            self.reset(slot, now);
        } else {
            self.update_tables(slot);
        }
        Some(slot)
    }
}
