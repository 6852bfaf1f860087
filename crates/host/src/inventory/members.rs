//! Network namespaces of the processes of a cgroup, as the kernel reports them now.

use super::Inventory;
use crate::procfs;
use cofferdam_types::{CgroupId, NetnsId};
use std::collections::{BTreeMap, BTreeSet};

/// Most processes examined in one cgroup.
const MAX_PROCESSES: usize = 1024;

/// Network namespaces of the processes directly in a cgroup, as last read, with a process of each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Members(BTreeMap<NetnsId, u32>);

impl Members {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the process that was found in `netns`.
    pub fn process(&self, netns: NetnsId) -> Option<u32> {
        self.0.get(&netns).copied()
    }

    /// Iterates over the namespaces.
    pub fn spaces(&self) -> impl Iterator<Item = NetnsId> {
        self.0.keys().copied()
    }

    /// Returns the namespaces without `host`.
    pub fn own(&self, host: NetnsId) -> BTreeSet<NetnsId> {
        self.spaces().filter(|netns| *netns != host).collect()
    }

    fn has_spaces_of(&self, other: &Members) -> bool {
        self.0.keys().eq(other.0.keys())
    }
}

impl Inventory {
    /// Notes that a process of `cgroup`, which is in the tree, was seen in `netns`. If that is not
    /// new, it costs at most two look-ups.
    pub(super) fn observe(&mut self, cgroup: CgroupId, netns: NetnsId) {
        let Some(node) = self.tree.get(cgroup).filter(|n| n.parent.is_some()) else {
            return;
        };
        let process = node.members.process(netns);
        let is_known = process
            .is_some_and(|pid| netns == self.host_netns || self.fs.netns_of(pid) == Some(netns));
        if !is_known || self.needs_order(cgroup) || self.has_lost_its_process(cgroup) {
            self.refresh(cgroup);
        }
    }

    /// Reads the processes of `cgroup` and updates its container. Returns the work: one, and one
    /// for each process.
    pub(super) fn refresh(&mut self, cgroup: CgroupId) -> usize {
        let (mut is_new, mut work) = self.update_members(cgroup);
        if self.has_lost_its_process(cgroup)
            && let Some(owner) = self.owner(cgroup)
        {
            is_new = true;
            for below in self.with_descendants(owner) {
                work += self.update_members(below).1;
            }
        }
        if is_new || self.needs_order(cgroup) {
            self.assess(cgroup);
        }
        work
    }

    /// Reads the processes of `cgroup`. Returns whether their namespaces have changed, and the
    /// work.
    fn update_members(&mut self, cgroup: CgroupId) -> (bool, usize) {
        let (members, processes) = self.read_members(cgroup);
        let Some(node) = self.tree.get_mut(cgroup) else {
            return (false, 1);
        };
        let is_new = !node.members.has_spaces_of(&members);
        node.members = members;
        (is_new, 1 + processes)
    }

    fn read_members(&self, cgroup: CgroupId) -> (Members, usize) {
        let processes = self.processes(cgroup);
        let mut members = BTreeMap::new();
        for pid in &processes {
            if let Some(netns) = self.fs.netns_of(*pid) {
                members.entry(netns).or_insert(*pid);
            }
        }
        (Members(members), processes.len())
    }

    /// Whether the age of processes decides about the container of `cgroup`, because it has several
    /// namespaces.
    fn needs_order(&self, cgroup: CgroupId) -> bool {
        let owner = self.owner(cgroup);
        owner.is_some_and(|owner| self.claims.has_several(owner))
    }

    /// Whether the main process of the container of `cgroup` has ended or moved.
    fn has_lost_its_process(&self, cgroup: CgroupId) -> bool {
        let container = self.container_of(cgroup);
        container.is_some_and(|c| match c.pid {
            Some(pid) => self.fs.netns_of(pid) != c.netns,
            None => false,
        })
    }

    /// Returns the processes directly in this cgroup.
    pub(super) fn processes(&self, cgroup: CgroupId) -> Vec<u32> {
        let Some(node) = self.tree.get(cgroup) else {
            return Vec::new();
        };
        let file = self.layout.v2_directory(&node.path).join("cgroup.procs");
        let text = self.fs.read_text(file).unwrap_or_default();
        procfs::procs(&text).take(MAX_PROCESSES).collect()
    }

    /// Finds a process directly in this cgroup that is in `netns`.
    pub(super) fn process_in(&self, cgroup: CgroupId, netns: NetnsId) -> Option<u32> {
        let all = self.processes(cgroup).into_iter();
        all.filter(|pid| self.fs.netns_of(*pid) == Some(netns))
            .min_by_key(|pid| self.fs.start_of(*pid).unwrap_or(u64::MAX))
    }

    /// Finds the oldest process of `cgroups`, the container's init, with its namespace: one of
    /// `spaces`. Processes in the host's network namespace come last, because supervisors and
    /// runtimes start and enter containers from there; unless a PID namespace shows that they
    /// belong inside.
    pub(super) fn first_process(
        &self,
        cgroups: &[CgroupId],
        spaces: &BTreeSet<NetnsId>,
    ) -> Option<(NetnsId, u32)> {
        let host = self.fs.pid_namespace_of(1);
        let all = cgroups.iter().flat_map(|cgroup| self.processes(*cgroup));
        let ranked = all.filter_map(|pid| {
            let netns = self.fs.netns_of(pid).filter(|n| spaces.contains(n))?;
            let pid_namespace = self.fs.pid_namespace_of(pid);
            let is_inside = host.is_some() && pid_namespace.is_some() && pid_namespace != host;
            let is_of_host = netns == self.host_netns && !is_inside;
            let rank = (is_of_host, self.fs.start_of(pid)?, pid);
            Some((rank, (netns, pid)))
        });
        ranked.min().map(|(_, first)| first)
    }
}
