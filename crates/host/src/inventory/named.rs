//! Cgroups named by their path: by a rule of the agent or a selector of a command.
//!
//! Such a cgroup is a container though no runtime made it and its processes are in the host's
//! network namespace. It then has a row of its own in the ledger, so that what it pays for its
//! neighbours is seen. Of nested cgroups that are named the highest counts, and a part of a known
//! container never does.

use super::Inventory;
use crate::classify::Class;
use cofferdam_types::{CgroupId, ContainerChange, Selector};

impl Inventory {
    /// Sets the complete list of selectors that name cgroups. Those of other kinds name none, and
    /// neither does a pattern with `**`, which means all containers below a path. Returns what
    /// changed. Call it from time to time: a process that is created in a cgroup causes no event.
    /// Cost: a check of each cgroup's path, and of the processes of those that are named but
    /// unknown.
    pub fn name(&mut self, selectors: &[Selector]) -> Vec<ContainerChange> {
        let named = selectors.iter().filter(|s| s.names_cgroups());
        self.named = named.cloned().collect();
        let no_longer: Vec<CgroupId> = self
            .containers
            .values()
            .filter(|c| c.host_network && self.is_plain(c) && !self.is_named(c.cgroup))
            .map(|c| c.cgroup)
            .collect();
        for cgroup in no_longer {
            self.dissolve(cgroup);
        }
        if !self.named.is_empty() {
            for cgroup in self.tree.top_down() {
                if self.is_named(cgroup) && self.owner(cgroup).is_none() {
                    self.look_into(cgroup);
                }
            }
        }
        self.finish()
    }

    /// Makes a named cgroup a container if it has a process.
    fn look_into(&mut self, cgroup: CgroupId) {
        for below in self.tree.subtree(cgroup, |_| true) {
            if self.owner(below).is_some() {
                continue;
            }
            let processes = self.processes(below).into_iter();
            let first = processes
                .filter_map(|pid| Some((self.fs.netns_of(pid)?, pid)))
                .next();
            if let Some((netns, pid)) = first {
                return self.promote(cgroup, netns, pid);
            }
        }
    }

    /// The highest cgroup that is named, of `cgroup` and those above it.
    pub(super) fn named_above(&self, cgroup: CgroupId) -> Option<CgroupId> {
        let all = self.tree.upwards(cgroup);
        all.filter(|id| self.is_named(*id)).last()
    }

    fn is_named(&self, cgroup: CgroupId) -> bool {
        let node = self.tree.get(cgroup);
        node.is_some_and(|node| {
            node.parent.is_some()
                && node.class == Class::Other
                && self.named.iter().any(|s| s.names(&node.path))
        })
    }
}
