//! Cgroups of the host: services, sessions, batch jobs, the root with its kernel threads.
//!
//! They are no containers: no rule matches them, and Cofferdam never changes one. But they pay for
//! the packets of containers, and get packets of their own. Each is discovered by the first event
//! for it ([`KernelEvent::UnknownCgroup`]), so cgroups without packets cost nothing. At most
//! [`MOST_HOST_CGROUPS`] are tracked at a time.
//!
//! [`KernelEvent::UnknownCgroup`]: cofferdam_types::KernelEvent::UnknownCgroup

use super::{Inventory, unnamed};
use crate::HostError;
use crate::usage;
use cofferdam_types::{CgroupId, Container, ContainerChange, Runtime, path_text, printable};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Most cgroups of the host that are tracked at the same time.
pub const MOST_HOST_CGROUPS: usize = 256;

/// Tracked cgroups of the host, and changes since the last answer.
#[derive(Default)]
pub(super) struct Hosts {
    pub cgroups: BTreeMap<CgroupId, Arc<Container>>,
    removed: Vec<Arc<Container>>,
    added: Vec<Arc<Container>>,
}

impl Hosts {
    /// Moves the changes to the answer.
    pub fn take_changes(
        &mut self,
        removed: &mut Vec<ContainerChange>,
        rest: &mut Vec<ContainerChange>,
    ) {
        removed.extend(self.removed.drain(..).map(ContainerChange::Removed));
        rest.extend(self.added.drain(..).map(ContainerChange::Added));
    }
}

impl Inventory {
    /// Whether there is room for another cgroup of the host.
    pub fn has_room_for_hosts(&self) -> bool {
        self.hosts.cgroups.len() < MOST_HOST_CGROUPS
    }

    /// Handles a cgroup without a row that paid for packets or got some.
    pub(super) fn note_host(&mut self, cgroup: CgroupId, pid: Option<u32>) {
        if self.hosts.cgroups.contains_key(&cgroup) || !self.has_room_for_hosts() {
            return;
        }
        if let Some(pid) = pid
            && !self.ensure_in_tree(cgroup, pid)
        {
            return;
        }
        let Some(path) = self.tree.get(cgroup).map(|node| node.path.clone()) else {
            return;
        };
        // A process that is created in a cgroup causes no event: this one may be a container by
        // now.
        match pid.and_then(|pid| self.fs.netns_of(pid)) {
            Some(netns) => self.observe(cgroup, netns),
            None if self.named_above(cgroup).is_some() => drop(self.refresh(cgroup)),
            None => {}
        }
        if self.owner(cgroup).is_some() {
            return;
        }
        let container = Arc::new(Container {
            name: printable(&path_text(&path)),
            runtime: Runtime::Host,
            netns: Some(self.host_netns),
            host_network: true,
            pid,
            ..unnamed(cgroup, &path)
        });
        self.hosts.cgroups.insert(cgroup, container.clone());
        self.hosts.added.push(container);
    }

    /// Forgets a cgroup that was removed, or that makes room for others; the next answer reports
    /// it.
    pub(super) fn forget_host(&mut self, cgroup: CgroupId) {
        if let Some(container) = self.hosts.cgroups.remove(&cgroup) {
            self.usage.forget(cgroup);
            // A cgroup that came and went between two answers is not reported.
            let before = self.hosts.added.len();
            self.hosts.added.retain(|new| new.cgroup != cgroup);
            if self.hosts.added.len() == before {
                self.hosts.removed.push(container);
            }
        }
    }

    /// Forgets cgroups of the host, to make room for others. Returns the changes.
    pub fn forget_hosts(&mut self, cgroups: &[CgroupId]) -> Vec<ContainerChange> {
        for cgroup in cgroups {
            self.forget_host(*cgroup);
        }
        self.finish()
    }

    /// Returns the cgroups that are in no container and are not tracked yet.
    pub fn outside_containers(&self) -> Vec<CgroupId> {
        let unknown =
            |id: &CgroupId| self.owner(*id).is_none() && !self.hosts.cgroups.contains_key(id);
        self.tree.top_down().into_iter().filter(unknown).collect()
    }

    /// Forgets cgroups of the host that have become a container, or part of one.
    pub(super) fn leave_hosts_to_containers(&mut self) {
        let taken: Vec<CgroupId> = self
            .hosts
            .cgroups
            .keys()
            .copied()
            .filter(|id| self.owner(*id).is_some())
            .collect();
        for cgroup in taken {
            self.forget_host(cgroup);
        }
    }

    /// Returns the CPU time of the tasks directly in the cgroup, nanoseconds, without cgroups below
    /// it.
    pub(super) fn own_usage_ns(&mut self, container: &Container) -> Result<u64, HostError> {
        let all = self.usage.read_ns(&self.fs, &self.layout, container)?;
        let children = self.tree.children(container.cgroup);
        let below = children.iter().filter_map(|child| {
            let path = &self.tree.get(*child)?.path;
            usage::once_ns(&self.fs, &self.layout, path)
        });
        Ok(all.saturating_sub(below.sum::<u64>()))
    }
}
