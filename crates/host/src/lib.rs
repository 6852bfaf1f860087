//! What this host has: containers and their interfaces, cgroup v1 and v2, network namespaces,
//! CPUs. Reads only; nothing here changes the host.

use cofferdam_types::{Container, ContainerChange, KernelEvent, NetnsId};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// The host could not be read.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// A file or directory that should be there.
    #[error("cannot read {path}: {source}")]
    Read {
        /// Which.
        path: std::path::PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A netlink request.
    #[error("netlink {request}: {source}")]
    Netlink {
        /// Which.
        request: &'static str,
        /// Why.
        source: std::io::Error,
    },
}

/// The containers of this host, kept up to date by events.
pub struct Inventory {}

impl Inventory {
    /// Finds every container there is.
    pub fn scan() -> Result<Inventory, HostError> {
        unimplemented!()
    }

    /// Takes in one kernel event; returns what changed.
    pub fn handle(&mut self, _event: &KernelEvent) -> Vec<ContainerChange> {
        unimplemented!()
    }

    /// Readable when a network device of the host changed: call [`Inventory::handle_links`].
    pub fn link_fd(&self) -> BorrowedFd<'_> {
        unimplemented!()
    }

    /// Takes in pending netlink messages; returns what changed.
    pub fn handle_links(&mut self) -> Vec<ContainerChange> {
        unimplemented!()
    }

    /// The containers known now.
    pub fn containers(&self) -> impl Iterator<Item = &Arc<Container>> {
        std::iter::empty()
    }

    /// The host's own network namespace.
    pub fn host_netns(&self) -> NetnsId {
        unimplemented!()
    }

    /// CPU time the scheduler billed to the container's cgroup, nanoseconds.
    pub fn cpu_usage_ns(&mut self, _container: &Container) -> Result<u64, HostError> {
        unimplemented!()
    }
}
