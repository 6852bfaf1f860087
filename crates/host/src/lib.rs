//! What this host has: containers and their interfaces, cgroup v1 and v2, network namespaces,
//! CPUs. Reads only; nothing here changes the host.
//!
//! [`Inventory`] finds the containers once and then follows them by events: each costs a walk
//! up one cgroup path, never a scan.

mod classify;
mod cpus;
mod device;
mod error;
mod fs;
pub mod inside;
mod inventory;
mod kernel;
mod layout;
mod links;
mod lock;
mod names;
pub mod netlink;
mod netns;
pub mod parse;
mod resolve;
mod socket;
mod topology;
mod usage;

pub use classify::{Class, Named};
pub use cpus::{online_cpus, possible_cpus};
pub use device::{hardware_timestamping, request as device_request};
pub use error::HostError;
pub use fs::HostFs;
pub use inventory::Inventory;
pub use kernel::{Mitigations, irq_time_accounting, kernel_release, mitigations};
pub use layout::{CgroupLayout, Controller};
pub use lock::{HostLock, LockError, RUN_FOLDER, leave_run_folder};
pub use names::labels::labels;
pub use netns::{host_netns, in_namespace};
pub use resolve::{ResolveError, cgroup_of, named_netns, resolve, resolve_in};
pub use socket::refuse_descriptors;
pub use topology::topology;
pub use usage::{CpuUsage, CpuUsageFile};
