//! Addresses at the dataplane that UDP sockets of this process have.

use super::Name;
use super::slots::Slots;
use super::udp::Socket;
use cofferdam_dataplane::Bound;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, SocketAddr};

/// An address, and the sockets that have it, the newest last.
pub struct Place {
    pub local: SocketAddr,
    pub users: Vec<Name>,
}

/// All of them.
#[derive(Default)]
pub struct Places {
    all: HashMap<Bound, Place>,
}

impl Places {
    /// The dataplane is asked for an address.
    pub fn add(&mut self, bound: Bound, place: Place) {
        self.all.insert(bound, place);
    }

    /// The dataplane's name of an address.
    pub fn find(&self, local: SocketAddr) -> Option<Bound> {
        let mut all = self.all.iter();
        all.find(|(_, place)| place.local == local)
            .map(|(bound, _)| *bound)
    }

    pub fn get_mut(&mut self, bound: Bound) -> Option<&mut Place> {
        self.all.get_mut(&bound)
    }

    /// The dataplane has refused it.
    pub fn remove(&mut self, bound: Bound) -> Option<Place> {
        self.all.remove(&bound)
    }

    /// A socket no longer has it; true when none has.
    pub fn leave(&mut self, bound: Bound, name: Name) -> bool {
        let Some(place) = self.all.get_mut(&bound) else {
            return false;
        };
        place.users.retain(|user| *user != name);
        let is_empty = place.users.is_empty();
        if is_empty {
            self.all.remove(&bound);
        }
        is_empty
    }

    /// All of them, whose names are those of a session that has ended.
    pub fn take_all(&mut self) -> Vec<Place> {
        self.all.drain().map(|(_, place)| place).collect()
    }

    /// The socket that a datagram is for, as Linux chooses it: one that is connected with its sender
    /// first, then the newest; of a group that shares by `SO_REUSEPORT`, one by the sender.
    pub fn taker(
        &self,
        sockets: &mut Slots<Socket>,
        bound: Bound,
        (remote, local): (SocketAddr, IpAddr),
    ) -> Option<Name> {
        let users = &self.all.get(&bound)?.users;
        let mut others = Vec::new();
        for name in users.iter().rev() {
            let Some(socket) = sockets.get_mut(*name) else {
                continue;
            };
            let state = socket.shown.with(|state| *state);
            match (state.takes(remote, local), state.peer) {
                (true, Some(_)) => return Some(*name),
                (true, None) if users.len() == 1 => return Some(*name),
                (true, None) => others.push((*name, socket.reuse.port)),
                (false, _) => {}
            }
        }
        let first = others.first()?;
        if !first.1 {
            return Some(first.0);
        }
        let mut hash = DefaultHasher::new();
        (remote, local).hash(&mut hash);
        let place = hash.finish() % others.len() as u64;
        others.get(place as usize).map(|(name, _)| *name)
    }
}
