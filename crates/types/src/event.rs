//! What the kernel reports about new and removed containers.

use crate::{CgroupId, NetnsId};
use std::path::PathBuf;

/// One event from the BPF ring buffer, in the kernel's order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KernelEvent {
    /// A v2 cgroup was made at `path` (below the v2 mount, beginning with `/`).
    CgroupCreated {
        /// Its id.
        cgroup: CgroupId,
        /// Its path.
        path: PathBuf,
    },
    /// A v2 cgroup was removed.
    CgroupRemoved {
        /// Its id.
        cgroup: CgroupId,
    },
    /// A process entered a cgroup, or executed a program in it: from now on its network namespace
    /// is known.
    ProcessSeen {
        /// The cgroup the process is in.
        cgroup: CgroupId,
        /// Its network namespace at that moment.
        netns: NetnsId,
        /// Its process id in the host's PID namespace.
        pid: u32,
    },
    /// Packets arrived in a network namespace that no container was known for.
    UnknownNetns {
        /// The namespace.
        netns: NetnsId,
    },
    /// A cgroup that nobody is known for paid for packets, or a socket of it got some.
    UnknownCgroup {
        /// The cgroup.
        cgroup: CgroupId,
        /// A process in it, where one was seen.
        pid: Option<u32>,
    },
    /// `count` events were lost because the ring was full: scan everything again.
    Lost {
        /// How many.
        count: u64,
    },
}
