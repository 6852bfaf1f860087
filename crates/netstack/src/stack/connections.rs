//! Connections by slot, and their lists: ready to send, waiting for a next hop, with events to
//! report, and of a flow group. The lists are linked through the connections themselves.

use super::connection::Connection;
use super::links::Queue;
use crate::api::ConnectionId;
use crate::core::NONE;
use crate::core::slots::Slots;
use crate::flow::{self, FLOW_GROUPS};
use crate::tcp::state::Tcb;

/// Load of a flow group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GroupUsage {
    /// Connections, including half-open ones and without those in TIME_WAIT.
    pub connections: u32,
    /// Segments received for the group's connections since the start.
    pub segments: u64,
}

/// Table of all connections.
#[derive(Debug)]
pub struct Connections {
    all: Vec<Connection>,
    slots: Slots,
    group_heads: [u32; FLOW_GROUPS as usize],
    groups: [GroupUsage; FLOW_GROUPS as usize],
    /// Connections that may have a segment to send.
    ready: Queue,
    /// Connections whose next hop is being resolved, linked by `ready_next`.
    waiting: u32,
    /// Connections with an event to report.
    news: Queue,
}

impl Connections {
    /// A table for `count` connections; unused slots contain `closed`.
    pub fn new(count: u32, closed: Tcb) -> Self {
        Self {
            all: vec![Connection::new(closed, 0); count as usize],
            slots: Slots::new(count),
            group_heads: [NONE; FLOW_GROUPS as usize],
            groups: [GroupUsage::default(); FLOW_GROUPS as usize],
            ready: Queue::default(),
            waiting: NONE,
            news: Queue::default(),
        }
    }

    /// Number of connections.
    pub fn used(&self) -> u32 {
        self.slots.used()
    }

    /// Largest number of connections.
    pub fn count(&self) -> u32 {
        self.slots.count()
    }

    /// Whether the table is full.
    pub fn is_full(&self) -> bool {
        self.slots.used() == self.slots.count()
    }

    /// Whether the slot contains a connection that has not ended.
    pub fn is_alive(&self, slot: u32) -> bool {
        self.slots.is_used(slot) && !self.tcb(slot).notices.has_ended()
    }

    pub fn get(&self, slot: u32) -> &Connection {
        &self.all[slot as usize]
    }

    pub fn get_mut(&mut self, slot: u32) -> &mut Connection {
        &mut self.all[slot as usize]
    }

    pub fn tcb(&self, slot: u32) -> &Tcb {
        &self.all[slot as usize].tcb
    }

    pub fn tcb_mut(&mut self, slot: u32) -> &mut Tcb {
        &mut self.all[slot as usize].tcb
    }

    /// Slot of the connection of a handle, unless the handle is stale.
    pub fn find(&self, id: ConnectionId) -> Option<u32> {
        let found = self.slots.check(id.slot, id.generation);
        found.map(|_| id.slot)
    }

    /// Slot of the connection of a handle, unless the handle is stale or the connection has ended.
    pub fn find_alive(&self, id: ConnectionId) -> Option<u32> {
        self.find(id)
            .filter(|slot| !self.tcb(*slot).notices.has_ended())
    }

    /// Handle of the connection in a slot.
    pub fn id_of(&self, slot: u32) -> ConnectionId {
        ConnectionId {
            slot,
            generation: self.slots.generation(slot),
        }
    }

    /// Adds a connection. Returns `None` if the table is full.
    pub fn insert(&mut self, connection: Connection) -> Option<u32> {
        let slot = self.slots.take()?;
        self.all[slot as usize] = connection;
        self.join_group(slot);
        Some(slot)
    }

    /// Frees the slot of an ended connection that is in no list and has nothing to report.
    pub fn free_if_done(&mut self, slot: u32) {
        let Connection { tcb, links, .. } = self.get(slot);
        if tcb.notices.is_end_final()
            && !links.is_ready
            && !links.has_events
            && self.slots.is_used(slot)
        {
            self.slots.free(slot);
        }
    }
}

/// Flow groups.
impl Connections {
    fn group(&self, slot: u32) -> usize {
        usize::from(flow::group(self.get(slot).hash()))
    }

    fn join_group(&mut self, slot: u32) {
        let group = self.group(slot);
        self.groups[group].connections += 1;
        let next = std::mem::replace(&mut self.group_heads[group], slot);
        let links = &mut self.get_mut(slot).links;
        (links.group_next, links.group_previous) = (next, NONE);
        if next != NONE {
            self.get_mut(next).links.group_previous = slot;
        }
    }

    /// Removes an ended connection from its flow group.
    pub fn leave_group(&mut self, slot: u32) {
        let group = self.group(slot);
        self.groups[group].connections -= 1;
        let links = self.get(slot).links;
        if links.group_next != NONE {
            self.get_mut(links.group_next).links.group_previous = links.group_previous;
        }
        if links.group_previous != NONE {
            self.get_mut(links.group_previous).links.group_next = links.group_next;
        } else {
            self.group_heads[group] = links.group_next;
        }
    }

    /// Counts a received segment of the connection.
    pub fn count_segment(&mut self, slot: u32) {
        let group = self.group(slot);
        self.groups[group].segments += 1;
    }

    /// Load of each flow group.
    pub const fn groups(&self) -> &[GroupUsage; FLOW_GROUPS as usize] {
        &self.groups
    }

    /// First connection of a flow group.
    pub fn first_of_group(&self, group: u8) -> Option<u32> {
        let head = self.group_heads.get(usize::from(group)).copied();
        head.filter(|slot| *slot != NONE)
    }

    /// Next connection of the same flow group.
    pub fn next_of_group(&self, slot: u32) -> Option<u32> {
        Some(self.get(slot).links.group_next).filter(|slot| *slot != NONE)
    }
}

/// Connections that may have a segment to send.
impl Connections {
    /// Whether a connection may have a segment to send.
    pub const fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Marks a connection as ready and adds it to the list.
    pub fn push_ready(&mut self, slot: u32) {
        let links = &mut self.get_mut(slot).links;
        if !std::mem::replace(&mut links.is_ready, true) {
            self.append_ready(slot);
        }
    }

    /// Appends a connection to the list that is marked as ready but in no list.
    pub fn append_ready(&mut self, slot: u32) {
        self.get_mut(slot).links.ready_next = NONE;
        if let Some(last) = self.ready.append(slot) {
            self.get_mut(last).links.ready_next = slot;
        }
    }

    /// Removes the first connection from the list. It stays marked as ready.
    pub fn pop_ready(&mut self) -> Option<u32> {
        let slot = self.ready.first()?;
        self.ready.advance(self.get(slot).links.ready_next);
        Some(slot)
    }

    /// Unmarks a connection that is in no list and has nothing to send.
    pub fn unready(&mut self, slot: u32) {
        self.get_mut(slot).links.is_ready = false;
    }

    /// Adds a connection that is marked as ready to the list of connections without a next hop.
    pub fn wait(&mut self, slot: u32) {
        self.get_mut(slot).links.ready_next = self.waiting;
        self.waiting = slot;
    }

    /// Removes all connections that wait for a next hop, and returns the first.
    /// [`Self::next_waiting`] returns the others until they are added to another list.
    pub fn take_waiting(&mut self) -> Option<u32> {
        Some(std::mem::replace(&mut self.waiting, NONE)).filter(|slot| *slot != NONE)
    }

    /// Next connection of the removed list of waiting ones.
    pub fn next_waiting(&self, slot: u32) -> Option<u32> {
        Some(self.get(slot).links.ready_next).filter(|slot| *slot != NONE)
    }
}

/// Connections with an event to report.
impl Connections {
    /// Adds a connection that has an event to report or whose end is settled silently.
    pub fn push_news(&mut self, slot: u32) {
        let links = &mut self.get_mut(slot).links;
        if std::mem::replace(&mut links.has_events, true) {
            return;
        }
        links.event_next = NONE;
        if let Some(last) = self.news.append(slot) {
            self.get_mut(last).links.event_next = slot;
        }
    }

    /// First connection with an event to report.
    pub fn first_news(&self) -> Option<u32> {
        self.news.first()
    }

    /// Removes the first connection, which has nothing more to report.
    pub fn pop_news(&mut self) {
        if let Some(slot) = self.news.first() {
            let links = &mut self.get_mut(slot).links;
            links.has_events = false;
            let next = links.event_next;
            self.news.advance(next);
        }
    }
}
