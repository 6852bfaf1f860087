//! Network namespaces of containers, and the devices in them.

use super::Inventory;
use crate::fs::HostFs;
use crate::links::{Door, Inside, LinkEvent, PeerSpace};
use crate::netlink::LinkMessage;
use crate::netns;
use cofferdam_types::{CgroupId, Container, IfIndex, InterfacePair, NetnsId};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Default)]
struct Namespace {
    /// Containers of the namespace; several for a pod.
    holders: BTreeSet<CgroupId>,
    /// Contents of the namespace; `None` until it was visited.
    inside: Option<Inside>,
}

/// Namespaces by number, and the host's devices.
#[derive(Default)]
pub(super) struct Namespaces {
    by_id: HashMap<NetnsId, Namespace>,
    /// Containers with processes in a namespace that is not their own.
    guests: BTreeMap<NetnsId, BTreeSet<CgroupId>>,
    by_nsid: HashMap<i32, NetnsId>,
    /// Numbers of namespaces without a container.
    foreign: HashSet<i32>,
    host_links: HashMap<u32, LinkMessage>,
    /// Namespaces to visit before the event in progress is answered.
    to_visit: BTreeSet<NetnsId>,
    /// Namespace without a number that was visited last.
    visited: Option<NetnsId>,
}

impl Namespaces {
    pub fn holders(&self, netns: NetnsId) -> Vec<CgroupId> {
        self.by_id
            .get(&netns)
            .map(|n| n.holders.iter().copied().collect())
            .unwrap_or_default()
    }

    /// Returns the containers with processes in `netns` whose own namespace is another one.
    pub fn guests(&self, netns: NetnsId) -> Vec<CgroupId> {
        let guests = self.guests.get(&netns).into_iter().flatten();
        guests.copied().collect()
    }

    /// Sets the namespaces in which `cgroup` is a guest. Returns the namespaces for which that
    /// changes.
    pub fn set_guest(&mut self, cgroup: CgroupId, spaces: &BTreeSet<NetnsId>) -> Vec<NetnsId> {
        let before = self.guests.iter().filter(|(_, all)| all.contains(&cgroup));
        let before: BTreeSet<NetnsId> = before.map(|(netns, _)| *netns).collect();
        for netns in before.difference(spaces) {
            if let Some(all) = self.guests.get_mut(netns) {
                all.remove(&cgroup);
                if all.is_empty() {
                    self.guests.remove(netns);
                }
            }
        }
        for netns in spaces.difference(&before) {
            self.guests.entry(*netns).or_default().insert(cgroup);
        }
        before.symmetric_difference(spaces).copied().collect()
    }

    pub fn add_holder(&mut self, netns: NetnsId, cgroup: CgroupId) {
        self.by_id.entry(netns).or_default().holders.insert(cgroup);
        self.to_visit.insert(netns);
    }

    pub fn release(&mut self, netns: NetnsId, cgroup: CgroupId) {
        let Some(namespace) = self.by_id.get_mut(&netns) else {
            return;
        };
        namespace.holders.remove(&cgroup);
        if namespace.holders.is_empty() {
            let nsid = self.by_id.remove(&netns).and_then(|n| n.inside?.nsid);
            if let Some(nsid) = nsid.filter(|nsid| self.by_nsid.get(nsid) == Some(&netns)) {
                self.by_nsid.remove(&nsid);
            }
            self.to_visit.remove(&netns);
        }
    }

    pub fn visit_if_unseen(&mut self, netns: NetnsId) {
        if self.by_id.get(&netns).is_some_and(|n| n.inside.is_none()) {
            self.to_visit.insert(netns);
        }
    }

    /// Plans a visit to one namespace without a number, whose devices raise no message. Each has
    /// its turn.
    pub fn visit_unnumbered(&mut self) {
        let is_open = |n: &Namespace| n.inside.as_ref().is_some_and(|i| i.nsid.is_none());
        let open = self.by_id.iter().filter(|(_, n)| is_open(n));
        let mut open: Vec<NetnsId> = open.map(|(netns, _)| *netns).collect();
        open.sort_unstable();
        let next = open.iter().find(|netns| Some(**netns) > self.visited);
        if let Some(next) = next.or(open.first()).copied() {
            self.visited = Some(next);
            self.to_visit.insert(next);
        }
    }

    #[cfg(test)]
    pub fn visit_all(&mut self) {
        self.to_visit.extend(self.by_id.keys());
    }

    /// Replaces the list of the host's devices; everything must be examined again.
    pub fn replace_host_links(&mut self, links: Vec<LinkMessage>) {
        self.host_links = links.into_iter().map(|link| (link.index, link)).collect();
        self.to_visit.extend(self.by_id.keys());
    }

    fn visit_nsid(&mut self, nsid: i32) {
        match self.by_nsid.get(&nsid) {
            Some(netns) => {
                self.to_visit.insert(*netns);
            }
            // A number assigned since the last visit: it may belong to a namespace that had none.
            // It is searched for once; a container that starts later queries its own.
            None => {
                if !self.foreign.insert(nsid) {
                    return;
                }
                let unnumbered = |n: &Namespace| n.inside.as_ref().is_none_or(|i| i.nsid.is_none());
                let open = self.by_id.iter().filter(|(_, n)| unnumbered(n));
                self.to_visit.extend(open.map(|(netns, _)| *netns));
            }
        }
    }

    /// Handles a device of the host's namespace that was made, changed or removed.
    fn host_link(&mut self, link: LinkMessage) {
        let old = self.host_links.get(&link.index);
        let same = old.is_some_and(|old| {
            *old == LinkMessage {
                up: old.up,
                removed: false,
                ..link.clone()
            }
        });
        if same && !link.removed {
            return;
        }
        let ends = [old, Some(&link)].into_iter().flatten();
        let nsids: BTreeSet<i32> = ends
            .filter(|l| l.is_pair())
            .filter_map(|l| l.peer_nsid)
            .collect();
        for nsid in nsids {
            self.visit_nsid(nsid);
        }
        if link.removed {
            self.host_links.remove(&link.index);
        } else {
            self.host_links.insert(link.index, link);
        }
    }

    /// Handles a device that was made, changed or removed in the namespace with the host's number
    /// `nsid`.
    fn inner_link(&mut self, nsid: i32, link: &LinkMessage) {
        let previous = self
            .by_nsid
            .get(&nsid)
            .and_then(|netns| self.by_id.get(netns)?.inside.as_ref())
            .and_then(|inside| inside.links.iter().find(|l| l.link.index == link.index));
        let news = match previous {
            // Most messages repeat old facts: carrier, queue state, statistics.
            Some(old) => {
                link.removed
                    || !link.is_in_use()
                    || old.link
                        != LinkMessage {
                            up: old.link.up,
                            ..link.clone()
                        }
            }
            None => link.is_in_use() && !link.removed,
        };
        if news {
            self.visit_nsid(nsid);
        }
    }

    fn pairs(&self, netns: NetnsId, host_netns: NetnsId) -> Vec<InterfacePair> {
        let inside = self.by_id.get(&netns).and_then(|n| n.inside.as_ref());
        let links = inside.map(|i| i.links.as_slice()).unwrap_or_default();
        let mut pairs: Vec<InterfacePair> = links
            .iter()
            .map(|inner| {
                let other_space = match inner.peer_space {
                    PeerSpace::Same => None,
                    PeerSpace::Host => Some(host_netns),
                    PeerSpace::Other(which) => which,
                };
                let is_pair = inner.link.is_pair();
                let apart = inner.peer_space != PeerSpace::Same;
                let host_ifindex = inner.link.peer.filter(|_| is_pair && apart);
                let on_host = host_ifindex.filter(|_| inner.peer_space == PeerSpace::Host);
                let host_link = on_host.and_then(|index| self.host_links.get(&index));
                InterfacePair {
                    host_name: host_link.map(|l| l.name.clone()),
                    host_ifindex: host_ifindex.map(IfIndex),
                    host_netns: other_space.filter(|_| host_ifindex.is_some()),
                    lower_netns: other_space.filter(|_| !is_pair && inner.link.peer.is_some()),
                    container_ifindex: IfIndex(inner.link.index),
                    container_name: Some(inner.link.name.clone()),
                }
            })
            .collect();
        pairs.sort_by_key(|pair| pair.container_ifindex);
        pairs
    }
}

impl Inventory {
    /// Processes netlink events; notes the namespaces to visit.
    pub(super) fn take_link_events(&mut self) {
        for event in self.network.drain() {
            match event {
                LinkEvent::Link { nsid: None, link } => self.namespaces.host_link(link),
                LinkEvent::Link {
                    nsid: Some(nsid),
                    link,
                } => {
                    self.namespaces.inner_link(nsid, &link);
                }
                // The number may belong to a different namespace by now: query it again.
                LinkEvent::NsidGone(nsid) => {
                    self.namespaces.foreign.remove(&nsid);
                    if let Some(netns) = self.namespaces.by_nsid.remove(&nsid) {
                        self.namespaces.to_visit.insert(netns);
                    }
                }
                LinkEvent::Lost => {
                    if let Ok(links) = self.network.host_links() {
                        self.namespaces.replace_host_links(links);
                    }
                }
            }
        }
    }

    /// Visits new and changed namespaces, and updates the interfaces of their containers.
    pub(super) fn visit_namespaces(&mut self) {
        if self.namespaces.to_visit.is_empty() {
            return;
        }
        // The host's events first: they may still be in the socket.
        self.take_link_events();
        let wanted = std::mem::take(&mut self.namespaces.to_visit);
        let doors: Vec<Door> = wanted
            .iter()
            .filter_map(|netns| self.door(*netns))
            .collect();
        let (fs, containers) = (&self.fs, &self.containers);
        let others = || other_doors(fs, containers.values());
        let found = self.network.look_inside(&doors, &others);
        for (netns, inside) in found {
            if let Some(nsid) = inside.nsid {
                self.namespaces.foreign.remove(&nsid);
                self.namespaces.by_nsid.insert(nsid, netns);
            }
            if let Some(namespace) = self.namespaces.by_id.get_mut(&netns) {
                namespace.inside = Some(inside);
            }
        }
        for netns in wanted {
            let pairs = self.namespaces.pairs(netns, self.host_netns);
            for holder in self.namespaces.holders(netns) {
                self.change(holder, |container| container.interfaces.clone_from(&pairs));
            }
        }
    }

    /// Finds a file by which to enter a namespace, of one of its processes.
    fn door(&self, netns: NetnsId) -> Option<Door> {
        let pid = self
            .namespaces
            .holders(netns)
            .into_iter()
            .find_map(|holder| {
                let main_process = self.containers.get(&holder)?.pid;
                main_process
                    .filter(|pid| self.fs.netns_of(*pid) == Some(netns))
                    .or_else(|| {
                        let below = self.tree.subtree(holder, |_| true);
                        below
                            .into_iter()
                            .find_map(|cgroup| self.process_in(cgroup, netns))
                    })
            })?;
        Some(Door {
            netns,
            file: process_door(pid),
        })
    }
}

/// Lists namespaces that may have the host side of a device: other containers', and those with a
/// name.
fn other_doors<'a>(fs: &HostFs, all: impl Iterator<Item = &'a Arc<Container>>) -> Vec<Door> {
    let holders = all.filter_map(|c| Some((c.netns?, c.pid?)));
    let containers = holders.map(|(netns, pid)| Door {
        netns,
        file: process_door(pid),
    });
    let named = netns::named(fs).into_iter();
    containers
        .chain(named.map(|(file, netns)| Door { netns, file }))
        .collect()
}

fn process_door(pid: u32) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/ns/net"))
}
