//! Several cores: each has its own loop, stack and part of the packet memory, and some of the 128
//! flow groups. What one core has for another goes through a ring of its own, in order.
//!
//! No core reads another's tables: which core has which group is told by letters as well.

mod hub;
mod lane;
mod letters;
mod moving;
mod steer;
#[cfg(test)]
mod tests;

pub(crate) use hub::{Hub, Seat};
pub(super) use lane::ENTRIES as LANE_ENTRIES;
pub(super) use moving::Arrival;

use super::owners::Owner;
use crate::abi::Entry;
use crate::bell::Doors;
use cofferdam_netstack::{ConnectionId, FLOW_GROUPS, FlowGroup};
use cofferdam_xsk::{Frame, Packet};
use hub::Remote;
use lane::{Reader, Writer, lane};
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

/// Cores of one dataplane at most: handles carry the core in five bits.
pub const MOST_CORES: usize = 32;

/// What one core has for another.
pub(super) enum Letter {
    /// A packet of a flow group that the reader has, or that only the first core takes.
    Packet(Packet),
    /// A copy of a packet that every core takes.
    Copy(Packet),
    /// A frame of the reader's part of the memory.
    Frame(Frame),
    /// A call about a connection that the reader has.
    Call(Box<Forwarded>),
    /// Received data of a connection that the reader has is no longer needed.
    RecvDone { handle: u64, len: u32 },
    /// `group` is going to core `to`: packets for it go there from now on.
    Mark { group: u8, to: u8 },
    /// The writer has seen that the reader gives `group` to core `to`: no more comes from him.
    Flushed { group: u8, to: u8 },
    /// A flow group with all that belongs to it.
    Group(Box<Bundle>),
}

/// A call that its first reader could not do.
pub(super) struct Forwarded {
    pub place: u8,
    pub generation: u8,
    pub entry: Entry,
}

/// A flow group on its way.
pub(super) struct Bundle {
    pub group: u8,
    pub flows: FlowGroup,
    /// By the handle that the connection had where it comes from.
    pub owners: HashMap<ConnectionId, (Owner, u8)>,
    /// Applications that were told that the group has left.
    pub told: Vec<(u8, u8)>,
}

/// One core among its peers.
pub(super) struct Cores {
    pub hub: Arc<Hub>,
    /// Which one this is.
    pub me: u8,
    /// To and from each core; nothing at our own place.
    out: Vec<Option<Writer<Letter>>>,
    back: Vec<Option<Reader<Letter>>>,
    /// Letters that found a lane full and must not be lost.
    overdue: Vec<VecDeque<Letter>>,
    /// Which core has which group, as far as this one has been told.
    owner: [u8; FLOW_GROUPS as usize],
    /// Groups that are on their way to this core, and what waits for them.
    arrivals: Vec<Arrival>,
    /// How many cores have said that nothing more comes for a group that leaves.
    flushed: [u8; FLOW_GROUPS as usize],
    /// Connections that were opened on another core or came back, by the name that their
    /// application knows.
    pub guests: HashMap<u64, ConnectionId>,
}

impl Cores {
    /// One for each core of a hub, joined by lanes.
    pub fn joined(hub: &Arc<Hub>, connections: u32) -> Vec<Cores> {
        let count = hub.count();
        let mut cores: Vec<Cores> = (0..count)
            .map(|me| Cores {
                hub: hub.clone(),
                me: me as u8,
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

    /// Whether there are others.
    #[inline]
    pub fn is_many(&self) -> bool {
        self.out.len() > 1
    }

    pub fn count(&self) -> u8 {
        self.out.len() as u8
    }

    /// The other cores.
    pub fn others(&self) -> impl Iterator<Item = u8> + use<> {
        let me = self.me;
        (0..self.count()).filter(move |core| *core != me)
    }

    /// The core that has a group.
    pub fn owner(&self, group: u8) -> u8 {
        self.owner[usize::from(group % FLOW_GROUPS)]
    }

    /// The groups that this core has, as bits.
    pub fn own_groups(&self) -> u128 {
        let own = |(group, owner): (usize, &u8)| u128::from(*owner == self.me) << group;
        self.owner.iter().enumerate().map(own).sum()
    }

    pub fn me(&self) -> &Remote {
        &self.hub.cores[usize::from(self.me)]
    }

    /// The applications' doors to this core.
    pub fn my_doors(&self) -> &Doors {
        &self.hub.doors()[usize::from(self.me)]
    }

    /// Sends what may be lost; gives it back when the lane is full.
    pub fn offer(&mut self, to: u8, letter: Letter) -> Result<(), Letter> {
        let to = usize::from(to);
        // Never before what is overdue: letters are read in the order in which they are sent.
        match self.out.get_mut(to).and_then(Option::as_mut) {
            Some(writer) if self.overdue[to].is_empty() => writer.push(letter),
            _ => Err(letter),
        }
    }

    /// Sends what must not be lost.
    pub fn send(&mut self, to: u8, letter: Letter) {
        if let Err(letter) = self.offer(to, letter) {
            self.overdue[usize::from(to)].push_back(letter);
        }
    }

    /// Letters that every lane takes, and every group that is on its way here.
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

    /// Shows the others what was written for them, and wakes who sleeps.
    pub fn publish(&mut self) {
        for (to, writer) in self.out.iter_mut().enumerate() {
            let Some(writer) = writer else { continue };
            let overdue = &mut self.overdue[to];
            while let Some(letter) = overdue.pop_front() {
                if let Err(letter) = writer.push(letter) {
                    overdue.push_front(letter);
                    break;
                }
            }
            if writer.publish() {
                // Either the sleeper sees the new index, or we see that it sleeps.
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

    /// Letters of a core that wait.
    pub fn waiting_from(&self, from: u8) -> u32 {
        let lane = self.back.get(usize::from(from)).and_then(Option::as_ref);
        lane.map_or(0, Reader::len)
    }

    /// The next letter from a core.
    pub fn next_from(&mut self, from: u8) -> Option<Letter> {
        self.back.get_mut(usize::from(from))?.as_mut()?.pop()
    }

    /// Says that this core sleeps, or not; true when no letter waits, in or out.
    pub fn sleep(&self, sleeps: bool) -> bool {
        self.me().sleeps.store(sleeps, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        self.back.iter().flatten().all(Reader::is_empty)
            && self.overdue.iter().all(VecDeque::is_empty)
    }
}
