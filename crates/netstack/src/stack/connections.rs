//! Connections by slot, and the lists they are in: ready to send, waiting for a next hop, with
//! news, and of a flow group. All are linked through the connections themselves.

use super::connection::Connection;
use super::links::Queue;
use crate::api::ConnectionId;
use crate::core::NONE;
use crate::core::slots::Slots;
use crate::flow::{self, FLOW_GROUPS};
use crate::tcp::state::Tcb;

/// What a flow group has to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GroupUsage {
    /// Connections, half-open ones included; those in TIME_WAIT are not.
    pub connections: u32,
    /// Segments received for its connections since the start.
    pub segments: u64,
}

/// All connections.
#[derive(Debug)]
pub struct Connections {
    all: Vec<Connection>,
    slots: Slots,
    group_heads: [u32; FLOW_GROUPS as usize],
    groups: [GroupUsage; FLOW_GROUPS as usize],
    /// Those that may have a segment to send.
    ready: Queue,
    /// Those whose next hop is being asked for: a chain by `ready_next`.
    waiting: u32,
    /// Those with something to report.
    news: Queue,
}

impl Connections {
    /// Room for `count`; unused places hold `closed`.
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

    /// Connections there are.
    pub fn used(&self) -> u32 {
        self.slots.used()
    }

    /// Connections there may be.
    pub fn count(&self) -> u32 {
        self.slots.count()
    }

    /// There is no room for another one.
    pub fn is_full(&self) -> bool {
        self.slots.used() == self.slots.count()
    }

    /// Whether the slot holds a connection that has not ended.
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

    /// The slot of a connection that a handle names.
    pub fn find(&self, id: ConnectionId) -> Option<u32> {
        let found = self.slots.check(id.slot, id.generation);
        found.map(|_| id.slot)
    }

    /// The slot of a connection that a handle names and that has not ended.
    pub fn find_alive(&self, id: ConnectionId) -> Option<u32> {
        self.find(id)
            .filter(|slot| !self.tcb(*slot).notices.has_ended())
    }

    /// The handle of the connection in a slot.
    pub fn id_of(&self, slot: u32) -> ConnectionId {
        ConnectionId {
            slot,
            generation: self.slots.generation(slot),
        }
    }

    /// Puts a connection in; `None` without room.
    pub fn insert(&mut self, connection: Connection) -> Option<u32> {
        let slot = self.slots.take()?;
        self.all[slot as usize] = connection;
        self.join_group(slot);
        Some(slot)
    }

    /// Frees the slot of an ended connection once nothing points at it.
    pub fn free_if_done(&mut self, slot: u32) {
        let Connection { tcb, links, .. } = self.get(slot);
        if tcb.notices.is_end_settled()
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

    /// The connection has ended.
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

    /// A segment came for the connection.
    pub fn count_segment(&mut self, slot: u32) {
        let group = self.group(slot);
        self.groups[group].segments += 1;
    }

    /// What each flow group has to do.
    pub const fn groups(&self) -> &[GroupUsage; FLOW_GROUPS as usize] {
        &self.groups
    }

    /// The first connection of a flow group.
    pub fn first_of_group(&self, group: u8) -> Option<u32> {
        let head = self.group_heads.get(usize::from(group)).copied();
        head.filter(|slot| *slot != NONE)
    }

    /// The connection behind this one in its flow group.
    pub fn next_of_group(&self, slot: u32) -> Option<u32> {
        Some(self.get(slot).links.group_next).filter(|slot| *slot != NONE)
    }
}

/// Those that may have a segment to send.
impl Connections {
    /// Whether there is one.
    pub const fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// The connection may have a segment to send.
    pub fn push_ready(&mut self, slot: u32) {
        let links = &mut self.get_mut(slot).links;
        if !std::mem::replace(&mut links.is_ready, true) {
            self.append_ready(slot);
        }
    }

    /// To the end of the list; it counts as ready, and is in no list.
    pub fn append_ready(&mut self, slot: u32) {
        self.get_mut(slot).links.ready_next = NONE;
        if let Some(last) = self.ready.append(slot) {
            self.get_mut(last).links.ready_next = slot;
        }
    }

    /// Takes the first one; it still counts as ready.
    pub fn pop_ready(&mut self) -> Option<u32> {
        let slot = self.ready.first()?;
        self.ready.advance(self.get(slot).links.ready_next);
        Some(slot)
    }

    /// The connection, which is in no list, has nothing to send.
    pub fn unready(&mut self, slot: u32) {
        self.get_mut(slot).links.is_ready = false;
    }

    /// The connection waits for its next hop; it counts as ready, but is in the other list.
    pub fn wait(&mut self, slot: u32) {
        self.get_mut(slot).links.ready_next = self.waiting;
        self.waiting = slot;
    }

    /// Takes all that wait: the first of them. [`Self::next_waiting`] has the others, until they
    /// are put into another list.
    pub fn take_waiting(&mut self) -> Option<u32> {
        Some(std::mem::replace(&mut self.waiting, NONE)).filter(|slot| *slot != NONE)
    }

    /// The one that waited behind this one.
    pub fn next_waiting(&self, slot: u32) -> Option<u32> {
        Some(self.get(slot).links.ready_next).filter(|slot| *slot != NONE)
    }
}

/// Those with something to report.
impl Connections {
    /// The connection has something to report, or its end is settled silently.
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

    /// The first one.
    pub fn first_news(&self) -> Option<u32> {
        self.news.first()
    }

    /// The first one has nothing more to report.
    pub fn pop_news(&mut self) {
        if let Some(slot) = self.news.first() {
            let links = &mut self.get_mut(slot).links;
            links.has_events = false;
            let next = links.event_next;
            self.news.advance(next);
        }
    }
}
