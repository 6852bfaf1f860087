//! Reports of the kernel about new and removed containers.

use crate::{CgroupId, NetnsId};
use std::path::PathBuf;

/// One event from the BPF ring buffer, in the kernel's order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KernelEvent {
    /// A v2 cgroup was created at `path` (below the v2 mount, beginning with `/`).
    CgroupCreated {
        /// Id of the cgroup.
        cgroup: CgroupId,
        /// Path of the cgroup.
        path: PathBuf,
    },
    /// A v2 cgroup was removed.
    CgroupRemoved {
        /// Id of the cgroup.
        cgroup: CgroupId,
    },
    /// A process entered a cgroup, or executed a program in it; that shows the cgroup's network
    /// namespace.
    ProcessSeen {
        /// Cgroup of the process.
        cgroup: CgroupId,
        /// Network namespace of the process at that moment.
        netns: NetnsId,
        /// Process id in the host's PID namespace.
        pid: u32,
    },
    /// Packets arrived in a network namespace that belongs to no tracked container.
    UnknownNetns {
        /// The namespace.
        netns: NetnsId,
    },
    /// A cgroup that is not tracked was charged for packets, or one of its sockets received some.
    UnknownCgroup {
        /// The cgroup.
        cgroup: CgroupId,
        /// A process in the cgroup, where the kernel saw one.
        pid: Option<u32>,
    },
    /// The kernel lost `count` events because the ring was full: everything has to be scanned
    /// again.
    Lost {
        /// Number of lost events.
        count: u64,
    },
}
