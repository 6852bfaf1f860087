//! Containers of this host, tracked by events.
//!
//! A cgroup is a container if its path has the form of a known runtime, or if its processes have a
//! network namespace other than the host's, or if it is named ([`Inventory::name`]). Other cgroups
//! are the host's: see `hosts`. The first kind is discovered when the cgroup is created, the second
//! when a process in it is seen. See `claims` for the rules and `namespaces` for the interfaces.

mod claims;
mod hosts;
mod introduced;
mod members;
mod named;
mod namespaces;
mod search;
mod sweep;
#[cfg(test)]
mod tests;
mod tree;

use crate::HostError;
use crate::classify::{Class, is_guess};
use crate::fs::{HostFs, SMALL_BYTES};
use crate::layout::CgroupLayout;
use crate::links::{Network, SystemNetwork};
use crate::names::{Names, cri, fallback};
use crate::procfs;
use crate::usage::Usage;
use claims::Claims;
use cofferdam_types::{
    CgroupId, Container, ContainerChange, KernelEvent, NetnsId, Runtime, Selector,
};
use hosts::Hosts;
pub use hosts::MOST_HOST_CGROUPS;
pub use introduced::Introduction;
use namespaces::Namespaces;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use tree::Tree;

/// Containers of this host, kept up to date by events.
pub struct Inventory {
    fs: HostFs,
    layout: CgroupLayout,
    host_netns: NetnsId,
    network: Box<dyn Network>,
    names: Names,
    /// Runtime records of containers, by the runtime's ids.
    introduced: HashMap<String, Introduction>,
    /// Whether names are read from the files of runtimes that could describe their containers.
    runtime_files: bool,
    usage: Usage,
    tree: Tree,
    claims: Claims,
    /// Selectors that name cgroups.
    named: Vec<Selector>,
    namespaces: Namespaces,
    containers: BTreeMap<CgroupId, Arc<Container>>,
    /// Ids of runtimes, with the cgroups of their containers.
    by_id: BTreeSet<(String, CgroupId)>,
    hosts: Hosts,
    /// Containers before the event in progress; `None` for a new one.
    before: BTreeMap<CgroupId, Option<Arc<Container>>>,
}

impl Inventory {
    /// Finds every container. Costs one walk over the v2 tree, one check of each process in it, and
    /// one visit to each network namespace.
    ///
    /// Fails if no cgroup2 is mounted or netlink cannot be used. Leaves out files that may not be
    /// read for lack of privileges.
    pub fn scan() -> Result<Inventory, HostError> {
        let fs = HostFs::host();
        let layout = CgroupLayout::read(&fs)?;
        let (path, host_netns) = crate::netns::host(&fs)?;
        let file = std::fs::File::open(path).map_err(HostError::reading(path))?;
        let own = fs.netns_link(crate::netns::OWN);
        let network = SystemNetwork::open(file, own == Some(host_netns))?;
        Inventory::new(fs, layout, host_netns, Box::new(network))
    }

    pub(crate) fn new(
        fs: HostFs,
        layout: CgroupLayout,
        host_netns: NetnsId,
        network: Box<dyn Network>,
    ) -> Result<Inventory, HostError> {
        let mut inventory = Inventory {
            fs,
            layout,
            host_netns,
            network,
            names: Names::default(),
            introduced: HashMap::new(),
            runtime_files: true,
            usage: Usage::new(),
            tree: Tree::default(),
            claims: Claims::default(),
            named: Vec::new(),
            namespaces: Namespaces::default(),
            containers: BTreeMap::new(),
            by_id: BTreeSet::new(),
            hosts: Hosts::default(),
            before: BTreeMap::new(),
        };
        inventory
            .namespaces
            .replace_host_links(inventory.network.host_links()?);
        inventory.sweep()?;
        inventory.finish();
        Ok(inventory)
    }

    /// Processes one kernel event; returns the changes. Never fails: an object that has ended by
    /// the time it is examined counts as never seen. Costs O(depth of the cgroup), except for
    /// `Lost`, which scans everything.
    pub fn handle(&mut self, event: &KernelEvent) -> Vec<ContainerChange> {
        match event {
            KernelEvent::CgroupCreated { cgroup, path } => {
                self.add_cgroup(*cgroup, path);
            }
            KernelEvent::CgroupRemoved { cgroup } => self.remove_cgroup(*cgroup),
            KernelEvent::ProcessSeen { cgroup, netns, pid } => {
                if self.ensure_in_tree(*cgroup, *pid) {
                    self.observe(*cgroup, *netns);
                }
            }
            KernelEvent::UnknownNetns { netns } => self.search(*netns),
            KernelEvent::UnknownCgroup { cgroup, pid } => self.note_host(*cgroup, *pid),
            KernelEvent::Lost { .. } => {
                if let Ok(links) = self.network.host_links() {
                    self.namespaces.replace_host_links(links);
                }
                // The root directory is missing only if the mount is; the present state is then the
                // best answer.
                let _ = self.sweep();
            }
        }
        self.finish()
    }

    /// Returns a descriptor that is readable when a network device changed: call
    /// [`Inventory::handle_links`].
    pub fn link_fd(&self) -> BorrowedFd<'_> {
        self.network.fd()
    }

    /// Processes pending netlink messages; returns the changes. Worth a call before each reading as
    /// well: it also searches for namespaces that have packets and no container, and for processes
    /// that raise no event.
    pub fn handle_links(&mut self) -> Vec<ContainerChange> {
        self.take_link_events();
        self.search_again();
        self.review();
        self.finish()
    }

    /// Iterates over the tracked containers, in the order of their cgroup ids.
    pub fn containers(&self) -> impl Iterator<Item = &Arc<Container>> {
        self.containers.values()
    }

    /// Iterates over the tracked cgroups of the host: see `hosts`.
    pub fn host_cgroups(&self) -> impl Iterator<Item = &Arc<Container>> {
        self.hosts.cgroups.values()
    }

    /// Returns the container that a cgroup is, or belongs to.
    pub fn container_of(&self, cgroup: CgroupId) -> Option<&Arc<Container>> {
        self.containers.get(&self.owner(cgroup)?)
    }

    /// Returns the host's own network namespace.
    pub fn host_netns(&self) -> NetnsId {
        self.host_netns
    }

    /// Returns the layout of this host's cgroup hierarchies.
    pub fn layout(&self) -> &CgroupLayout {
        &self.layout
    }

    /// Returns the CPU time that the scheduler billed to the container's cgroup, nanoseconds. Keeps
    /// the file open: a second reading costs one system call.
    pub fn cpu_usage_ns(&mut self, container: &Container) -> Result<u64, HostError> {
        if container.is_of_host() {
            return self.own_usage_ns(container);
        }
        self.usage.read_ns(&self.fs, &self.layout, container)
    }

    /// Ensures that `cgroup` is in the tree; false if it cannot be found any more.
    fn ensure_in_tree(&mut self, cgroup: CgroupId, pid: u32) -> bool {
        if self.tree.get(cgroup).is_some() {
            return true;
        }
        // Created before the events began, or its event was lost: its process has the path.
        let file = format!("/proc/{pid}/cgroup");
        let text = self.fs.read(file, SMALL_BYTES).unwrap_or_default();
        let Some(path) = procfs::proc_cgroup_v2(&text) else {
            return false;
        };
        let inode = self.fs.inode(self.layout.v2_directory(&path));
        inode.is_ok_and(|inode| inode == cgroup.0) && self.add_cgroup(cgroup, &path)
    }

    /// Adds the cgroup at `path`, and unknown ones above it. False if one of them was removed.
    fn add_cgroup(&mut self, id: CgroupId, path: &Path) -> bool {
        match self.tree.id_of(path) {
            Some(known) if known == id => return true,
            // The path was used before, and the event of the removal was lost.
            Some(stale) => self.remove_cgroup(stale),
            None => {}
        }
        // Ids are reused as well, by kernels before 5.5.
        if self.tree.get(id).is_some() {
            self.remove_cgroup(id);
        }
        let parent = match path.parent() {
            None => None,
            Some(above) => match self.tree.id_of(above) {
                Some(parent) => Some(parent),
                None => {
                    let inode = self.fs.inode(self.layout.v2_directory(above));
                    let Ok(parent) = inode.map(CgroupId) else {
                        return false;
                    };
                    if !self.add_cgroup(parent, above) {
                        return false;
                    }
                    Some(parent)
                }
            },
        };
        self.tree.insert(id, path, parent);
        self.note_name(id);
        if self
            .tree
            .get(id)
            .is_some_and(|n| n.class == Class::Other || is_guess(path))
            && let Some(named) = self
                .introduced_at(path)
                .or_else(|| cri::task(&self.fs, path))
        {
            self.tree.set_class(id, Class::Container(named));
        }
        match self.tree.get(id).map(|n| n.class.clone()) {
            Some(Class::Container(_)) => self.start_by_path(id),
            _ => self.refresh_descendants(parent),
        }
        true
    }

    fn remove_cgroup(&mut self, id: CgroupId) {
        let parent = self.tree.get(id).and_then(|n| n.parent);
        for removed in self.tree.subtree(id, |_| true).into_iter().rev() {
            self.stop(removed);
            self.claims.forget(removed);
            self.forget_host(removed);
            self.tree.remove(removed);
        }
        self.refresh_descendants(parent);
        self.assess_pending();
    }

    /// Returns the cgroup of the container that `cgroup` is, or belongs to.
    fn owner(&self, cgroup: CgroupId) -> Option<CgroupId> {
        self.tree
            .upwards(cgroup)
            .find(|id| self.containers.contains_key(id))
    }

    /// Adds a new container.
    fn start(&mut self, container: Container) {
        let id = container.cgroup;
        self.put(container);
        let above = self.tree.get(id).and_then(|n| n.parent);
        self.refresh_descendants(Some(id));
        self.refresh_descendants(above);
    }

    /// Removes a container.
    fn stop(&mut self, id: CgroupId) {
        let Some(container) = self.containers.get(&id).cloned() else {
            return;
        };
        self.remember(id);
        self.containers.remove(&id);
        if let Some(runtime_id) = &container.id {
            self.by_id.remove(&(runtime_id.clone(), id));
        }
        self.usage.forget(id);
        self.leave_namespaces(&container);
    }

    /// Updates the list of cgroups below the container that `cgroup` belongs to.
    fn refresh_descendants(&mut self, cgroup: Option<CgroupId>) {
        let Some(owner) = cgroup.and_then(|id| self.owner(id)) else {
            return;
        };
        let mut below = self
            .tree
            .subtree(owner, |child| !self.containers.contains_key(&child));
        below.remove(0);
        below.sort_unstable();
        self.change(owner, |container| container.descendants = below);
    }

    /// Changes a container in place.
    fn change(&mut self, id: CgroupId, edit: impl FnOnce(&mut Container)) {
        if let Some(old) = self.containers.get(&id) {
            let mut new = Container::clone(old);
            edit(&mut new);
            if new != **old {
                self.put(new);
            }
        }
    }

    fn put(&mut self, container: Container) {
        let cgroup = container.cgroup;
        self.remember(cgroup);
        let id = container.id.clone();
        let old = self.containers.insert(cgroup, Arc::new(container));
        let old = old.and_then(|c| c.id.clone());
        if old != id {
            if let Some(old) = old {
                self.by_id.remove(&(old, cgroup));
            }
            self.by_id.extend(id.map(|id| (id, cgroup)));
        }
    }

    /// Returns the cgroup of the container with this id of its runtime; the oldest if there are
    /// several.
    fn with_id(&self, id: &str) -> Option<CgroupId> {
        let from = (id.to_owned(), CgroupId(0));
        let (found, cgroup) = self.by_id.range(from..).next()?;
        (found == id).then_some(*cgroup)
    }

    fn remember(&mut self, id: CgroupId) {
        self.before
            .entry(id)
            .or_insert_with(|| self.containers.get(&id).cloned());
    }

    /// Examines new and changed namespaces and returns the changes: removals first, so that
    /// consumers with few slots can reuse them.
    fn finish(&mut self) -> Vec<ContainerChange> {
        self.visit_namespaces();
        let mut removed = Vec::new();
        let mut rest = Vec::new();
        for (id, before) in std::mem::take(&mut self.before) {
            match (before, self.containers.get(&id)) {
                (Some(old), None) => removed.push(ContainerChange::Removed(old)),
                (None, Some(new)) => rest.push(ContainerChange::Added(new.clone())),
                (Some(old), Some(new)) if old.cgroup_path != new.cgroup_path => {
                    removed.push(ContainerChange::Removed(old));
                    rest.push(ContainerChange::Added(new.clone()));
                }
                (Some(old), Some(new)) if !is_same(&old, new) => {
                    rest.push(ContainerChange::Changed(new.clone()));
                }
                _ => {}
            }
        }
        if !removed.is_empty() || !rest.is_empty() {
            self.leave_hosts_to_containers();
        }
        self.hosts.take_changes(&mut removed, &mut rest);
        removed.append(&mut rest);
        removed
    }
}

/// Whether nothing has changed except for the main process, which is not worth a report.
fn is_same(old: &Container, new: &Container) -> bool {
    old == &Container {
        pid: old.pid,
        ..new.clone()
    }
}

/// Makes a plain container with only its path.
fn unnamed(cgroup: CgroupId, path: &Path) -> Container {
    Container::plain(cgroup, path, fallback(Runtime::Plain, None, path))
}
