//! Binding and releasing of addresses.

use super::Engine;
use super::bounds::{BindingKind, BoundAddress};
use super::domain::Domain;
use crate::abi::{Refusal, Sharing};
use crate::policy::Transport;
use cofferdam_netstack::{BindError, Time};
use cofferdam_xsk::Port;
use std::net::SocketAddr;

impl<P: Port> Engine<P> {
    /// Binds an address for an application. Returns its number.
    pub(super) fn bind(
        &mut self,
        (place, domain): (u8, &Domain),
        transport: Transport,
        (local, sharing): (SocketAddr, Sharing),
        backlog: u32,
        cookie: u64,
    ) -> Result<u64, Refusal> {
        if !domain.rights().may_bind(transport, local) {
            return Err(Refusal::Forbidden);
        }
        let index = self.bounds.free().ok_or(Refusal::Full)?;
        let pool = self.pools.addresses(transport);
        if !pool.take(domain.client()) {
            return Err(Refusal::Full);
        }
        let kind = match transport {
            Transport::Tcp => match self.stack.listen(local, backlog, index) {
                Err(BindError::InUse(at)) => {
                    let shared = self.bounds.shared(domain.client(), local, sharing.group);
                    shared
                        .map(BindingKind::Listener)
                        .ok_or(BindError::InUse(at))
                }
                listens => listens.map(BindingKind::Listener),
            },
            Transport::Udp => self.stack.udp_bind(local, index).map(BindingKind::Udp),
        };
        let kind = kind.map_err(|error| {
            self.pools.addresses(transport).give(domain.client());
            match error {
                BindError::InUse(_) => Refusal::InUse,
                BindError::NotOurs(_) => Refusal::NotOurs,
                BindError::NoPort => Refusal::Invalid,
                BindError::Full(_) => Refusal::Full,
            }
        })?;
        if let BindingKind::Udp(udp) = kind {
            self.stack.set_udp_reader(udp, place);
        }
        let bound = BoundAddress {
            domain: place,
            cookie,
            kind,
            client: domain.client(),
            local,
            sharing,
        };
        self.bounds.set(index, bound);
        Ok(index)
    }

    /// Releases an address, if it belongs to the application. Returns the number of places that
    /// were looked at.
    pub(super) fn unbind(&mut self, now: Time, place: u8, client: u8, index: u64) -> u32 {
        let Some(bound) = self.bounds.remove_owned(index, place) else {
            return 0;
        };
        let mut looked_through = 0;
        let transport = match bound.kind {
            BindingKind::Listener(listener) => {
                looked_through += self.bounds.count();
                if !self.bounds.has_listener(listener) {
                    looked_through += self.stack.unlisten(now, listener);
                }
                Transport::Tcp
            }
            BindingKind::Udp(udp) => {
                self.stack.udp_unbind(udp);
                Transport::Udp
            }
        };
        self.pools.addresses(transport).give(client);
        looked_through
    }
}
