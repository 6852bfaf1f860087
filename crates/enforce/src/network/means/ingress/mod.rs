//! Packet limits: drop packets to a container in debt at the devices through which they enter the
//! host, and packets from it at the host's ends of its interfaces.
//!
//! The programs are loaded only while a container needs them, once for each network namespace that
//! forwards to such containers. They are attached to the devices through which packets enter it.
//! The kernel detaches them when our process ends, because links hold them.

mod gate;
mod refusal;

pub(in crate::network) use gate::HostEnds;
pub(in crate::network) use refusal::LimitError;

use crate::network::place::PlacedContainer;
use crate::network::policy::{Limiting, PacketLimit};
use cofferdam_types::{CgroupId, Container, NetnsId};
use gate::{Gate, Member, Priority};
use refusal::Refusal;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Packet limits: one set of loaded programs (gate) per network namespace.
#[derive(Default)]
pub(in crate::network) struct Ingress {
    gates: BTreeMap<NetnsId, Gate>,
    refused: BTreeMap<NetnsId, Refusal>,
}

/// Namespace that contains the host's ends of a container's interfaces, or the devices below them.
fn forwarding_namespace(container: &Container) -> Option<NetnsId> {
    let pairs = &container.interfaces;
    let ends = pairs.iter().find_map(|pair| pair.host_netns);
    ends.or_else(|| pairs.iter().find_map(|pair| pair.lower_netns))
}

/// Namespace in which a container's packets are dropped: the one of its host ends or, with
/// `in_own`, its own. A container in the host's namespace has no other.
pub(in crate::network) fn limiting_namespace(
    container: &Container,
    in_own: bool,
) -> Option<NetnsId> {
    if in_own || container.host_network {
        container.netns
    } else {
        forwarding_namespace(container)
    }
}

impl Ingress {
    /// Limits a container in the namespace `netns`. Returns the reason if its sent packets cannot
    /// be limited: a kernel before 6.6 has no tcx. Received packets are limited all the same.
    pub fn limit(
        &mut self,
        placed: &PlacedContainer,
        netns: NetnsId,
        limit: &PacketLimit,
        excluded_ends: &HostEnds,
    ) -> Result<Option<Arc<LimitError>>, Arc<LimitError>> {
        if let Some(refusal) = self.refused.get(&netns)
            && !refusal.is_over()
        {
            return Err(refusal.why.clone());
        }
        self.try_limit(placed, netns, limit, excluded_ends)
            .map_err(Arc::new)
            .inspect_err(|why| {
                self.refused.insert(netns, Refusal::new(why.clone()));
            })
    }

    /// Loads the programs for the namespace that forwards to a container, because loading takes the
    /// kernel a while. They see no packet until they are attached.
    pub fn prepare(&mut self, container: &Container) {
        if let Some(netns) = limiting_namespace(container, false) {
            // A failure is reported when the programs are needed.
            let _ = self.gate(netns, Priority::Dropping);
        }
    }

    fn gate(&mut self, netns: NetnsId, priority: Priority) -> Result<&mut Gate, LimitError> {
        use std::collections::btree_map::Entry;
        match self.gates.entry(netns) {
            Entry::Occupied(gate) => Ok(gate.into_mut()),
            Entry::Vacant(new) => Ok(new.insert(Gate::load(priority)?)),
        }
    }

    /// Unloads the programs of namespaces that forward to no wanted container.
    pub fn retain(&mut self, wanted: &BTreeSet<NetnsId>) {
        self.gates
            .retain(|netns, gate| wanted.contains(netns) || !gate.is_empty());
    }

    fn try_limit(
        &mut self,
        PlacedContainer { container, place }: &PlacedContainer,
        netns: NetnsId,
        limit: &PacketLimit,
        excluded_ends: &HostEnds,
    ) -> Result<Option<Arc<LimitError>>, LimitError> {
        // A packet dropped where it enters the host costs all containers. In a container's own
        // namespace only that container pays for it.
        let own = container.netns == Some(netns);
        let priority = if own && limit.large {
            Priority::Passing
        } else {
            Priority::Dropping
        };
        let gate = self.gate(netns, priority)?;
        let new = gate.admit(container)?;
        if container.host_network {
            let directory = place.directories.first().ok_or(LimitError::NoProcess)?;
            gate.attach_sockets(container, &directory.full())?;
            gate.set_budget(container.cgroup, limit.spending)?;
            return Ok(None);
        }
        if limit.received {
            gate.update_attachments(container, netns, new, excluded_ends)?;
        }
        let sent_refused = limit
            .sent
            .then(|| gate.limit_sent(container, netns))
            .flatten();
        gate.set_budget(container.cgroup, limit.spending)?;
        Ok(sent_refused)
    }

    /// Ends a container's limit. Detaches the programs with the last one.
    pub fn release(&mut self, cgroup: CgroupId) {
        for gate in self.gates.values_mut() {
            gate.dismiss(cgroup);
        }
    }

    /// The limit on a container's packets, and its effect since the last call.
    pub fn take_limiting(&mut self, cgroup: CgroupId) -> Limiting {
        let mut limiting = Limiting {
            received: self.is_received_limited(cgroup),
            sent: self.is_sent_limited(cgroup),
            ..Limiting::default()
        };
        for gate in self.gates.values_mut() {
            let since = gate.counts_since(cgroup);
            limiting.counts.rx_passed += since.rx_passed;
            limiting.counts.rx_dropped += since.rx_dropped;
            limiting.counts.tx_passed += since.tx_passed;
            limiting.counts.tx_dropped += since.tx_dropped;
        }
        limiting
    }

    /// Whether received packets of the container are limited.
    pub fn is_received_limited(&self, cgroup: CgroupId) -> bool {
        self.members(cgroup).any(Member::is_received_limited)
    }

    /// Whether sent packets of the container are limited.
    pub fn is_sent_limited(&self, cgroup: CgroupId) -> bool {
        self.members(cgroup).any(Member::is_sent_limited)
    }

    /// Number of attached programs.
    pub fn attached(&self) -> u64 {
        self.gates.values().map(Gate::attached).sum()
    }

    fn members(&self, cgroup: CgroupId) -> impl Iterator<Item = &Member> {
        self.gates.values().filter_map(move |g| g.member(cgroup))
    }
}
