//! Cgroups named by their path: by a rule of the agent or a selector of a command.
//!
//! Such a cgroup is a container although no runtime made it and its processes are in the host's
//! network namespace. It then has its own row in the ledger, which shows what it pays for its
//! neighbours. Of nested named cgroups the highest counts. A part of a known container never
//! counts.

use super::Inventory;
use crate::classify::Class;
use cofferdam_types::{CgroupId, ContainerChange, Selector};

impl Inventory {
    /// Sets the complete list of selectors that name cgroups. Selectors of other kinds name none,
    /// and neither does a pattern with `**`, which means all containers below a path. Returns the
    /// changes. Call it from time to time: a process that is created in a cgroup causes no event.
    /// Costs a check of each cgroup's path, and of the processes of named cgroups that are no
    /// containers yet.
    pub fn name(&mut self, selectors: &[Selector]) -> Vec<ContainerChange> {
        let named = selectors.iter().filter(|s| s.names_cgroups());
        self.named = named.cloned().collect();
        let all = self.tree.top_down();
        for cgroup in &all {
            if self.note_name(*cgroup) {
                self.assess(*cgroup);
            }
        }
        for cgroup in all {
            if self.is_named(cgroup) && self.owner(cgroup).is_none() {
                for below in self.with_descendants(cgroup) {
                    self.refresh(below);
                }
            }
        }
        self.finish()
    }

    /// Returns the highest named cgroup, of `cgroup` and those above it.
    pub(super) fn named_above(&self, cgroup: CgroupId) -> Option<CgroupId> {
        let all = self.tree.upwards(cgroup);
        all.filter(|id| self.is_named(*id)).last()
    }

    fn is_named(&self, cgroup: CgroupId) -> bool {
        let node = self.tree.get(cgroup);
        node.is_some_and(|n| n.is_named && n.parent.is_some() && n.class == Class::Other)
    }

    /// Notes whether a selector names the cgroup. Returns whether that is new.
    pub(super) fn note_name(&mut self, cgroup: CgroupId) -> bool {
        let Some(node) = self.tree.get_mut(cgroup) else {
            return false;
        };
        let is_named = self.named.iter().any(|s| s.names(&node.path));
        std::mem::replace(&mut node.is_named, is_named) != is_named
    }
}
