//! A flow group goes from one core to another (IX, OSDI'14, 4.4), and nothing is lost or
//! overtaken.
//!
//! 1. The core that is to have it keeps what comes for it from now on, and tells all others
//!    ([`Letter::Mark`]).
//! 2. Each core tells the one that has it that nothing more comes from there
//!    ([`Letter::Flushed`], behind all that it has sent before).
//! 3. When all have, that core hands its events out, takes the connections out of its stack and
//!    sends them ([`Letter::Group`]).
//! 4. The new core puts them into its stack and goes on with what it has kept.
//!
//! An application is told by its ring of the old core that the group has left, and by that of the
//! new one that it has arrived: it reads what lies between in order. It answers through the ring
//! of the old core; the answer follows the group behind all its calls. When the new core says
//! `Settled` its calls go there.

use super::{Bundle, Cores, LANE_ENTRIES, Letter};
use crate::abi::{Condition, Ending};
use crate::engine::domain::Domain;
use crate::engine::owners::Owner;
use crate::engine::{Engine, buffer_place};
use crate::handle;
use cofferdam_netstack::{ConnectionId, FlowGroup, Time};
use cofferdam_xsk::Port;
use std::collections::HashMap;

/// A group on its way here.
pub(in crate::engine) struct Arrival {
    pub group: u8,
    /// The core that has it until then.
    pub from: u8,
    /// What came for it meanwhile, in order.
    pub held: Vec<Letter>,
}

impl Arrival {
    /// Whether more is lost, or waits where it is.
    pub fn is_full(&self) -> bool {
        self.held.len() >= LANE_ENTRIES as usize
    }
}

impl Cores {
    /// Whether the letters of a core wait for a group of another, behind which too much waits
    /// already.
    pub(super) fn is_choked(&self, from: u8) -> bool {
        let waits = |a: &Arrival| a.is_full() && a.from != from;
        self.arrivals.iter().any(waits)
    }

    /// Counts that a core sends no more for a group; true when none does.
    fn count_flushed(&mut self, group: u8) -> bool {
        let others = self.count() - 1;
        let Some(flushed) = self.flushed.get_mut(usize::from(group)) else {
            return false;
        };
        *flushed += 1;
        if *flushed < others {
            return false;
        }
        *flushed = 0;
        true
    }

    fn set_owner(&mut self, group: u8, core: u8) {
        if let Some(owner) = self.owner.get_mut(usize::from(group)) {
            *owner = core;
        }
    }

    /// The groups that are here.
    fn present_groups(&self) -> u128 {
        let missing = self
            .arrivals
            .iter()
            .map(|a| 1_u128 << a.group)
            .sum::<u128>();
        self.own_groups() & !missing
    }
}

impl<P: Port> Engine<P> {
    /// This core is to have a group. One group moves at a time: the control plane sees to it.
    pub(in crate::engine) fn fetch(&mut self, group: u8) {
        let (me, from) = (self.cores.me, self.cores.owner(group));
        if from == me {
            return;
        }
        self.cores.set_owner(group, me);
        self.cores.arrivals.push(Arrival {
            group,
            from,
            held: Vec::new(),
        });
        for other in self.cores.others() {
            let letter = if other == from {
                Letter::Flushed { group, to: me }
            } else {
                Letter::Mark { group, to: me }
            };
            self.cores.send(other, letter);
        }
    }

    /// A group goes to `to`: what comes for it from now on goes there.
    pub(super) fn mark(&mut self, group: u8, to: u8) {
        let from = self.cores.owner(group);
        self.cores.set_owner(group, to);
        self.cores.send(from, Letter::Flushed { group, to });
    }

    pub(super) fn flushed(&mut self, now: Time, group: u8, to: u8) {
        if self.cores.count_flushed(group) {
            self.give(now, group, to);
        }
    }

    /// Takes the group out and sends it.
    fn give(&mut self, now: Time, group: u8, to: u8) {
        // What is known of them is told here, before they leave.
        self.tell(now);
        let flows = self.stack.take_group(group);
        self.cores.set_owner(group, to);
        self.stack.set_owned_groups(self.cores.present_groups());
        let mut owners = HashMap::new();
        for connection in flows.handles() {
            let Some(owner) = self.owners.remove(connection) else {
                continue;
            };
            self.cores.guests.remove(&owner.handle);
            let Some(domain) = self.domain(owner.domain) else {
                continue;
            };
            domain.connections -= 1;
            domain.ranges -= owner.ranges;
            let client = domain.client;
            owners.insert(connection, (owner, domain.seat.generation));
            self.pools.connections.give(client);
        }
        let mut told = Vec::new();
        for domain in self.domains.iter_mut().flatten() {
            if !domain.is_leaving() {
                domain.tell(Condition::Left { group });
                told.push((domain.seat.place, domain.seat.generation));
            }
        }
        let bundle = Bundle {
            group,
            flows,
            owners,
            told,
        };
        self.cores.send(to, Letter::Group(Box::new(bundle)));
    }

    /// The group is here.
    pub(super) fn arrive(&mut self, now: Time, from: u8, bundle: Bundle) {
        // An application that attached before the group left must be known.
        self.take_orders();
        let Bundle {
            group,
            flows,
            mut owners,
            told,
        } = bundle;
        for (place, generation) in told {
            if let Some(domain) = self.domain_of(place, generation) {
                domain.tell(Condition::Arrived { group, from });
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
        let place = self.cores.arrivals.iter().position(|a| a.group == group);
        let arrival = place.map(|place| self.cores.arrivals.swap_remove(place));
        self.stack.set_owned_groups(self.cores.present_groups());
        self.cores.hub.settle(group, self.cores.me);
        for letter in arrival.into_iter().flat_map(|a| a.held) {
            self.letter(now, from, letter);
        }
    }

    fn adopt(&mut self, now: Time, connection: ConnectionId, owner: Owner, generation: u8) {
        let Some(domain) = self.domain_of(owner.domain, generation) else {
            // Its application has ended meanwhile. One that knocked is rejected.
            if self.stack.reject(now, connection).is_err() {
                let _ = self.stack.abort(now, connection);
            }
            return;
        };
        domain.connections += 1;
        domain.ranges += owner.ranges;
        let client = domain.client;
        self.pools.connections.force(client);
        let own_name = handle::of(self.cores.me, handle::group(owner.handle), connection);
        if own_name != owner.handle {
            self.cores.guests.insert(owner.handle, connection);
        }
        self.owners.put(connection, owner);
    }

    /// There is no room for the group: its connections end.
    fn give_up(&mut self, flows: FlowGroup, owners: HashMap<ConnectionId, (Owner, u8)>) {
        let (connections, buffers) = flows.give_up();
        self.tally.connections_lost += connections.len() as u64;
        for buffer in buffers {
            self.memory.give(buffer_place(buffer).0);
        }
        for (owner, generation) in owners.into_values() {
            if let Some(domain) = self.domain_of(owner.domain, generation) {
                domain.tell(Condition::Dead {
                    cookie: owner.cookie,
                    handle: owner.handle,
                    reason: Ending::NoRoom,
                });
            }
        }
    }

    /// An application that has not left and was not replaced.
    fn domain_of(&mut self, place: u8, generation: u8) -> Option<&mut Domain> {
        self.domain(place)
            .filter(|d| d.seat.generation == generation && !d.is_leaving())
    }
}
