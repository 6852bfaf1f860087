//! Slots of connections, and the lists they are in: ready to send, waiting for a neighbour, with
//! news, and of a flow group. All are linked through the connections themselves.

use super::{Stack, context, timer::Timers};
use crate::api::{ConnectionId, Time};
use crate::core::NONE;
use crate::flow;
use crate::tcp::state::Tcb;

/// First and last of a list of connections.
#[derive(Debug, Clone, Copy)]
pub struct Queue {
    pub head: u32,
    pub tail: u32,
}

impl Default for Queue {
    fn default() -> Self {
        Self {
            head: NONE,
            tail: NONE,
        }
    }
}

impl Stack {
    /// The slot of a connection that a handle names and that is alive.
    pub(super) fn slot_of(&self, id: ConnectionId) -> Option<u32> {
        let slot = self.slots.check(id.slot, id.generation)?;
        (!self.tcbs[slot].notices.has_ended()).then_some(id.slot)
    }

    pub(super) fn id_of(&self, slot: u32) -> ConnectionId {
        ConnectionId {
            slot,
            generation: self.slots.generation(slot),
        }
    }

    /// Puts a new connection into the tables.
    pub(super) fn insert(&mut self, tcb: Tcb) -> Option<u32> {
        let slot = self.slots.take()?;
        self.table.insert(tcb.hash, slot);
        self.tcbs[slot as usize] = tcb;
        self.join_group(slot);
        Some(slot)
    }

    fn join_group(&mut self, slot: u32) {
        let group = usize::from(flow::group(self.tcbs[slot as usize].hash));
        self.groups[group].connections += 1;
        let head = &mut self.group_heads[group];
        let next = std::mem::replace(head, slot);
        let links = &mut self.tcbs[slot as usize].links;
        (links.group_next, links.group_previous) = (next, NONE);
        if next != NONE {
            self.tcbs[next as usize].links.group_previous = slot;
        }
    }

    fn leave_group(&mut self, slot: u32) {
        let group = usize::from(flow::group(self.tcbs[slot as usize].hash));
        self.groups[group].connections -= 1;
        let links = self.tcbs[slot as usize].links;
        if links.group_next != NONE {
            self.tcbs[links.group_next as usize].links.group_previous = links.group_previous;
        }
        if links.group_previous != NONE {
            self.tcbs[links.group_previous as usize].links.group_next = links.group_next;
        } else {
            self.group_heads[group] = links.group_next;
        }
    }

    /// Something happened to a connection: it may have news, something to send, another deadline,
    /// or have ended.
    pub(super) fn settle(&mut self, slot: u32) {
        let tcb = &self.tcbs[slot as usize];
        if tcb.notices.has_ended() {
            self.unhook(slot);
        } else {
            if let Some(at) = tcb.deadline() {
                self.wheel.arm_no_later(slot, at.as_nanos());
            }
            self.push_ready(slot);
        }
        let tcb = &mut self.tcbs[slot as usize];
        if tcb.has_news() && !tcb.links.has_events && !tcb.notices.is_end_told() {
            tcb.links.has_events = true;
            tcb.links.event_next = NONE;
            match self.tcbs.get_mut(self.news.tail as usize) {
                Some(last) => last.links.event_next = slot,
                None => self.news.head = slot,
            }
            self.news.tail = slot;
        }
    }

    /// A connection that ended leaves all tables but those that still point at its slot.
    fn unhook(&mut self, slot: u32) {
        let tcb = &self.tcbs[slot as usize];
        if self.table.remove(tcb.hash, slot) {
            self.leave_group(slot);
            self.wheel.disarm(slot);
            self.leave_listener(slot);
        }
    }

    pub(super) fn push_ready(&mut self, slot: u32) {
        let links = &mut self.tcbs[slot as usize].links;
        if links.is_ready {
            return;
        }
        links.is_ready = true;
        self.append_ready(slot);
    }

    /// To the end of the ready list; it is in none.
    pub(super) fn append_ready(&mut self, slot: u32) {
        self.tcbs[slot as usize].links.ready_next = NONE;
        match self.tcbs.get_mut(self.ready.tail as usize) {
            Some(last) => last.links.ready_next = slot,
            None => self.ready.head = slot,
        }
        self.ready.tail = slot;
    }

    /// Takes the first ready connection; it still counts as ready.
    pub(super) fn pop_ready(&mut self) -> Option<u32> {
        let slot = self.ready.head;
        let next = self.tcbs.get(slot as usize)?.links.ready_next;
        self.ready.head = next;
        if next == NONE {
            self.ready.tail = NONE;
        }
        Some(slot)
    }

    pub(super) fn pop_news(&mut self) {
        let slot = self.news.head;
        if let Some(tcb) = self.tcbs.get_mut(slot as usize) {
            tcb.links.has_events = false;
            self.news.head = tcb.links.event_next;
            if self.news.head == NONE {
                self.news.tail = NONE;
            }
        }
    }

    /// Frees the slot of an ended connection once nothing points at it.
    pub(super) fn free_if_done(&mut self, slot: u32) {
        let tcb = &self.tcbs[slot as usize];
        if tcb.notices.is_end_settled()
            && !tcb.links.is_ready
            && !tcb.links.has_events
            && self.slots.is_used(slot)
        {
            self.slots.free(slot);
        }
    }

    /// The connection is over but for TIME_WAIT, which it spends in a table of its own.
    pub(super) fn enter_time_wait(&mut self, slot: u32, now: Time) {
        self.drop_old_time_wait(now);
        let tcb = self.tcbs[slot as usize];
        if let Some(place) = self.time_wait.add(&tcb, &self.config.tcp, now) {
            self.tcbs[slot as usize].end(crate::api::DeadReason::Closed, &mut context!(self, now));
            self.settle(slot);
            self.table
                .insert(tcb.hash, place + self.config.limits.connections);
            self.arm_time_wait();
        }
    }

    /// Takes a TIME_WAIT entry out.
    pub(super) fn remove_time_wait(&mut self, place: u32) {
        let hash = self.time_wait.get(place).hash;
        self.table
            .remove(hash, place + self.config.limits.connections);
        self.time_wait.remove(place);
    }

    /// Forgets entries whose time is over, and the oldest one when there is no room for another.
    pub(super) fn drop_old_time_wait(&mut self, now: Time) {
        while let Some(place) = self.time_wait.victim(now) {
            if self.time_wait.next_end().is_some_and(|end| end > now) {
                self.counters.time_wait_overflow += 1;
            }
            self.remove_time_wait(place);
        }
    }

    pub(super) fn arm_time_wait(&mut self) {
        if let Some(end) = self.time_wait.next_end() {
            let id = Timers::of(&self.config.limits).time_wait;
            self.wheel.arm_no_later(id, end.as_nanos());
        }
    }
}
