//! Addresses at the dataplane of the UDP sockets of this process.

use crate::pump::Name;
use crate::udp::State;
use cofferdam_dataplane::BoundAddress;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, SocketAddr};

/// Address and the sockets that share it, the newest last.
pub struct Place {
    pub local: SocketAddr,
    pub users: Vec<Name>,
}

/// All such addresses.
#[derive(Default)]
pub struct Places {
    all: HashMap<BoundAddress, Place>,
}

impl Places {
    /// Adds an address that the dataplane was asked for.
    pub fn add(&mut self, bound: BoundAddress, place: Place) {
        self.all.insert(bound, place);
    }

    /// Name of an address at the dataplane.
    pub fn find(&self, local: SocketAddr) -> Option<BoundAddress> {
        let mut all = self.all.iter();
        all.find(|(_, place)| place.local == local)
            .map(|(bound, _)| *bound)
    }

    pub fn get_mut(&mut self, bound: BoundAddress) -> Option<&mut Place> {
        self.all.get_mut(&bound)
    }

    /// Removes an address that the dataplane has refused.
    pub fn remove(&mut self, bound: BoundAddress) -> Option<Place> {
        self.all.remove(&bound)
    }

    /// Removes a socket from an address. Returns whether it was the last.
    pub fn leave(&mut self, bound: BoundAddress, name: Name) -> bool {
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

    /// Removes all addresses, because their session has ended.
    pub fn take_all(&mut self) -> Vec<Place> {
        self.all.drain().map(|(_, place)| place).collect()
    }

    /// Socket for a datagram: see [`taker`].
    pub fn taker(
        &self,
        bound: BoundAddress,
        from: (SocketAddr, IpAddr),
        state: impl FnMut(Name) -> Option<(State, bool)>,
    ) -> Option<Name> {
        taker(&self.all.get(&bound)?.users, from, state)
    }
}

/// Socket of `users` for a datagram, chosen as by Linux: first one that is connected to the sender,
/// then the newest. In a group with `SO_REUSEPORT`, the sender determines the socket. `state`
/// returns a socket's state and whether it has that option.
fn taker(
    users: &[Name],
    (remote, local): (SocketAddr, IpAddr),
    mut state: impl FnMut(Name) -> Option<(State, bool)>,
) -> Option<Name> {
    let (mut newest, mut group) = (None, 0);
    for name in users.iter().rev() {
        match state(*name) {
            Some((state, _)) if !state.takes(remote, local) => {}
            Some((state, _)) if state.peer.is_some() => return Some(*name),
            Some((_, shares)) => {
                newest = newest.or(Some((*name, shares)));
                group += u64::from(shares);
            }
            None => {}
        }
    }
    let (name, shares) = newest?;
    if !shares || group < 2 {
        return Some(name);
    }
    let mut hash = DefaultHasher::new();
    (remote, local).hash(&mut hash);
    let index = (hash.finish() % group) as usize;
    let of_group = users
        .iter()
        .filter(|name| state(**name).is_some_and(|(state, shares)| shares && state.peer.is_none()));
    of_group.copied().nth(index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::udp::Peer;

    /// Promise 53.
    #[test]
    fn a_datagram_goes_to_the_most_specific_socket() {
        let local: IpAddr = [10, 0, 0, 9].into();
        let remote = |port| SocketAddr::from(([10, 0, 0, 2], port));
        let state = |peer: Option<u16>| State {
            ip: local,
            port: 53,
            is_bound: true,
            peer: peer.map(|port| Peer {
                remote: remote(port),
                local,
                is_kernels: false,
            }),
        };
        let all = [
            (state(None), false),
            (state(Some(9)), false),
            (state(None), false),
        ];
        let state_of = |name: Name| all.get(name as usize).copied();
        let taken = |users: &[Name], port| taker(users, (remote(port), local), state_of);
        assert_eq!(taken(&[0, 1, 2], 9), Some(1), "connected");
        assert_eq!(taken(&[0, 1, 2], 8), Some(2), "the newest");
        assert_eq!(taken(&[0, 1], 8), Some(0));
        assert_eq!(taken(&[1], 8), None);
        assert_eq!(taken(&[7], 8), None, "closed meanwhile");

        let group = |name: Name| Some((state((name == 3).then_some(9)), true));
        let taken: Vec<Option<Name>> = (0..64)
            .map(|port| taker(&[0, 1, 2, 3], (remote(10 + port), local), group))
            .collect();
        for name in 0..3 {
            assert!(taken.contains(&Some(name)), "{name}: {taken:?}");
        }
        assert!(!taken.contains(&Some(3)) && !taken.contains(&None));
        let again = taker(&[0, 1, 2, 3], (remote(10), local), group);
        assert_eq!(again, taken[0], "a sender always finds the same");
    }
}
