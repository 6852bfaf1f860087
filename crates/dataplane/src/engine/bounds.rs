//! Addresses that applications have bound.

use cofferdam_netstack::{ListenerId, UdpId};

/// A bound address and its owner.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound {
    pub domain: u8,
    pub cookie: u64,
    pub kind: Kind,
}

/// What it was bound for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Listener(ListenerId),
    Udp(UdpId),
}

/// The table, of all applications of one core.
pub(super) struct Bounds(Vec<Option<Bound>>);

impl Bounds {
    /// Room for `count`.
    pub fn new(count: u32) -> Bounds {
        Bounds((0..count).map(|_| None).collect())
    }

    /// The address with this number.
    pub fn get(&self, index: u64) -> Option<Bound> {
        self.0.get(index as usize).copied().flatten()
    }

    /// The address with this number, if it is that application's.
    pub fn of(&self, index: u64, domain: u8) -> Option<Bound> {
        self.get(index).filter(|bound| bound.domain == domain)
    }

    /// A number that is free.
    pub fn free(&self) -> Option<u64> {
        let place = self.0.iter().position(Option::is_none);
        place.map(|place| place as u64)
    }

    /// The address has this number.
    pub fn set(&mut self, index: u64, bound: Bound) {
        if let Some(place) = self.0.get_mut(index as usize) {
            *place = Some(bound);
        }
    }

    /// Takes the address with this number out, if it is that application's.
    pub fn take(&mut self, index: u64, domain: u8) -> Option<Bound> {
        let bound = self.of(index, domain)?;
        self.0.get_mut(index as usize)?.take();
        Some(bound)
    }

    /// Whether nothing is bound.
    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    /// Numbers, free or not.
    pub fn numbers(&self) -> std::ops::Range<u64> {
        0..self.0.len() as u64
    }
}
