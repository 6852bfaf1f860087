//! Stop: drops the packets of containers in debt where they enter the host, and what those
//! containers send where it enters the host stage.
//!
//! The programs are loaded only while a container needs them, once for each network namespace
//! that forwards to such containers, and attached to the devices by which packets enter it.
//! They are attached by links: the kernel detaches them when our process ends.

mod gate;
mod refusal;

pub(in crate::network) use gate::HostEnds;
pub(in crate::network) use refusal::LimitError;

use crate::network::place::Located;
use crate::network::policy::{Limiting, PacketLimit};
use cofferdam_types::{CgroupId, Container, NetnsId};
use gate::{First, Gate, Member};
use refusal::Refusal;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// All gates, by namespace.
#[derive(Default)]
pub(in crate::network) struct Ingress {
    gates: BTreeMap<NetnsId, Gate>,
    refused: BTreeMap<NetnsId, Refusal>,
}

/// The namespace in which the host's ends of a container's interfaces are, or the devices that they
/// lie upon.
fn forwarding_namespace(container: &Container) -> Option<NetnsId> {
    let pairs = &container.interfaces;
    let ends = pairs.iter().find_map(|pair| pair.host_netns);
    ends.or_else(|| pairs.iter().find_map(|pair| pair.lower_netns))
}

/// Where a container's packets are stopped: where its host's ends are, or, with `own`, in its
/// own namespace. One in the host's namespace has no other.
pub(in crate::network) fn gate_of(container: &Container, own: bool) -> Option<NetnsId> {
    if own || container.host_network {
        container.netns
    } else {
        forwarding_namespace(container)
    }
}

impl Ingress {
    /// Limits a container to what it may spend, in the namespace `netns`. Returns why what it sends
    /// is not limited although it should be: a kernel before 6.6 has no tcx. What it receives is
    /// limited all the same.
    pub fn limit(
        &mut self,
        located: &Located,
        netns: NetnsId,
        limit: &PacketLimit,
        skip: &HostEnds,
    ) -> Result<Option<Arc<LimitError>>, Arc<LimitError>> {
        if let Some(refusal) = self.refused.get(&netns)
            && !refusal.is_over()
        {
            return Err(refusal.why.clone());
        }
        self.try_limit(located, netns, limit, skip)
            .map_err(Arc::new)
            .inspect_err(|why| {
                self.refused.insert(netns, Refusal::new(why.clone()));
            })
    }

    /// Loads the programs for the namespace that forwards to a container: they take the kernel
    /// a while, and nothing looks at a packet until they are attached.
    pub fn prepare(&mut self, container: &Container) {
        if let Some(netns) = gate_of(container, false) {
            // A failure is reported when they are needed.
            let _ = self.gate(netns, First::Dropping);
        }
    }

    fn gate(&mut self, netns: NetnsId, first: First) -> Result<&mut Gate, LimitError> {
        use std::collections::btree_map::Entry;
        match self.gates.entry(netns) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(new) => Ok(new.insert(Gate::load(first)?)),
        }
    }

    /// Unloads the programs of namespaces that no wanted container is behind any more.
    pub fn keep(&mut self, wanted: &BTreeSet<NetnsId>) {
        self.gates
            .retain(|netns, gate| wanted.contains(netns) || !gate.is_empty());
    }

    fn try_limit(
        &mut self,
        Located { container, place }: &Located,
        netns: NetnsId,
        limit: &PacketLimit,
        skip: &HostEnds,
    ) -> Result<Option<Arc<LimitError>>, LimitError> {
        // Where the host's packets enter those that are dropped would cost everybody; in a
        // container's own namespace they are the container's.
        let own = container.netns == Some(netns);
        let first = if own && limit.large {
            First::Passing
        } else {
            First::Dropping
        };
        let gate = self.gate(netns, first)?;
        let new = gate.admit(container)?;
        if container.host_network {
            let directory = place.directories.first().ok_or(LimitError::NoProcess)?;
            gate.keep_sockets(container, &directory.full())?;
            gate.spend(container.cgroup, limit.spending)?;
            return Ok(None);
        }
        if limit.received {
            gate.keep_attached(container, netns, new, skip)?;
        }
        let sent_refused = limit
            .sent
            .then(|| gate.limit_sent(container, netns))
            .flatten();
        gate.spend(container.cgroup, limit.spending)?;
        Ok(sent_refused)
    }

    /// Ends a container's limit; the last one takes the programs away.
    pub fn release(&mut self, cgroup: CgroupId) {
        for gate in self.gates.values_mut() {
            gate.dismiss(cgroup);
        }
    }

    /// The limit on a container's packets, and what it did since this was asked last.
    pub fn limiting(&mut self, cgroup: CgroupId) -> Limiting {
        let mut limiting = Limiting {
            received: self.limits(cgroup),
            sent: self.limits_sent(cgroup),
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

    /// Whether what a container receives is limited now.
    pub fn limits(&self, cgroup: CgroupId) -> bool {
        self.members(cgroup).any(Member::limits)
    }

    /// Whether what it sends is limited now.
    pub fn limits_sent(&self, cgroup: CgroupId) -> bool {
        self.members(cgroup).any(Member::limits_sent)
    }

    /// Programs that are attached now.
    pub fn attached(&self) -> u64 {
        self.gates.values().map(Gate::attached).sum()
    }

    fn members(&self, cgroup: CgroupId) -> impl Iterator<Item = &Member> {
        self.gates.values().filter_map(move |g| g.member(cgroup))
    }
}
