//! Several cores: each has its own loop, stack and part of the packet memory, and some of the 128
//! flow groups. Messages from one core to another pass a ring of their own, in order.
//!
//! No core reads another's tables. Messages also tell which core has which group.

mod hub;
mod inbound;
mod lane;
mod message;
mod moving;
mod steer;
#[cfg(test)]
mod tests;

pub(crate) use hub::Hub;

use crate::bell::Doors;
use crate::tuning::turns::LANE_ENTRIES;
use cofferdam_netstack::{ConnectionId, FLOW_GROUPS};
use hub::Remote;
use lane::{Reader, Writer, lane};
use message::{Arrival, Message};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

/// One core and its lanes to the others.
pub(super) struct Cores {
    hub: Arc<Hub>,
    /// Number of this core.
    id: u8,
    /// Lanes to each core; the next field has those from each core. None leads to the core itself.
    out: Vec<Option<Writer<Message>>>,
    back: Vec<Option<Reader<Message>>>,
    /// Messages that found a lane full and must not be lost.
    overdue: Vec<VecDeque<Message>>,
    /// Core of each group, as far as this core knows.
    owner: [u8; FLOW_GROUPS as usize],
    /// Groups that are moving to this core, and the messages for them.
    arrivals: Vec<Arrival>,
    /// Number of cores that send no more for a group that leaves.
    flushed: [u8; FLOW_GROUPS as usize],
    /// Connections that were opened on another core or have returned, by the name that their
    /// application has for them.
    guests: HashMap<u64, ConnectionId>,
}

impl Cores {
    /// The cores of a hub, joined by lanes.
    pub fn joined(hub: &Arc<Hub>, connections: u32) -> Vec<Cores> {
        let count = hub.count();
        let mut cores: Vec<Cores> = (0..count)
            .map(|me| Cores {
                hub: hub.clone(),
                id: me as u8,
                out: (0..count).map(|_| None).collect(),
                back: (0..count).map(|_| None).collect(),
                overdue: (0..count).map(|_| VecDeque::new()).collect(),
                owner: std::array::from_fn(|group| hub.owner(group as u8)),
                arrivals: Vec::new(),
                flushed: [0; FLOW_GROUPS as usize],
                guests: HashMap::with_capacity(if count > 1 { connections as usize } else { 0 }),
            })
            .collect();
        for from in 0..count {
            for to in (0..count).filter(|to| *to != from) {
                let (writer, reader) = lane();
                cores[from].out[to] = Some(writer);
                cores[to].back[from] = Some(reader);
            }
        }
        cores
    }

    /// State that all cores share.
    pub fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    /// Number of this core.
    #[inline]
    pub fn id(&self) -> u8 {
        self.id
    }

    /// Whether there are others.
    #[inline]
    pub fn is_many(&self) -> bool {
        self.out.len() > 1
    }

    pub fn count(&self) -> u8 {
        self.out.len() as u8
    }

    /// Numbers of the other cores.
    pub fn others(&self) -> impl Iterator<Item = u8> + use<> {
        let me = self.id;
        (0..self.count()).filter(move |core| *core != me)
    }

    /// Core that has a group.
    pub fn owner(&self, group: u8) -> u8 {
        self.owner[usize::from(group % FLOW_GROUPS)]
    }

    /// Groups of this core, as bits.
    pub fn own_groups(&self) -> u128 {
        let own = |(group, owner): (usize, &u8)| u128::from(*owner == self.id) << group;
        self.owner.iter().enumerate().map(own).sum()
    }

    /// This core, as others see it.
    pub fn me(&self) -> &Remote {
        &self.hub.cores[usize::from(self.id)]
    }

    /// Doors of the applications to this core.
    pub fn my_doors(&self) -> &Doors {
        &self.hub.doors()[usize::from(self.id)]
    }

    /// Sends a message that may be lost. Returns it if the lane is full.
    pub fn offer(&mut self, to: u8, message: Message) -> Result<(), Message> {
        let to = usize::from(to);
        // Overdue messages go first: messages are read in the order in which they are sent.
        match self.out.get_mut(to).and_then(Option::as_mut) {
            Some(writer) if self.overdue[to].is_empty() => writer.push(message),
            _ => Err(message),
        }
    }

    /// Sends a message that must not be lost.
    pub fn send(&mut self, to: u8, message: Message) {
        if let Err(message) = self.offer(to, message) {
            self.overdue[usize::from(to)].push_back(message);
        }
    }

    /// Number of messages that every lane, and every group that is moving here, has room for.
    pub fn room(&mut self) -> u32 {
        let is_late = self.overdue.iter().any(|o| !o.is_empty());
        if is_late || self.arrivals.iter().any(Arrival::is_full) {
            return 0;
        }
        let writers = self.out.iter_mut().flatten();
        writers
            .map(|w| w.room(LANE_ENTRIES / 4))
            .min()
            .unwrap_or(u32::MAX)
    }

    /// Publishes the messages to the other cores, and wakes sleeping cores.
    pub fn publish(&mut self) {
        for (to, writer) in self.out.iter_mut().enumerate() {
            let Some(writer) = writer else { continue };
            let overdue = &mut self.overdue[to];
            while let Some(message) = overdue.pop_front() {
                if let Err(message) = writer.push(message) {
                    overdue.push_front(message);
                    break;
                }
            }
            if writer.publish() {
                // Either the sleeper reads the new index, or this core reads that it sleeps.
                fence(Ordering::SeqCst);
                let other = &self.hub.cores[to];
                if other.sleeps.load(Ordering::Relaxed)
                    && other.sleeps.swap(false, Ordering::Relaxed)
                {
                    let _ = other.bell.write(1);
                }
            }
        }
    }

    /// Number of pending messages from a core.
    pub fn waiting_from(&self, from: u8) -> u32 {
        let lane = self.back.get(usize::from(from)).and_then(Option::as_ref);
        lane.map_or(0, Reader::len)
    }

    /// Takes the next message from a core.
    pub fn next_from(&mut self, from: u8) -> Option<Message> {
        self.back.get_mut(usize::from(from))?.as_mut()?.pop()
    }

    /// Publishes whether this core sleeps. Returns true if no message is pending in either
    /// direction.
    pub fn sleep(&self, sleeps: bool) -> bool {
        self.me().sleeps.store(sleeps, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.back.iter().flatten().all(Reader::is_empty)
            && self.overdue.iter().all(VecDeque::is_empty)
    }
}

/// Moving flow groups.
impl Cores {
    /// Messages for a group that is moving here.
    #[inline]
    pub fn arrival(&mut self, group: u8) -> Option<&mut Arrival> {
        self.arrivals.iter_mut().find(|a| a.group == group)
    }

    /// Expects a group from the core that has it.
    pub fn expect(&mut self, group: u8) {
        let from = self.owner(group);
        self.set_owner(group, self.id);
        self.arrivals.push(Arrival {
            group,
            from,
            waiting: Vec::new(),
        });
    }

    /// Takes the messages for a group that has arrived.
    pub fn arrived(&mut self, group: u8) -> Vec<Message> {
        let place = self.arrivals.iter().position(|a| a.group == group);
        let arrival = place.map(|place| self.arrivals.swap_remove(place));
        arrival.map_or_else(Vec::new, |arrival| arrival.waiting)
    }

    /// Whether messages of a core must wait because too many are pending for a group of another
    /// core.
    pub fn is_choked(&self, from: u8) -> bool {
        let waits = |a: &Arrival| a.is_full() && a.from != from;
        self.arrivals.iter().any(waits)
    }

    /// Counts a core that sends no more for a group. Returns true after the last one.
    pub fn count_flushed(&mut self, group: u8) -> bool {
        let others = self.count() - 1;
        let Some(flushed) = self.flushed.get_mut(usize::from(group)) else {
            return false;
        };
        *flushed += 1;
        if *flushed < others {
            return false;
        }
        *flushed = 0;
        true
    }

    /// Records the core of a group, as far as this core knows.
    pub fn set_owner(&mut self, group: u8, core: u8) {
        if let Some(owner) = self.owner.get_mut(usize::from(group)) {
            *owner = core;
        }
    }

    /// Groups that are here, as bits.
    pub fn present_groups(&self) -> u128 {
        let missing = self
            .arrivals
            .iter()
            .map(|a| 1_u128 << a.group)
            .sum::<u128>();
        self.own_groups() & !missing
    }
}

/// Connections with names of another core.
impl Cores {
    /// Connection with this name, if it is a guest.
    pub fn guest(&self, handle: u64) -> Option<ConnectionId> {
        self.guests.get(&handle).copied()
    }

    /// Adds a connection that came from another core, under its name there.
    pub fn add_guest(&mut self, handle: u64, connection: ConnectionId) {
        self.guests.insert(handle, connection);
    }

    /// Forgets a connection that has ended or left.
    #[inline]
    pub fn forget_guest(&mut self, handle: u64) {
        if self.is_many() {
            self.guests.remove(&handle);
        }
    }

    /// Whether there are no guests.
    #[cfg(test)]
    pub fn has_no_guests(&self) -> bool {
        self.guests.is_empty()
    }
}
