//! Moves of flow groups from one core to another (IX, OSDI'14, 4.4), without loss and in order.
//!
//! 1. The new core keeps packets and calls for the group from now on, and notifies all others
//!    ([`Message::Mark`]).
//! 2. Each core notifies the old one that it sends no more ([`Message::Flushed`], behind all that
//!    it has sent before).
//! 3. When all have, the old core delivers its events, takes the connections out of its stack and
//!    sends them ([`Message::Group`]).
//! 4. The new core puts them into its stack and processes what it has kept.
//!
//! The application reads in the old core's ring that the group has left, and in the new core's ring
//! that it has arrived, and so reads the conditions between in order. It answers through the old
//! core's ring, and the answer follows the group behind all its calls. When the new core reports
//! `Settled`, the calls go there.

use super::message::{Bundle, Message};
use crate::abi::{Condition, Ending};
use crate::engine::Engine;
use crate::engine::buffers::buffer_place;
use crate::engine::domain::Domain;
use crate::engine::owners::Owner;
use crate::handle;
use cofferdam_netstack::{ConnectionId, FlowGroup, Time};
use cofferdam_xsk::Port;
use std::collections::HashMap;

impl<P: Port> Engine<P> {
    /// Fetches a group to this core. The control plane moves one group at a time.
    pub(in crate::engine) fn fetch(&mut self, group: u8) {
        let (me, from) = (self.cores.id(), self.cores.owner(group));
        if from == me {
            return;
        }
        self.cores.expect(group);
        for other in self.cores.others() {
            let message = if other == from {
                Message::Flushed { group, to: me }
            } else {
                Message::Mark { group, to: me }
            };
            self.cores.send(other, message);
        }
    }

    /// Redirects a group to core `to` from now on.
    pub(super) fn mark(&mut self, group: u8, to: u8) {
        let from = self.cores.owner(group);
        self.cores.set_owner(group, to);
        self.cores.send(from, Message::Flushed { group, to });
    }

    pub(super) fn flushed(&mut self, now: Time, group: u8, to: u8) {
        if self.cores.count_flushed(group) {
            self.give(now, group, to);
        }
    }

    /// Takes the group out and sends it.
    fn give(&mut self, now: Time, group: u8, to: u8) {
        // Events so far are delivered here, before the connections leave.
        self.deliver(now);
        let flows = self.stack.take_group(group);
        self.cores.set_owner(group, to);
        self.stack.set_owned_groups(self.cores.present_groups());
        let mut owners = HashMap::new();
        for connection in flows.handles() {
            let Some(owner) = self.owners.remove(connection) else {
                continue;
            };
            self.cores.forget_guest(owner.handle);
            let Some(domain) = self.domains.get_mut(owner.domain) else {
                continue;
            };
            domain.account.close(owner.ranges);
            self.pools.connections.give(domain.client());
            owners.insert(connection, (owner, domain.seat().generation));
        }
        let mut informed = Vec::new();
        for domain in self.domains.iter_mut() {
            if !domain.is_leaving() {
                domain.deliver(Condition::Left { group });
                informed.push((domain.seat().place, domain.seat().generation));
            }
        }
        let bundle = Bundle {
            group,
            flows,
            owners,
            informed,
        };
        self.cores.send(to, Message::Group(Box::new(bundle)));
    }

    /// Takes over a group that has arrived.
    pub(super) fn arrive(&mut self, now: Time, from: u8, bundle: Bundle) {
        // An application that attached before the group left must be attached here too.
        self.take_orders();
        let Bundle {
            group,
            flows,
            mut owners,
            informed,
        } = bundle;
        for (place, generation) in informed {
            if let Some(domain) = self.domain_of(place, generation) {
                domain.deliver(Condition::Arrived { group, from });
            }
        }
        self.tally.groups_moved += 1;
        self.tally.connections_moved += flows.len() as u64;
        match self.stack.put_group(now, flows) {
            Ok(handles) => {
                for (old, new) in handles {
                    if let Some((owner, generation)) = owners.remove(&old) {
                        self.adopt(now, new, owner, generation);
                    }
                }
            }
            Err(flows) => self.give_up(flows, owners),
        }
        let waiting = self.cores.arrived(group);
        self.stack.set_owned_groups(self.cores.present_groups());
        self.cores.hub().record_owner(group, self.cores.id());
        for message in waiting {
            self.take_message(now, from, message);
        }
    }

    fn adopt(&mut self, now: Time, connection: ConnectionId, owner: Owner, generation: u8) {
        let Some(domain) = self.domain_of(owner.domain, generation) else {
            // The application has ended meanwhile. A connection that knocked is rejected.
            if self.stack.reject(now, connection).is_err() {
                let _ = self.stack.abort(now, connection);
            }
            return;
        };
        domain.account.open(owner.ranges);
        let client = domain.client();
        self.pools.connections.force(client);
        let own_name = handle::encode(self.cores.id(), handle::group(owner.handle), connection);
        if own_name != owner.handle {
            self.cores.add_guest(owner.handle, connection);
        }
        self.owners.set(connection, owner);
    }

    /// Ends the connections of a group for which there is no room.
    fn give_up(&mut self, flows: FlowGroup, owners: HashMap<ConnectionId, (Owner, u8)>) {
        let (connections, buffers) = flows.give_up();
        self.tally.connections_lost += connections.len() as u64;
        for buffer in buffers {
            self.memory.give(buffer_place(buffer).0);
        }
        for (owner, generation) in owners.into_values() {
            if let Some(domain) = self.domain_of(owner.domain, generation) {
                domain.deliver(Condition::Dead {
                    cookie: owner.cookie,
                    handle: owner.handle,
                    reason: Ending::NoRoom,
                });
            }
        }
    }

    /// Application with this generation that is not being cleaned up.
    fn domain_of(&mut self, place: u8, generation: u8) -> Option<&mut Domain> {
        self.domains
            .get_generation_mut(place, generation)
            .filter(|domain| !domain.is_leaving())
    }
}
