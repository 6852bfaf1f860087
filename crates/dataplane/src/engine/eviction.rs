//! Eviction of connections that rest, for newcomers.
//!
//! Remote peers can fill their application's share of the table of connections: they open
//! connections and let them rest. An application without a free place resets one of these
//! connections for each newcomer. Candidates are the next connections of the application in the
//! table that a peer has opened. The one with the largest product of its time without progress and
//! the number of its peer's connections goes. Connections that the application has opened stay: it
//! can close them itself.
//!
//! A connection with progress within [`REST`] is evicted only for a peer that has fewer
//! connections. Peers with equal numbers thus leave each other's active connections alone.
//!
//! The work of one eviction is bounded by [`CANDIDATES`], and that of a turn by
//! [`PLACES_A_TURN`].

use super::Engine;
use super::domain::Domain;
use super::owners::{EvictionSearch, Owner};
use crate::abi::{Condition, Ending};
use crate::tuning::eviction::{CANDIDATES, PLACES_A_TURN, REST};
use cofferdam_netstack::{ConnectionId, Time};
use cofferdam_xsk::Port;
use std::net::IpAddr;

impl<P: Port> Engine<P> {
    /// Starts a turn's budget of places that may be looked at.
    pub(super) fn start_evictions(&mut self) {
        self.eviction_places_left = PLACES_A_TURN;
    }

    /// Takes a place for a connection of an application, by eviction if none is free. `newcomer` is
    /// the peer that opens it; `None`: the application does. `caller` is the application, if it is
    /// out of the table of applications. Returns false if there is no place.
    pub(super) fn take_connection_place(
        &mut self,
        now: Time,
        client: u8,
        newcomer: Option<IpAddr>,
        caller: Option<&mut Domain>,
    ) -> bool {
        let has_place = self.pools.connections.take(client)
            || (self.evict(now, client, newcomer, caller) && self.pools.connections.take(client));
        self.tally.connections_refused += u64::from(!has_place);
        has_place
    }

    /// Resets the connection of an application that has rested most. Returns false if all may
    /// stay.
    fn evict(
        &mut self,
        now: Time,
        client: u8,
        newcomer: Option<IpAddr>,
        caller: Option<&mut Domain>,
    ) -> bool {
        let places = self
            .domains
            .iter()
            .filter(|domain| domain.client() == client);
        let places = places.map(|domain| domain.seat().place);
        let places = places.chain(caller.as_deref().map(|domain| domain.seat().place));
        let search = EvictionSearch {
            domains: places.fold(0, |bits, place| bits | 1 << place),
            newcomer: newcomer.map(|peer| self.owners.bucket_of(client, peer)),
            now,
            rest_ms: REST.as_millis() as u32,
            most_candidates: CANDIDATES,
        };
        let places_left = &mut self.eviction_places_left;
        let Some(connection) = self.owners.find_evictable(&search, places_left) else {
            return false;
        };
        // The application has no cookie for a connection that it has not accepted: its call to
        // accept is answered with the end.
        let is_rejected = self.stack.reject(now, connection).is_ok();
        if !is_rejected {
            // An error means that it has ended already, and that this is not reported yet.
            let _ = self.stack.abort(now, connection);
        }
        let Some(owner) = self.owners.remove(connection) else {
            return false;
        };
        self.cores.forget_guest(owner.handle);
        let is_caller = |domain: &&mut Domain| domain.seat().place == owner.domain;
        let domain = match caller.filter(is_caller) {
            Some(caller) => Some(caller),
            None => self.domains.get_mut(owner.domain),
        };
        if let Some(domain) = domain {
            domain.account.close(owner.ranges);
            if !is_rejected {
                domain.deliver(Condition::Dead {
                    cookie: owner.cookie,
                    handle: owner.handle,
                    reason: Ending::Reset,
                });
            }
        }
        self.pools.connections.give(client);
        self.tally.connections_evicted += 1;
        true
    }

    /// Gives a connection that a peer has opened to an application.
    pub(super) fn assign_opened(
        &mut self,
        now: Time,
        (client, place): (u8, u8),
        connection: ConnectionId,
        peer: IpAddr,
    ) -> u64 {
        let handle = self.name(connection);
        let owner = Owner::new(handle, place, 0, now);
        let peer = self.owners.bucket_of(client, peer);
        self.owners.set(connection, owner.opened_by(peer));
        handle
    }
}
