//! Which namespace belongs to which cgroup.
//!
//! - A cgroup with the form of a runtime's is a container whatever its processes do; it takes
//!   the first namespace of its own that they show. Runtimes start a container in the host's
//!   namespace, and `exec` enters it from there, so the host's counts only while no other is
//!   known.
//! - Any other cgroup is a container when all its processes have left the host's namespace: a
//!   *strong* claim.
//! - When some have and some have not (a login session that ran `ip netns exec`), the claim is
//!   *weak*: it counts once packets arrive in the namespace and nobody has a better claim.
//! - A cgroup that is named (by a rule, a selector) is a container in whatever namespace its
//!   processes are, the host's too: see `named`.
//! - A process that enters a namespace which a runtime's container holds (`nsenter`) claims
//!   nothing.

use super::{Inventory, unnamed};
use crate::classify::Class;
use crate::procfs;
use cofferdam_types::{CgroupId, Container, NetnsId, Runtime};
use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

/// Maximum number of processes examined in one cgroup.
const MAX_PROCESSES: usize = 1024;
/// Namespaces that nobody was found for are looked for again after this time, all in one pass,
const SEARCH_AGAIN: Duration = Duration::from_secs(1);
/// and given up after so many passes, until packets are reported again.
const MAX_SEARCHES: u32 = 10;
/// Namespaces remembered as not found, at most.
const MAX_MISSED: usize = 4096;

/// Claims that are not, or not surely, containers.
#[derive(Default)]
pub(super) struct Claims {
    /// Cgroup that has a process in the namespace, and others in the host's.
    weak: HashMap<NetnsId, CgroupId>,
    /// Containers by a weak claim only.
    weak_holders: HashSet<CgroupId>,
    /// Namespaces with packets that no cgroup was found for, and how often they were looked
    /// for. A device sends its first packets before the process that it is for has come.
    missed: HashMap<NetnsId, u32>,
    /// When to look again.
    pub next_search: Option<Instant>,
}

impl Claims {
    pub fn forget(&mut self, cgroup: CgroupId) {
        self.weak.retain(|_, claimant| *claimant != cgroup);
        self.weak_holders.remove(&cgroup);
    }
}

impl Inventory {
    /// A process of `cgroup`, which is in the tree, was seen in `netns`.
    pub(super) fn observe(&mut self, cgroup: CgroupId, netns: NetnsId, pid: u32) {
        self.tree.note_netns(cgroup, netns);
        let Some(owner) = self.owner(cgroup) else {
            return self.consider(cgroup, netns, pid);
        };
        let by_path = self.is_runtime_made(owner);
        let held = self.containers.get(&owner).and_then(|c| c.netns);
        // What is below a plain container belongs to it, unless it shows yet another
        // namespace: then the two are neighbours that happen to be nested.
        if !by_path && owner != cgroup && Some(netns) != held && netns != self.host_netns {
            self.consider(cgroup, netns, pid);
        } else {
            self.settle(owner, netns, pid);
        }
    }

    /// Whether the path alone makes it a container.
    fn is_runtime_made(&self, cgroup: CgroupId) -> bool {
        self.tree
            .get(cgroup)
            .is_some_and(|n| matches!(n.class, Class::Container(_)))
    }

    /// A process of the container `owner` was seen in `netns`.
    fn settle(&mut self, owner: CgroupId, netns: NetnsId, pid: u32) {
        let Some(container) = self.containers.get(&owner).cloned() else {
            return;
        };
        let is_host = netns == self.host_netns;
        match container.netns {
            Some(held) if held == netns => {
                if container.pid.and_then(|p| self.fs.netns_of(p)) != Some(netns) {
                    self.change(owner, |c| c.pid = Some(pid));
                }
                self.namespaces.visit_if_unseen(netns);
            }
            Some(held) if is_host || (held != self.host_netns && self.uses(&container, held)) => {}
            previous => {
                if let Some(previous) = previous {
                    self.namespaces.release(previous, owner);
                }
                self.change(owner, |c| {
                    c.netns = Some(netns);
                    c.host_network = is_host;
                    c.pid = Some(pid);
                    c.interfaces.clear();
                });
                if !is_host {
                    self.hold(netns, owner);
                }
            }
        }
    }

    /// Records that `owner` holds `netns`; an owner by a weak claim lets go.
    fn hold(&mut self, netns: NetnsId, owner: CgroupId) {
        self.claims.missed.remove(&netns);
        if !self.claims.weak_holders.contains(&owner) {
            self.claims.weak.remove(&netns);
            for weaker in self.namespaces.holders(netns) {
                if self.claims.weak_holders.remove(&weaker) {
                    self.dissolve(weaker);
                }
            }
        }
        self.namespaces.hold(netns, owner);
    }

    /// A container by its namespace only is one no more; its cgroup stays.
    pub(super) fn dissolve(&mut self, cgroup: CgroupId) {
        self.stop(cgroup);
        self.refresh_descendants(Some(cgroup));
    }

    /// A process was seen in a cgroup that is not a container by its path.
    fn consider(&mut self, cgroup: CgroupId, netns: NetnsId, pid: u32) {
        let Some(node) = self.tree.get(cgroup) else {
            return;
        };
        let excluded = node.parent.is_none() || node.class == Class::Helper;
        if let Some(named) = self.named_above(cgroup) {
            return self.promote(named, netns, pid);
        }
        if excluded || netns == self.host_netns || self.claims.weak.get(&netns) == Some(&cgroup) {
            return;
        }
        if self
            .namespaces
            .holders(netns)
            .into_iter()
            .any(|c| self.is_runtime_made(c))
        {
            return;
        }
        let host = self.host_netns;
        if self
            .processes(cgroup)
            .into_iter()
            .all(|p| self.fs.netns_of(p) != Some(host))
        {
            self.promote(cgroup, netns, pid);
        } else if self.claims.missed.remove(&netns).is_some() {
            self.promote_weakly(cgroup, netns, pid);
        } else {
            self.claims.weak.insert(netns, cgroup);
        }
    }

    fn promote_weakly(&mut self, cgroup: CgroupId, netns: NetnsId, pid: u32) {
        self.claims.weak.remove(&netns);
        self.claims.weak_holders.insert(cgroup);
        self.promote(cgroup, netns, pid);
    }

    /// Makes a plain cgroup a container.
    pub(super) fn promote(&mut self, cgroup: CgroupId, netns: NetnsId, pid: u32) {
        let Some(path) = self.tree.get(cgroup).map(|n| n.path.clone()) else {
            return;
        };
        // The highest cgroup of a namespace stands for all below it.
        for below in self.tree.subtree(cgroup, |_| true).into_iter().skip(1) {
            let same = self
                .containers
                .get(&below)
                .is_some_and(|c| c.netns == Some(netns));
            if same && !self.is_runtime_made(below) {
                self.claims.weak_holders.remove(&below);
                self.dissolve(below);
            }
        }
        if !self.containers.contains_key(&cgroup) {
            self.start(unnamed(cgroup, &path));
        }
        self.settle(cgroup, netns, pid);
    }

    /// Packets arrived in `netns`, and no container is known for it.
    pub(super) fn search(&mut self, netns: NetnsId) {
        if netns == self.host_netns || !self.namespaces.holders(netns).is_empty() {
            return;
        }
        if let Some(cgroup) = self.claims.weak.get(&netns).copied() {
            if let Some(pid) = self.process_in(cgroup, netns) {
                return self.promote_weakly(cgroup, netns, pid);
            }
            self.claims.weak.remove(&netns);
        }
        if self.claims.missed.len() >= MAX_MISSED {
            self.claims.missed.clear();
        }
        let known = self.claims.missed.insert(netns, 0).is_some();
        if known
            && self
                .claims
                .next_search
                .is_some_and(|next| Instant::now() < next)
        {
            return;
        }
        // First where no process has been seen at all, which is a handful of cgroups.
        for cgroup in self.without_netns() {
            if let Some(pid) = self.process_in(cgroup, netns) {
                return self.observe(cgroup, netns, pid);
            }
        }
        self.search_outside();
    }

    /// Searches again for the owners of namespaces with packets. Rare, and bounded: at most once a
    /// second, over the cgroups outside containers, and only while there are such namespaces.
    pub(super) fn search_again(&mut self) {
        let due = self
            .claims
            .next_search
            .is_some_and(|next| Instant::now() >= next);
        if due {
            self.search_outside();
        }
    }

    /// One pass over all cgroups outside containers, for all namespaces that are missed. A
    /// process that enters a namespace without executing a program causes no event.
    fn search_outside(&mut self) {
        self.claims.next_search = None;
        for cgroup in self.tree.top_down() {
            if self.tree.get(cgroup).is_none_or(|n| n.parent.is_none()) {
                continue;
            }
            if self.owner(cgroup).is_some() {
                continue;
            }
            let missed = self.processes(cgroup).into_iter().find_map(|pid| {
                let netns = self.fs.netns_of(pid)?;
                self.claims
                    .missed
                    .contains_key(&netns)
                    .then_some((netns, pid))
            });
            if let Some((netns, pid)) = missed {
                self.observe(cgroup, netns, pid);
            }
        }
        for searches in self.claims.missed.values_mut() {
            *searches += 1;
        }
        if self
            .claims
            .missed
            .values()
            .any(|searches| *searches < MAX_SEARCHES)
        {
            self.claims.next_search = Some(Instant::now() + SEARCH_AGAIN);
        }
    }

    /// Cgroups in which no process has been seen, and whose container, if they belong to one,
    /// has no namespace yet.
    fn without_netns(&self) -> Vec<CgroupId> {
        let open = |id: &CgroupId| {
            self.tree
                .get(*id)
                .is_some_and(|n| n.netns.is_none() && n.parent.is_some())
                && self.container_of(*id).is_none_or(|c| c.netns.is_none())
        };
        self.tree.top_down().into_iter().filter(open).collect()
    }

    /// Whether a process of the container is still in `netns`.
    fn uses(&mut self, container: &Container, netns: NetnsId) -> bool {
        if container.pid.and_then(|pid| self.fs.netns_of(pid)) == Some(netns) {
            return true;
        }
        let cgroup = container.cgroup;
        let found = self
            .tree
            .subtree(cgroup, |_| true)
            .into_iter()
            .find_map(|c| self.process_in(c, netns));
        if found.is_some() {
            self.change(cgroup, |c| c.pid = found);
        }
        found.is_some()
    }

    /// A process of this very cgroup that is in `netns`.
    pub(super) fn process_in(&self, cgroup: CgroupId, netns: NetnsId) -> Option<u32> {
        self.processes(cgroup)
            .into_iter()
            .find(|pid| self.fs.netns_of(*pid) == Some(netns))
    }

    /// Processes of this very cgroup.
    pub(super) fn processes(&self, cgroup: CgroupId) -> Vec<u32> {
        let Some(node) = self.tree.get(cgroup) else {
            return Vec::new();
        };
        let file = self.layout.v2_directory(&node.path).join("cgroup.procs");
        let text = self.fs.read_text(file).unwrap_or_default();
        procfs::procs(&text).take(MAX_PROCESSES).collect()
    }

    /// After a sweep: what all processes of `cgroup` showed, one process for each namespace.
    /// Weak claims are kept for [`Inventory::settle_weak`].
    pub(super) fn observe_all(&mut self, cgroup: CgroupId, seen: &HashMap<NetnsId, u32>) {
        let host = seen.get(&self.host_netns).copied();
        let mut own: Vec<_> = seen
            .iter()
            .filter(|(n, _)| **n != self.host_netns)
            .collect();
        own.sort_unstable();
        for (netns, pid) in own {
            self.observe(cgroup, *netns, *pid);
        }
        if let Some(pid) = host {
            self.observe(cgroup, self.host_netns, pid);
        }
    }

    /// After a sweep: namespaces without an owner go to those with a weak claim.
    pub(super) fn settle_weak(&mut self) {
        let weak: Vec<_> = self.claims.weak.iter().map(|(n, c)| (*n, *c)).collect();
        for (netns, cgroup) in weak {
            if !self.namespaces.holders(netns).is_empty() {
                continue;
            }
            if let Some(pid) = self.process_in(cgroup, netns) {
                self.promote_weakly(cgroup, netns, pid);
            }
        }
    }

    /// Whether a container exists by its namespace alone.
    pub(super) fn is_plain(&self, container: &Container) -> bool {
        container.runtime == Runtime::Plain && !self.is_runtime_made(container.cgroup)
    }
}
