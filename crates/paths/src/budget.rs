//! Division of a server's places between its peers, so that no peer keeps the others out.

use std::net::IpAddr;

/// The other end of a connection, as far as places are concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Peer {
    /// A user of this host.
    Uid(u32),
    /// Another host, or an IPv6 network.
    Address(IpAddr),
}

/// Places of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerBudget {
    /// Places of all peers together.
    pub all: usize,
    /// Places of all peers but root. The rest is reserved for root.
    pub unprivileged: usize,
    /// Places of one peer that is not root.
    pub one_peer: usize,
}

/// Decision about one more connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// A place is free.
    Free,
    /// A place is free once the connection at this position has been closed.
    InsteadOf(usize),
    /// No place can be made free.
    Refused,
}

impl Peer {
    /// Root of this host.
    pub const ROOT: Peer = Peer::Uid(0);

    /// The peer at an address. A host can have 2⁶⁴ IPv6 addresses, so its network counts as the
    /// peer.
    pub fn at(address: IpAddr) -> Peer {
        Peer::Address(match address.to_canonical() {
            IpAddr::V6(v6) => {
                let network = u128::from(v6) & !u128::from(u64::MAX);
                IpAddr::V6(network.into())
            }
            v4 => v4,
        })
    }
}

impl PeerBudget {
    /// Decides about a new connection of `peer`. `others` are the present connections, the longest
    /// idle first, each with its peer and whether it may be closed.
    ///
    /// A peer at its own limit replaces its own connection. If all places are taken, the new
    /// connection replaces one of the peer with the most connections. Root's connections are never
    /// replaced for others.
    pub fn admit(&self, peer: Peer, others: &[(Peer, bool)]) -> Admission {
        let count = |one: Peer| others.iter().filter(|(other, _)| *other == one).count();
        let own = count(peer);
        let oldest_of = |mut is_meant: Box<dyn FnMut(Peer) -> bool + '_>| {
            let found = others
                .iter()
                .position(|(other, may_go)| *may_go && is_meant(*other));
            found.map_or(Admission::Refused, Admission::InsteadOf)
        };
        if peer != Peer::ROOT && own >= self.one_peer {
            return oldest_of(Box::new(|other| other == peer));
        }
        let unprivileged = others.len() - count(Peer::ROOT);
        let has_room = peer == Peer::ROOT || unprivileged < self.unprivileged;
        if others.len() < self.all && has_room {
            return Admission::Free;
        }
        let may_go = others
            .iter()
            .filter(|(other, may_go)| *may_go && *other != Peer::ROOT);
        match may_go.map(|(other, _)| count(*other)).max() {
            Some(most) if peer == Peer::ROOT || most > own => oldest_of(Box::new(move |other| {
                other != Peer::ROOT && count(other) == most
            })),
            _ => oldest_of(Box::new(|other| other == peer)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUDGET: PeerBudget = PeerBudget {
        all: 8,
        unprivileged: 6,
        one_peer: 3,
    };

    /// Opens a connection of each of `peers` in turn. Returns the connections that are left.
    fn opened(peers: &[u32]) -> Vec<(Peer, bool)> {
        let mut open = Vec::new();
        for peer in peers.iter().copied().map(Peer::Uid) {
            match BUDGET.admit(peer, &open) {
                Admission::Free => {}
                Admission::InsteadOf(position) => drop(open.remove(position)),
                Admission::Refused => continue,
            }
            open.push((peer, true));
        }
        open
    }

    fn count(open: &[(Peer, bool)], uid: u32) -> usize {
        open.iter()
            .filter(|(peer, _)| *peer == Peer::Uid(uid))
            .count()
    }

    /// Promise 71.
    #[test]
    fn a_peer_at_its_limit_replaces_its_own_oldest_connection() {
        let open = opened(&[7, 1, 1, 1, 1, 1]);
        assert_eq!((count(&open, 7), count(&open, 1)), (1, 3));
        assert_eq!(BUDGET.admit(Peer::Uid(1), &open), Admission::InsteadOf(1));
    }

    /// Promise 71.
    #[test]
    fn many_peers_keep_neither_root_nor_a_new_one_out() {
        let mut open = opened(&[1, 1, 1, 2, 2, 2]);
        assert_eq!(BUDGET.admit(Peer::Uid(3), &open), Admission::InsteadOf(0));
        assert_eq!(BUDGET.admit(Peer::ROOT, &open), Admission::Free);
        open.extend([(Peer::ROOT, true); 2]);
        assert!(matches!(
            BUDGET.admit(Peer::ROOT, &open),
            Admission::InsteadOf(0..=5)
        ));
        // One place each, as of a user with many numbers: the newest connection gets a place.
        let open = opened(&[1, 2, 3, 4, 5, 6, 7]);
        assert_eq!((count(&open, 1), count(&open, 7)), (0, 1));
    }

    /// Promise 71.
    #[test]
    fn busy_connections_and_those_of_root_stay() {
        let busy = vec![(Peer::Uid(1), false); 3];
        assert_eq!(BUDGET.admit(Peer::Uid(1), &busy), Admission::Refused);
        let of_root = vec![(Peer::ROOT, true); 8];
        assert_eq!(BUDGET.admit(Peer::Uid(1), &of_root), Admission::Refused);
        assert_eq!(BUDGET.admit(Peer::ROOT, &of_root), Admission::InsteadOf(0));
    }

    /// Promise 71.
    #[test]
    fn a_network_of_ipv6_is_one_peer() {
        let at = |text: &str| Peer::at(text.parse().unwrap());
        assert_eq!(at("2001:db8::1"), at("2001:db8::ffff:0:0:1"));
        assert_ne!(at("2001:db8::1"), at("2001:db8:0:1::1"));
        assert_eq!(at("::ffff:10.0.0.1"), at("10.0.0.1"));
        assert_ne!(at("10.0.0.1"), at("10.0.0.2"));
    }
}
