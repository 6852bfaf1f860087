//! Local ports of connections that specify none, in a separate order for each destination (RFC
//! 6056, 3.3).
//!
//! An observer of the ports to one destination can predict neither those to another nor the next
//! one to the same. The order is a permutation that a keyed hash of the destination selects. A
//! counter determines where the next search begins, so that a port is reused as late as possible
//! (RFC 6056, algorithm 4, with a permutation in place of the sum).

use crate::core::siphash::Key;
use crate::flow::FlowKey;

/// First port of the dynamic range (RFC 6335, 6).
const FIRST_PORT: u16 = 49_152;
/// Half of the bits of a position in the order.
const HALF_BITS: u32 = 7;
/// Number of ports from [`FIRST_PORT`] on.
pub const PORTS: u32 = 1 << (2 * HALF_BITS);
const _: () = assert!(FIRST_PORT as u32 + PORTS == 1 << 16);
/// Number of counters. Two destinations with the same counter skip each other's positions.
const COUNTERS: usize = 1024;
/// Rounds of the permutation. Four rounds of a good round function are indistinguishable from a
/// random permutation (Luby and Rackoff, 1988).
const ROUNDS: u32 = 4;

/// Start positions of the searches.
#[derive(Debug)]
pub struct Ports {
    key: Key,
    counters: Vec<u16>,
}

/// Order of the ports for one destination.
#[derive(Debug, Clone, Copy)]
pub struct PortOrder {
    hash: u64,
}

impl Ports {
    pub fn new(secret: &[u8; 16]) -> Self {
        let key = Key::new(secret, 7);
        // The initial positions are unpredictable too (RFC 6056, 3.3.1).
        let counters = (0..COUNTERS as u64).map(|n| key.hash(&[n]) as u16);
        Self {
            key,
            counters: counters.collect(),
        }
    }

    /// Order for the destination of `key`; its local port is ignored.
    pub fn order(&self, key: &FlowKey) -> PortOrder {
        let destination = FlowKey {
            local_port: 0,
            ..*key
        };
        PortOrder {
            hash: self.key.hash(&destination.words()),
        }
    }

    fn counter(order: PortOrder) -> usize {
        // The rounds use the lower bits too; the index of a counter is no secret.
        (order.hash >> 32) as usize % COUNTERS
    }

    /// Position in the order at which a search begins.
    pub fn first(&self, order: PortOrder) -> u16 {
        self.counters[Self::counter(order)]
    }

    /// Starts the next search behind this position, whose port is in use now.
    pub fn continue_behind(&mut self, order: PortOrder, position: u16) {
        self.counters[Self::counter(order)] = position.wrapping_add(1);
    }
}

impl PortOrder {
    /// Port at a position; [`PORTS`] consecutive positions contain all ports.
    pub fn port(self, position: u16) -> u16 {
        let mask = (1_u32 << HALF_BITS) - 1;
        let position = u32::from(position) % PORTS;
        let (mut left, mut right) = (position >> HALF_BITS, position & mask);
        for round in 0..ROUNDS {
            let salt = (self.hash >> (16 * round)) as u32 & 0xffff;
            let mixed = (right << 16 | salt).wrapping_mul(0x9e37_79b1);
            let mixed = (mixed ^ mixed >> 15).wrapping_mul(0x85eb_ca77);
            (left, right) = (right, left ^ mixed >> (32 - HALF_BITS));
        }
        FIRST_PORT + (left << HALF_BITS | right) as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::address::Addr;
    use std::collections::HashSet;
    use std::net::{IpAddr, Ipv4Addr};

    fn to(port: u16) -> FlowKey {
        let address = |last| Addr::from(IpAddr::from(Ipv4Addr::new(10, 0, 0, last)));
        FlowKey {
            local: address(1),
            remote: address(2),
            local_port: 0,
            remote_port: port,
        }
    }

    /// Promise 60.
    #[test]
    fn each_order_has_every_port_once() {
        let ports = Ports::new(&[7; 16]);
        for remote in 1..100 {
            let order = ports.order(&to(remote));
            let all: HashSet<u16> = (0..PORTS as u16).map(|place| order.port(place)).collect();
            assert_eq!(all.len() as u32, PORTS);
            assert!(all.iter().all(|port| *port >= FIRST_PORT));
        }
    }

    /// RFC 6056, 3.1: neither the next port to a destination nor one to another is predictable.
    /// Promise 60.
    #[test]
    fn ports_reveal_neither_the_next_one_nor_another_destinations() {
        let ports = Ports::new(&[7; 16]);
        let of = |remote| {
            let order = ports.order(&to(remote));
            let first = ports.first(order);
            let places = (0..1000).map(move |n| order.port(first.wrapping_add(n)));
            places.collect::<Vec<u16>>()
        };
        let (one, other) = (of(80), of(81));
        let same = one.iter().zip(&other).filter(|(a, b)| a == b).count();
        assert!(
            same <= 2,
            "{same} of 1,000 ports are the other destination's"
        );
        let steps: HashSet<u16> = one.windows(2).map(|w| w[1].wrapping_sub(w[0])).collect();
        assert!(steps.len() > 900, "{} different steps", steps.len());
        let near = one.windows(2).filter(|w| w[0].abs_diff(w[1]) < 16).count();
        assert!(near < 20, "{near} of 999 steps are small");
        let later = Ports::new(&[8; 16]);
        let order = later.order(&to(80));
        let first = later.first(order);
        let others = (0..1000).map(|n| order.port(first.wrapping_add(n)));
        let same = one.iter().zip(others).filter(|(a, b)| **a == *b).count();
        assert!(
            same <= 2,
            "{same} of 1,000 are the same with another secret"
        );
    }

    /// Promise 60.
    #[test]
    fn a_search_starts_behind_the_last_used_port() {
        let mut ports = Ports::new(&[7; 16]);
        let order = ports.order(&to(80));
        let place = ports.first(order).wrapping_add(5);
        ports.continue_behind(order, place);
        assert_eq!(ports.first(order), place.wrapping_add(1));
        assert_eq!(
            order.port(place),
            order.port(place.wrapping_add(PORTS as u16))
        );
    }
}
