//! Containers that can be measured, tracked while they come and go.

use cofferdam_host::{HostError, Inventory};
use cofferdam_types::{Container, KernelEvent, NetnsId};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Reason why a container cannot be measured.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum NotMeasurable {
    /// The container has the host's namespace.
    #[error(
        "container {0} shares the host's network: it has no path of its own between its sockets \
         and the host's devices"
    )]
    HostNetwork(String),
    /// The container has no process.
    #[error("container {0} has no process, and so no network namespace")]
    Empty(String),
    /// The container has only a loopback device.
    #[error("container {0} has no network interface of its own: its packets never leave it")]
    NoInterface(String),
}

/// Returns the namespace in which `container`'s packets are measured.
pub fn measurable(container: &Container) -> Result<NetnsId, NotMeasurable> {
    let name = || container.name.clone();
    if container.host_network {
        return Err(NotMeasurable::HostNetwork(name()));
    }
    let netns = container
        .netns
        .ok_or_else(|| NotMeasurable::Empty(name()))?;
    if container.interfaces.is_empty() {
        return Err(NotMeasurable::NoInterface(name()));
    }
    Ok(netns)
}

/// Containers of this host.
pub struct Fleet {
    inventory: Inventory,
}

impl Fleet {
    /// Finds all containers.
    pub fn scan() -> Result<Fleet, HostError> {
        Inventory::scan().map(|inventory| Fleet { inventory })
    }

    /// Updates the list. One walk over the cgroup tree.
    pub fn refresh(&mut self) {
        // No kernel events arrive here; a full scan replaces them.
        let _ = self.inventory.handle(&KernelEvent::Lost { count: 0 });
        let _ = self.inventory.handle_links();
    }

    /// Returns all tracked containers.
    pub fn containers(&self) -> Vec<Arc<Container>> {
        self.inventory.containers().cloned().collect()
    }

    /// Returns the host's own namespace.
    pub fn host_netns(&self) -> NetnsId {
        self.inventory.host_netns()
    }

    /// Returns namespaces with their containers, in order; several for a pod.
    pub fn by_netns(
        &self,
        wanted: impl Fn(&Container) -> bool,
    ) -> BTreeMap<NetnsId, Vec<Arc<Container>>> {
        let mut map: BTreeMap<NetnsId, Vec<Arc<Container>>> = BTreeMap::new();
        for container in self.inventory.containers() {
            if wanted(container)
                && let Ok(netns) = measurable(container)
            {
                map.entry(netns).or_default().push(container.clone());
            }
        }
        map
    }
}
