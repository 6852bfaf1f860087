//! Owners of the connections, and the memory of their applications that the stack refers to.

use super::peers::{PeerBucket, PeerCounts};
use cofferdam_netstack::{ConnectionId, Time};
use std::hash::RandomState;

/// Owner of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Owner {
    /// Name of the connection in the stack; 0 if the place is free.
    id: u64,
    /// Name of the connection for applications and other cores.
    pub handle: u64,
    pub cookie: u64,
    /// Bytes handed to the stack since the connection opened.
    pub sent_bytes: u64,
    /// Ranges of its application's memory that the stack refers to.
    pub ranges: u32,
    /// Time of the last progress, which is received or acknowledged data, in milliseconds of the
    /// loop's clock.
    progress_ms: u32,
    /// The peer that opened the connection; `None` if the application did.
    peer: Option<PeerBucket>,
    /// Place of the application in the core's table of attached applications.
    pub domain: u8,
}

impl Owner {
    /// Owner of a connection that opens now.
    pub fn new(handle: u64, domain: u8, cookie: u64, now: Time) -> Owner {
        Owner {
            handle,
            domain,
            cookie,
            progress_ms: milliseconds(now),
            ..Owner::default()
        }
    }

    /// Marks the connection as opened by a peer.
    pub fn opened_by(self, peer: PeerBucket) -> Owner {
        Owner {
            peer: Some(peer),
            ..self
        }
    }

    /// Counts bytes that the stack has taken.
    pub fn count_sent(&mut self, bytes: u32) {
        self.sent_bytes += u64::from(bytes);
        self.ranges += 1;
    }

    /// Records that the connection has made progress.
    #[inline]
    pub fn record_progress(&mut self, now: Time) {
        self.progress_ms = milliseconds(now);
    }
}

/// The loop's clock in milliseconds. It wraps after 49 days.
fn milliseconds(now: Time) -> u32 {
    (now.as_nanos() / 1_000_000) as u32
}

/// Owners of all connections, by place in the stack's table.
pub(super) struct Owners {
    places: Vec<Owner>,
    peers: PeerCounts,
    /// Place where the next search for a connection to evict begins.
    next_place: usize,
}

/// Conditions of a search for a connection to evict.
#[derive(Clone, Copy, Debug)]
pub(super) struct EvictionSearch {
    /// Applications whose connections count: bit n for place n.
    pub domains: u32,
    /// The peer that wants a place; `None` if the application wants it.
    pub newcomer: Option<PeerBucket>,
    pub now: Time,
    /// A connection with progress within this time is evicted only for a peer that has fewer.
    pub rest_ms: u32,
    /// Connections that are compared, at most.
    pub most_candidates: u32,
}

impl Owners {
    /// A table with `connections` places. All cores of a dataplane hash peers in the same way.
    pub fn new(connections: u32, hasher: RandomState) -> Owners {
        Owners {
            places: vec![Owner::default(); connections as usize],
            peers: PeerCounts::new(hasher),
            next_place: 0,
        }
    }

    /// Bucket in which a peer's connections to an application are counted. `client` is the index of
    /// the application in the configuration.
    pub fn bucket_of(&self, client: u8, peer: std::net::IpAddr) -> PeerBucket {
        self.peers.bucket(client, peer)
    }

    /// Sets the owner of a connection.
    pub fn set(&mut self, connection: ConnectionId, owner: Owner) {
        if let Some(place) = self.places.get_mut(connection.slot() as usize) {
            let id = connection.to_bits();
            *place = Owner { id, ..owner };
            self.peers.add(owner.peer);
        }
    }

    /// Whether the connection is open and has this handle.
    pub fn has(&self, connection: ConnectionId, handle: u64) -> bool {
        let place = self.places.get(connection.slot() as usize);
        place.is_some_and(|o| o.id == connection.to_bits() && o.id != 0 && o.handle == handle)
    }

    /// The owner of a connection; `None` if the connection has ended.
    pub fn get_mut(&mut self, connection: ConnectionId) -> Option<&mut Owner> {
        let place = self.places.get_mut(connection.slot() as usize)?;
        (place.id == connection.to_bits() && place.id != 0).then_some(place)
    }

    /// Number of connections that have an owner.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.places.iter().filter(|o| o.id != 0).count()
    }

    /// Names of all connections.
    #[cfg(test)]
    pub fn handles(&self) -> impl Iterator<Item = u64> + '_ {
        self.places.iter().filter(|o| o.id != 0).map(|o| o.handle)
    }

    /// Forgets a connection and returns its owner.
    pub fn remove(&mut self, connection: ConnectionId) -> Option<Owner> {
        let owner = self.get_mut(connection).map(std::mem::take)?;
        self.peers.remove(owner.peer);
        Some(owner)
    }

    /// Finds at most `most` connections of one application in at most `most_places` places, from
    /// `from` on. Returns them with the place where the next search begins.
    pub fn find_connections(
        &self,
        domain: u8,
        from: usize,
        most_places: usize,
        most: usize,
    ) -> (Vec<ConnectionId>, usize) {
        let end = from.saturating_add(most_places).min(self.places.len());
        let places = self.places.get(from..end).unwrap_or_default();
        let mut own = Vec::with_capacity(most);
        for (place, owner) in (from..).zip(places) {
            if own.len() == most {
                return (own, place);
            }
            if owner.id != 0 && owner.domain == domain {
                own.push(ConnectionId::from_bits(owner.id));
            }
        }
        (own, if end < self.places.len() { end } else { 0 })
    }

    /// Finds the connection to evict: of the connections that peers opened, the one with the
    /// largest product of its time without progress and the number of its peer's connections. Looks
    /// at no more than `places_left` places, and subtracts the number of places that it looked at.
    pub fn find_evictable(
        &mut self,
        search: &EvictionSearch,
        places_left: &mut u32,
    ) -> Option<ConnectionId> {
        let now_ms = milliseconds(search.now);
        let own_count = search.newcomer.map(|peer| self.peers.count(peer));
        let (mut candidates, mut best) = (0, None);
        for _ in 0..self.places.len() {
            if candidates == search.most_candidates || *places_left == 0 {
                break;
            }
            *places_left -= 1;
            let owner = self.places.get(self.next_place)?;
            self.next_place = (self.next_place + 1) % self.places.len();
            let is_wanted = owner.id != 0 && search.domains >> owner.domain & 1 == 1;
            let Some(peer) = owner.peer.filter(|_| is_wanted) else {
                continue;
            };
            candidates += 1;
            let rest_ms = now_ms.wrapping_sub(owner.progress_ms);
            let count = self.peers.count(peer);
            if rest_ms < search.rest_ms && own_count.is_none_or(|own| count <= own) {
                continue;
            }
            let rank = u64::from(rest_ms.max(1)) * u64::from(count);
            if best.is_none_or(|(highest, _)| rank > highest) {
                best = Some((rank, owner.id));
            }
        }
        best.map(|(_, id)| ConnectionId::from_bits(id))
    }
}
