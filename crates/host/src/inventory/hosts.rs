//! Cgroups of the host: services, sessions, batch jobs, the root with its kernel threads.
//!
//! They are no containers: no rule matches them, and none of them is ever changed. But they pay for
//! the packets of containers like everybody who runs, and get packets of their own. Each is known
//! from the first event that tells of it on ([`KernelEvent::UnknownCgroup`]), so a thousand that do
//! neither cost nothing; and at most [`MOST_HOST_CGROUPS`] are known at a time.
//!
//! [`KernelEvent::UnknownCgroup`]: cofferdam_types::KernelEvent::UnknownCgroup

use super::{Inventory, unnamed};
use crate::HostError;
use crate::usage;
use cofferdam_types::{CgroupId, Container, ContainerChange, Runtime, path_text, printable};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Cgroups of the host that are known at the same time, at most.
pub const MOST_HOST_CGROUPS: usize = 256;

/// Those that are known, and what has changed since the last answer.
#[derive(Default)]
pub(super) struct Hosts {
    pub known: BTreeMap<CgroupId, Arc<Container>>,
    removed: Vec<Arc<Container>>,
    added: Vec<Arc<Container>>,
}

impl Hosts {
    /// Hands the changes over.
    pub fn settle(&mut self, removed: &mut Vec<ContainerChange>, rest: &mut Vec<ContainerChange>) {
        removed.extend(self.removed.drain(..).map(ContainerChange::Removed));
        rest.extend(self.added.drain(..).map(ContainerChange::Added));
    }
}

impl Inventory {
    /// Whether another cgroup of the host can be taken in.
    pub fn has_room_for_hosts(&self) -> bool {
        self.hosts.known.len() < MOST_HOST_CGROUPS
    }

    /// A cgroup that nobody is known for paid for packets, or got some.
    pub(super) fn note_host(&mut self, cgroup: CgroupId, pid: Option<u32>) {
        if self.hosts.known.contains_key(&cgroup) || !self.has_room_for_hosts() {
            return;
        }
        if let Some(pid) = pid
            && !self.know(cgroup, pid)
        {
            return;
        }
        let Some(path) = self.tree.get(cgroup).map(|node| node.path.clone()) else {
            return;
        };
        // Processes that are made in a cgroup cause no event: this one may be a container by now.
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
        self.hosts.known.insert(cgroup, container.clone());
        self.hosts.added.push(container);
    }

    /// One of them is gone, or makes room for others; returned by the next answer.
    pub(super) fn forget_host(&mut self, cgroup: CgroupId) {
        if let Some(container) = self.hosts.known.remove(&cgroup) {
            self.usage.forget(cgroup);
            // One that came and went between two answers was never there.
            let before = self.hosts.added.len();
            self.hosts.added.retain(|new| new.cgroup != cgroup);
            if self.hosts.added.len() == before {
                self.hosts.removed.push(container);
            }
        }
    }

    /// Forgets cgroups of the host, so that others find room. Returns what changed.
    pub fn forget_hosts(&mut self, cgroups: &[CgroupId]) -> Vec<ContainerChange> {
        for cgroup in cgroups {
            self.forget_host(*cgroup);
        }
        self.finish()
    }

    /// Cgroups that are in no container and are not known yet.
    pub fn outside_containers(&self) -> Vec<CgroupId> {
        let unknown =
            |id: &CgroupId| self.owner(*id).is_none() && !self.hosts.known.contains_key(id);
        self.tree.top_down().into_iter().filter(unknown).collect()
    }

    /// What has become a container, or part of one, is no longer the host's.
    pub(super) fn leave_hosts_to_containers(&mut self) {
        let taken: Vec<CgroupId> = self
            .hosts
            .known
            .keys()
            .copied()
            .filter(|id| self.owner(*id).is_some())
            .collect();
        for cgroup in taken {
            self.forget_host(cgroup);
        }
    }

    /// CPU time of the tasks directly in the cgroup, nanoseconds: without the cgroups below it.
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
