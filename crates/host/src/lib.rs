//! Reads the host: containers and their interfaces, cgroup v1 and v2, network namespaces, CPUs.
//! Nothing here changes the host.
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
mod names;
pub mod netlink;
mod netns;
mod procfs;
mod remedy;
mod resolve;
mod systemd;
mod topology;
mod usage;

pub use classify::{Class, NamedContainer};
pub use cpus::{online_cpus, possible_cpus};
pub use device::{hardware_timestamping, request as device_request};
pub use error::HostError;
pub use fs::HostFs;
pub use inventory::{Introduction, Inventory, MOST_HOST_CGROUPS};
pub use kernel::{Mitigations, irq_time_accounting, kernel_release, mitigations};
pub use layout::{CgroupLayout, Controller};
pub use names::labels::labels;
pub use netns::{find_namespace, host_netns, in_namespace, namespaces, open as open_namespace};
pub use procfs::TICKS_PER_S;
pub use remedy::{raise_open_files, remedy, with_remedy};
pub use resolve::{ResolveError, cgroup_of, named_netns, resolve, resolve_in};
pub use topology::topology;
pub use usage::{CpuUsage, CpuUsageFile};

/// Parsers of kernel and runtime files. Each accepts any input, however hostile or truncated: it
/// returns what it understood and never panics.
pub mod parse {
    pub use crate::classify::classify;
    pub use crate::names::cri::{OciNames, annotations};
    pub use crate::names::docker::{config as docker_config, data_root as docker_data_root};
    pub use crate::names::identity::passwd_home;
    pub use crate::names::labels::{annotations as oci_annotations, docker_labels};
    pub use crate::names::nspawn::machine as nspawn_machine;
    pub use crate::names::podman::{
        containers as podman_containers, graph_root as podman_graph_root,
    };
    pub use crate::netlink::message::{link_message, netlink_messages, nsid_message};
    pub use crate::netlink::sockets::inet_socket;
    pub use crate::procfs::{
        Mount, cpu_list, cpu_stat_usage_us, cpu_ticks, mountinfo, netns_link, proc_cgroup_v1,
        proc_cgroup_v2, procs,
    };
    pub use crate::systemd::unescape as systemd_unescape;

    #[cfg(test)]
    mod tests;
}
