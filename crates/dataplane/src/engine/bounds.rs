//! Addresses that applications have bound.

use crate::abi::Sharing;
use cofferdam_netstack::{ListenerId, UdpId};
use std::net::SocketAddr;

/// A bound address and its owner.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    pub domain: u8,
    pub cookie: u64,
    pub kind: Kind,
    /// The application of the configuration, the address, and who may share it.
    pub client: u8,
    pub local: SocketAddr,
    pub sharing: Sharing,
}

/// What it was bound for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Listener(ListenerId),
    Udp(UdpId),
}

/// The table, of all applications of one core.
pub(super) struct Bounds {
    all: Vec<Option<Bound>>,
    /// Which of a group was given a connection last.
    turn: usize,
}

impl Bounds {
    /// Room for `count`.
    pub fn new(count: u32) -> Bounds {
        Bounds {
            all: (0..count).map(|_| None).collect(),
            turn: 0,
        }
    }

    /// The listener at an address that its application's sessions of this group share.
    pub fn shared(&self, client: u8, local: SocketAddr, group: u64) -> Option<ListenerId> {
        let is_theirs = |bound: &&Bound| {
            let is_same = (bound.client, bound.local) == (client, local);
            is_same && group != 0 && bound.sharing.group == group
        };
        let found = self.all.iter().flatten().find(is_theirs)?;
        match found.kind {
            Kind::Listener(listener) => Some(listener),
            Kind::Udp(_) => None,
        }
    }

    /// Whether somebody listens with this listener.
    pub fn has(&self, listener: ListenerId) -> bool {
        let kind = Kind::Listener(listener);
        self.all.iter().flatten().any(|bound| bound.kind == kind)
    }

    /// Who is given the next connection of a listener, which is `index`'s unless it is shared.
    pub fn next(&mut self, index: u64, listener: ListenerId) -> Option<Bound> {
        let kind = Kind::Listener(listener);
        let first = self.get(index).filter(|bound| bound.kind == kind);
        if first.is_some_and(|bound| bound.sharing.group == 0) {
            return first;
        }
        let count = self.all.len();
        let mut standby = None;
        for place in (1..=count).map(|n| (self.turn + n) % count) {
            let bound = self.all.get(place).copied().flatten();
            match bound.filter(|bound| bound.kind == kind) {
                Some(bound) if !bound.sharing.is_standby => {
                    self.turn = place;
                    return Some(bound);
                }
                Some(bound) => standby = standby.or(Some(bound)),
                None => {}
            }
        }
        standby
    }

    /// The address with this number.
    pub fn get(&self, index: u64) -> Option<Bound> {
        self.all.get(index as usize).copied().flatten()
    }

    /// The address with this number, if it is that application's.
    pub fn of(&self, index: u64, domain: u8) -> Option<Bound> {
        self.get(index).filter(|bound| bound.domain == domain)
    }

    /// A number that is free.
    pub fn free(&self) -> Option<u64> {
        let place = self.all.iter().position(Option::is_none);
        place.map(|place| place as u64)
    }

    /// The address has this number.
    pub fn set(&mut self, index: u64, bound: Bound) {
        if let Some(place) = self.all.get_mut(index as usize) {
            *place = Some(bound);
        }
    }

    /// Takes the address with this number out, if it is that application's.
    pub fn take(&mut self, index: u64, domain: u8) -> Option<Bound> {
        let bound = self.of(index, domain)?;
        self.all.get_mut(index as usize)?.take();
        Some(bound)
    }

    /// Whether nothing is bound.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.all.iter().all(Option::is_none)
    }

    /// How many numbers there are, free or not.
    pub fn count(&self) -> u32 {
        self.all.len() as u32
    }

    /// Numbers, free or not.
    pub fn numbers(&self) -> std::ops::Range<u64> {
        0..self.all.len() as u64
    }
}
