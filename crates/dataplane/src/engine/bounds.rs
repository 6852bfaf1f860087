//! Addresses that applications have bound.

use crate::abi::Sharing;
use cofferdam_netstack::{ListenerId, UdpId};
use std::net::SocketAddr;

/// A bound address and its owner.
#[derive(Clone, Copy, Debug)]
pub(super) struct BoundAddress {
    pub domain: u8,
    pub cookie: u64,
    pub kind: BindingKind,
    /// Index of the application in the configuration.
    pub client: u8,
    pub local: SocketAddr,
    pub sharing: Sharing,
}

/// Use of a bound address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BindingKind {
    Listener(ListenerId),
    Udp(UdpId),
}

/// Table of the addresses of all applications on one core.
pub(super) struct Bounds {
    all: Vec<Option<BoundAddress>>,
    /// Number of the address whose session got the last connection to a shared listener.
    last_served: usize,
}

impl Bounds {
    /// A table with `count` places.
    pub fn new(count: u32) -> Bounds {
        Bounds {
            all: (0..count).map(|_| None).collect(),
            last_served: 0,
        }
    }

    /// Listener at an address that the application's sessions of this group share.
    pub fn shared(&self, client: u8, local: SocketAddr, group: u64) -> Option<ListenerId> {
        let is_theirs = |bound: &&BoundAddress| {
            let is_same = (bound.client, bound.local) == (client, local);
            is_same && group != 0 && bound.sharing.group == group
        };
        let found = self.all.iter().flatten().find(is_theirs)?;
        match found.kind {
            BindingKind::Listener(listener) => Some(listener),
            BindingKind::Udp(_) => None,
        }
    }

    /// Whether a session uses this listener.
    pub fn has_listener(&self, listener: ListenerId) -> bool {
        let kind = BindingKind::Listener(listener);
        self.all.iter().flatten().any(|bound| bound.kind == kind)
    }

    /// Session that gets the next connection of a listener: the one of address `index`, unless the
    /// listener is shared. The sessions of a shared listener take turns; a standby gets one only if
    /// all sessions are standbys.
    pub fn next(&mut self, index: u64, listener: ListenerId) -> Option<BoundAddress> {
        let kind = BindingKind::Listener(listener);
        let first = self.get(index).filter(|bound| bound.kind == kind);
        if first.is_some_and(|bound| bound.sharing.group == 0) {
            return first;
        }
        let count = self.all.len();
        let mut standby = None;
        for place in (1..=count).map(|n| (self.last_served + n) % count) {
            let bound = self.all.get(place).copied().flatten();
            match bound.filter(|bound| bound.kind == kind) {
                Some(bound) if !bound.sharing.is_standby => {
                    self.last_served = place;
                    return Some(bound);
                }
                Some(bound) => standby = standby.or(Some(bound)),
                None => {}
            }
        }
        standby
    }

    /// Address with this number.
    pub fn get(&self, index: u64) -> Option<BoundAddress> {
        self.all.get(index as usize).copied().flatten()
    }

    /// Address with this number, if it belongs to that application.
    pub fn get_owned(&self, index: u64, domain: u8) -> Option<BoundAddress> {
        self.get(index).filter(|bound| bound.domain == domain)
    }

    /// A free number.
    pub fn free(&self) -> Option<u64> {
        let place = self.all.iter().position(Option::is_none);
        place.map(|place| place as u64)
    }

    /// Sets the address with this number.
    pub fn set(&mut self, index: u64, bound: BoundAddress) {
        if let Some(place) = self.all.get_mut(index as usize) {
            *place = Some(bound);
        }
    }

    /// Removes the address with this number, if it belongs to that application.
    pub fn remove_owned(&mut self, index: u64, domain: u8) -> Option<BoundAddress> {
        let bound = self.get_owned(index, domain)?;
        self.all.get_mut(index as usize)?.take();
        Some(bound)
    }

    /// Whether no address is bound.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.all.iter().all(Option::is_none)
    }

    /// Number of places, free or not.
    pub fn count(&self) -> u32 {
        self.all.len() as u32
    }

    /// All numbers, free or not.
    pub fn numbers(&self) -> std::ops::Range<u64> {
        0..self.all.len() as u64
    }
}
