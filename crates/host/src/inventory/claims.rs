//! Network namespaces of containers, as a function of the host's present state.
//!
//! The present processes of a cgroup decide, never the order in which they were seen: an inventory
//! that followed every event agrees with one that was just made.
//!
//! - A cgroup with the form of a runtime's is a container whatever its processes do, with all
//!   cgroups below it. So is a cgroup that a rule or a selector names and that has a process: see
//!   `named`.
//! - Any other cgroup is a container if all its processes have left the host's namespace: a
//!   *strong* claim. Cgroups below it belong to it unless they have yet another namespace.
//! - If only some have left (a login session that ran `ip netns exec`), the claim is *weak*. It
//!   counts once packets arrive in the namespace, or after [`WEAK_AGE`], and only while no cgroup
//!   has a better claim. Of several weak claims, the oldest cgroup's counts.
//! - The namespace of a container's first process is its own ([`Inventory::first_process`]).
//!   Further ones of its processes (a sandboxed browser, a nested runtime) belong to it as well,
//!   unless they are another container's own.

use super::{Inventory, unnamed};
use crate::classify::Class;
use cofferdam_types::{CgroupId, Container, NetnsId};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::{Duration, Instant};

/// Age from which a weak claim counts without packets.
pub(super) const WEAK_AGE: Duration = Duration::from_secs(1);

/// Claims that are not, or not certainly, containers, and cgroups to examine again.
#[derive(Default)]
pub(super) struct Claims {
    /// Cgroups with a process in the namespace and others in the host's, with the time of the
    /// claim.
    weak: BTreeMap<NetnsId, BTreeMap<CgroupId, Instant>>,
    /// Namespaces whose weak claims count.
    confirmed: HashSet<NetnsId>,
    /// Containers by a weak claim only.
    weak_holders: HashSet<CgroupId>,
    /// Containers whose processes are in several namespaces: their age decides.
    several: HashSet<CgroupId>,
    /// Cgroups whose container depends on a recent change.
    pending: BTreeSet<CgroupId>,
    /// Namespaces with packets but without a cgroup, and the number of searches for one. A device
    /// may send its first packets before its process has come.
    pub missed: HashMap<NetnsId, u32>,
    /// Time of the next search.
    pub next_search: Option<Instant>,
    /// Time of the next review of processes, and the cgroup before it.
    pub next_review: Option<Instant>,
    /// Time of the next visit to a namespace whose devices raise no message.
    pub next_visit: Option<Instant>,
    pub reviewed: Option<CgroupId>,
}

impl Claims {
    pub fn forget(&mut self, cgroup: CgroupId) {
        self.claim_weakly(cgroup, &BTreeSet::new());
        self.weak_holders.remove(&cgroup);
        self.several.remove(&cgroup);
        self.pending.remove(&cgroup);
    }

    /// Whether processes of the container are in several namespaces.
    pub fn has_several(&self, container: CgroupId) -> bool {
        self.several.contains(&container)
    }

    fn is_weak(&self, container: CgroupId) -> bool {
        self.weak_holders.contains(&container)
    }

    /// Makes weak claims to `netns` count.
    pub fn confirm(&mut self, netns: NetnsId) {
        if self.confirmed.insert(netns) {
            self.wake_weak(netns);
        }
    }

    /// Makes claims of `cgroup` count that are at least `age` old; without `cgroup`, claims of all.
    pub fn confirm_old(&mut self, cgroup: Option<CgroupId>, age: Duration) {
        let is_old = |claims: &BTreeMap<CgroupId, Instant>| {
            let mut candidates = claims
                .iter()
                .filter(|(id, _)| cgroup.is_none_or(|c| c == **id));
            candidates.any(|(_, since)| since.elapsed() >= age)
        };
        let old: Vec<_> = self
            .weak
            .iter()
            .filter(|(_, claims)| is_old(claims))
            .collect();
        for netns in old.into_iter().map(|(netns, _)| *netns).collect::<Vec<_>>() {
            self.confirm(netns);
        }
    }

    /// Sets all weak claims of a cgroup, and examines other claimants again.
    fn claim_weakly(&mut self, cgroup: CgroupId, spaces: &BTreeSet<NetnsId>) {
        let before = self
            .weak
            .iter()
            .filter(|(_, claims)| claims.contains_key(&cgroup));
        let before: BTreeSet<NetnsId> = before.map(|(netns, _)| *netns).collect();
        for netns in before.difference(spaces) {
            if let Some(claims) = self.weak.get_mut(netns) {
                claims.remove(&cgroup);
                if claims.is_empty() {
                    self.weak.remove(netns);
                    self.confirmed.remove(netns);
                }
            }
            self.wake_weak(*netns);
        }
        for netns in spaces.difference(&before) {
            let claims = self.weak.entry(*netns).or_default();
            claims.insert(cgroup, Instant::now());
            self.wake_weak(*netns);
        }
    }

    fn wake_weak(&mut self, netns: NetnsId) {
        let claims = self.weak.get(&netns).into_iter().flatten();
        self.pending.extend(claims.map(|(cgroup, _)| *cgroup));
    }

    /// Marks all cgroups with a lesser claim to `netns` for another examination.
    fn wake(&mut self, netns: NetnsId, guests: &[CgroupId]) {
        self.wake_weak(netns);
        self.pending.extend(guests);
    }
}

impl Inventory {
    /// Updates the container that `cgroup` is, or belongs to, from its processes, and everything
    /// that depends on it. Reads no processes except those of containers with several namespaces.
    pub(super) fn assess(&mut self, cgroup: CgroupId) {
        self.claims.pending.insert(cgroup);
        self.assess_pending();
    }

    /// Updates all containers that depend on a recent change.
    pub(super) fn assess_pending(&mut self) {
        while let Some(next) = self.claims.pending.pop_first() {
            self.assess_one(next);
        }
    }

    fn assess_one(&mut self, cgroup: CgroupId) {
        if self
            .tree
            .get(cgroup)
            .is_none_or(|node| node.parent.is_none())
        {
            return;
        }
        let runtime = self
            .tree
            .upwards(cgroup)
            .find(|id| self.is_runtime_made(*id));
        match runtime.or_else(|| self.named_above(cgroup)) {
            Some(unit) => self.assess_unit(unit),
            None => self.assess_plain(cgroup),
        }
    }

    /// Whether the path alone makes it a container.
    pub(super) fn is_runtime_made(&self, cgroup: CgroupId) -> bool {
        self.tree
            .get(cgroup)
            .is_some_and(|n| matches!(n.class, Class::Container(_)))
    }

    /// Returns `cgroup` and all below it, without other runtimes' containers.
    pub(super) fn with_descendants(&self, cgroup: CgroupId) -> Vec<CgroupId> {
        self.tree
            .subtree(cgroup, |child| !self.is_runtime_made(child))
    }

    /// Updates a cgroup that is a container with all below it, by its path or by its name.
    fn assess_unit(&mut self, unit: CgroupId) {
        let cgroups = self.with_descendants(unit);
        let nodes = cgroups.iter().filter_map(|id| self.tree.get(*id));
        let spaces: BTreeSet<NetnsId> = nodes.flat_map(|node| node.members.spaces()).collect();
        let is_part = || {
            let absorbed = self.absorbed_above(unit);
            let mut own = spaces.iter().filter(|netns| **netns != self.host_netns);
            !absorbed.is_empty() && own.all(|netns| absorbed.contains(netns))
        };
        let exists = self.is_runtime_made(unit) || (!spaces.is_empty() && !is_part());
        for below in cgroups.iter().filter(|id| !exists || **id != unit) {
            self.clear_plain(*below);
            if self.containers.contains_key(below) {
                self.end_container(*below);
            }
        }
        if exists {
            self.clear_plain(unit);
            self.set_namespaces(unit, &cgroups, &spaces);
        }
    }

    fn clear_plain(&mut self, cgroup: CgroupId) {
        self.claims.claim_weakly(cgroup, &BTreeSet::new());
        self.claims.weak_holders.remove(&cgroup);
        if let Some(node) = self.tree.get_mut(cgroup) {
            node.absorbs.clear();
        }
    }

    /// Returns the namespaces of the nearest container above that includes the cgroups below it.
    fn absorbed_above(&self, cgroup: CgroupId) -> BTreeSet<NetnsId> {
        let above = self.tree.upwards(cgroup).skip(1);
        let nodes = above.filter_map(|id| self.tree.get(id));
        let mut absorbing = nodes.filter(|node| !node.absorbs.is_empty());
        absorbing
            .next()
            .map(|n| n.absorbs.clone())
            .unwrap_or_default()
    }

    /// Updates a cgroup that only its processes can make a container.
    fn assess_plain(&mut self, cgroup: CgroupId) {
        let Some(node) = self.tree.get(cgroup) else {
            return;
        };
        let own = node.members.own(self.host_netns);
        let is_mixed = node.members.process(self.host_netns).is_some();
        let absorbed = self.absorbed_above(cgroup);
        let claims = node.class != Class::Helper && !own.is_subset(&absorbed);
        let strong = match claims && !is_mixed {
            true => own.clone(),
            false => BTreeSet::new(),
        };
        let weak: BTreeSet<NetnsId> = match claims && is_mixed {
            true => own.difference(&absorbed).copied().collect(),
            false => BTreeSet::new(),
        };
        self.claims.claim_weakly(cgroup, &weak);
        let granted: BTreeSet<NetnsId> = weak
            .into_iter()
            .filter(|netns| self.is_granted(*netns, cgroup))
            .collect();
        match granted.is_empty() {
            true => self.claims.weak_holders.remove(&cgroup),
            false => self.claims.weak_holders.insert(cgroup),
        };
        let spaces = if strong.is_empty() { &granted } else { &strong };
        if !spaces.is_empty() {
            self.set_namespaces(cgroup, &[cgroup], spaces);
        } else if self.containers.contains_key(&cgroup) {
            self.end_container(cgroup);
        }
        let node = self.tree.get_mut(cgroup);
        if let Some(node) = node.filter(|node| node.absorbs != strong) {
            node.absorbs = strong;
            let below = self.with_descendants(cgroup).into_iter().skip(1);
            self.claims.pending.extend(below);
        }
    }

    /// Whether the weak claim of `cgroup` to `netns` counts.
    fn is_granted(&self, netns: NetnsId, cgroup: CgroupId) -> bool {
        let claims = self.claims.weak.get(&netns);
        let first = claims.and_then(|claims| claims.first_key_value());
        let counts =
            self.claims.confirmed.contains(&netns) || self.claims.missed.contains_key(&netns);
        counts
            && first.is_some_and(|(id, _)| *id == cgroup)
            && self.namespaces.guests(netns).iter().all(|id| *id == cgroup)
            && self.holders_by_right(netns).is_empty()
    }

    /// Returns the containers whose own namespace is `netns`, without those by a weak claim.
    fn holders_by_right(&self, netns: NetnsId) -> Vec<CgroupId> {
        let mut holders = self.namespaces.holders(netns);
        holders.retain(|id| !self.claims.is_weak(*id));
        holders
    }

    /// Makes `owner` a container with `spaces`, the namespaces of processes in `cgroups`.
    fn set_namespaces(
        &mut self,
        owner: CgroupId,
        cgroups: &[CgroupId],
        spaces: &BTreeSet<NetnsId>,
    ) {
        if !self.containers.contains_key(&owner) {
            let Some(path) = self.tree.get(owner).map(|n| n.path.clone()) else {
                return;
            };
            self.start(unnamed(owner, &path));
        }
        let first = match spaces.len() {
            0 => None,
            1 => self.any_process(cgroups, spaces),
            _ => self
                .first_process(cgroups, spaces)
                .or_else(|| self.any_process(cgroups, spaces)),
        };
        match spaces.len() > 1 {
            true => self.claims.several.insert(owner),
            false => self.claims.several.remove(&owner),
        };
        let netns = first.map(|(netns, _)| netns);
        let guest_of: BTreeSet<NetnsId> = spaces
            .iter()
            .copied()
            .filter(|space| *space != self.host_netns && Some(*space) != netns)
            .collect();
        self.assign_namespace(owner, netns);
        self.set_guest_namespaces(owner, &guest_of);
        let mut further = guest_of;
        further.retain(|netns| self.holders_by_right(*netns).is_empty());
        let host = self.host_netns;
        self.change(owner, |container| {
            container.pid = first.map(|(_, pid)| pid);
            container.host_network = netns == Some(host);
            container.further_netns = further.into_iter().collect();
        });
    }

    fn any_process(
        &self,
        cgroups: &[CgroupId],
        spaces: &BTreeSet<NetnsId>,
    ) -> Option<(NetnsId, u32)> {
        let nodes = || cgroups.iter().filter_map(|id| self.tree.get(*id));
        spaces.iter().find_map(|netns| {
            let process = nodes().find_map(|node| node.members.process(*netns))?;
            Some((*netns, process))
        })
    }

    /// Makes `netns` the namespace of `owner`.
    fn assign_namespace(&mut self, owner: CgroupId, netns: Option<NetnsId>) {
        let before = self.containers.get(&owner).and_then(|c| c.netns);
        if let Some(netns) = netns.filter(|netns| *netns != self.host_netns) {
            self.claims.missed.remove(&netns);
            self.namespaces.visit_if_unseen(netns);
        }
        if before == netns {
            return;
        }
        if let Some(before) = before {
            self.release(before, owner);
        }
        self.change(owner, |container| {
            container.netns = netns;
            container.interfaces.clear();
        });
        if let Some(netns) = netns.filter(|netns| *netns != self.host_netns) {
            self.namespaces.add_holder(netns, owner);
            let guests = self.namespaces.guests(netns);
            self.claims.wake(netns, &guests);
        }
    }

    fn release(&mut self, netns: NetnsId, owner: CgroupId) {
        self.namespaces.release(netns, owner);
        let guests = self.namespaces.guests(netns);
        self.claims.wake(netns, &guests);
    }

    /// Sets the namespaces in which `owner` has processes, other than its own one.
    fn set_guest_namespaces(&mut self, owner: CgroupId, spaces: &BTreeSet<NetnsId>) {
        for netns in self.namespaces.set_guest(owner, spaces) {
            self.claims.missed.remove(&netns);
            self.claims.wake_weak(netns);
        }
    }

    /// Removes a container's namespaces, as it ends.
    pub(super) fn leave_namespaces(&mut self, container: &Container) {
        self.set_guest_namespaces(container.cgroup, &BTreeSet::new());
        if let Some(netns) = container.netns {
            self.release(netns, container.cgroup);
        }
    }

    /// Ends a container that is one by its namespace only; its cgroup stays.
    pub(super) fn end_container(&mut self, cgroup: CgroupId) {
        self.stop(cgroup);
        self.claims.weak_holders.remove(&cgroup);
        self.claims.several.remove(&cgroup);
        self.refresh_descendants(Some(cgroup));
    }
}
