//! Containers: a cgroup, its network namespace and its interfaces.

use crate::{CgroupId, IfIndex, NetnsId};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

/// The runtime that created a container, derived from the form of its cgroup path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Runtime {
    /// podman or another libpod user (`libpod-<id>`).
    Podman,
    /// dockerd (`docker-<id>.scope`, `/docker/<id>`).
    Docker,
    /// containerd, also under Kubernetes (`cri-containerd-<id>`).
    Containerd,
    /// CRI-O (`crio-<id>`).
    Crio,
    /// systemd-nspawn (`machine.slice/…`).
    Nspawn,
    /// No known runtime: a cgroup whose processes have a network namespace of their own, or that a
    /// rule names.
    Plain,
    /// No container: a service, session or other cgroup of the host, with the tasks directly in it.
    /// Tracked from the moment that it is charged for packets or receives some.
    Host,
}

impl fmt::Display for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Runtime::Podman => "podman",
            Runtime::Docker => "docker",
            Runtime::Containerd => "containerd",
            Runtime::Crio => "crio",
            Runtime::Nspawn => "nspawn",
            Runtime::Plain => "plain",
            Runtime::Host => "host",
        })
    }
}

/// One network device of a container and, where there is one, its end on the host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterfacePair {
    /// Name on the host side, such as `veth3f2a`; `None` when the container's device has no
    /// partner on the host (macvlan, a moved physical device).
    pub host_name: Option<String>,
    /// Index on the host side, in the namespace `host_netns`.
    pub host_ifindex: Option<IfIndex>,
    /// The namespace that holds the host side.
    pub host_netns: Option<NetnsId>,
    /// Namespace of the lower device (of a macvlan, ipvlan or VLAN) where that is another one.
    #[serde(default)]
    pub lower_netns: Option<NetnsId>,
    /// Index inside the container's namespace.
    pub container_ifindex: IfIndex,
    /// Name inside the container, where it could be read.
    pub container_name: Option<String>,
}

/// A container: a cgroup that a runtime made for it (or that has a network namespace of its
/// own), with that namespace and its interfaces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Container {
    /// The v2 cgroup id, which identifies the container as long as it lives.
    pub cgroup: CgroupId,
    /// Path below the v2 mount, beginning with `/`.
    pub cgroup_path: PathBuf,
    /// v2 ids of all cgroups below `cgroup` (not `cgroup` itself).
    pub descendants: Vec<CgroupId>,
    /// The runtime's name for it where readable, else the last path component.
    pub name: String,
    /// Full id given by the runtime, lower-case hexadecimal; `None` for plain cgroups.
    pub id: Option<String>,
    /// The runtime that created it.
    pub runtime: Runtime,
    /// Kubernetes pod as `namespace/name` where readable, else its UID.
    pub pod: Option<String>,
    /// The network namespace of its first process; `None` while it has no process.
    pub netns: Option<NetnsId>,
    /// Further network namespaces of the container's processes that no other container owns, such
    /// as a sandboxed browser's; sorted. Their devices are not in `interfaces`.
    #[serde(default)]
    pub further_netns: Vec<NetnsId>,
    /// Whether the container shares the host's network namespace: then only the socket's cgroup
    /// distinguishes its packets from the host's.
    pub host_network: bool,
    /// One process in the container, for `/proc/PID/…`; `None` while it has none.
    pub pid: Option<u32>,
    /// Network devices of the container, loopback left out. Containers of one pod share them.
    pub interfaces: Vec<InterfacePair>,
}

impl Container {
    /// Whether this is no container but a cgroup of the host: accounted and protected, but no rule
    /// matches it. Its name is its path.
    pub fn is_of_host(&self) -> bool {
        self.runtime == Runtime::Host
    }

    /// Name with the pod's before it, if any: a container's name is unique only within its pod.
    pub fn full_name(&self) -> String {
        match &self.pod {
            Some(pod) if *pod != self.name => format!("{pod}:{}", self.name),
            _ => self.name.clone(),
        }
    }

    /// Whether the container only holds the network namespace of a pod and does nothing itself.
    /// Decided by the name that a kubelet's runtime, podman and Nomad give such a container.
    pub fn is_sandbox(&self) -> bool {
        match self.runtime {
            Runtime::Containerd | Runtime::Crio => self.name == "pause",
            Runtime::Podman => self.name.ends_with("-infra"),
            Runtime::Docker => self.name.starts_with("nomad_init_"),
            _ => false,
        }
    }

    /// A plain cgroup without a process, of which nothing else has been discovered.
    pub fn plain(
        cgroup: CgroupId,
        cgroup_path: impl Into<PathBuf>,
        name: impl Into<String>,
    ) -> Container {
        Container {
            cgroup,
            cgroup_path: cgroup_path.into(),
            descendants: Vec::new(),
            name: name.into(),
            id: None,
            runtime: Runtime::Plain,
            pod: None,
            netns: None,
            further_netns: Vec::new(),
            host_network: false,
            pid: None,
            interfaces: Vec::new(),
        }
    }
}

/// A change in the set of containers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ContainerChange {
    /// Discovered.
    Added(Arc<Container>),
    /// Name, namespace, interfaces or descendants of the same cgroup differ.
    Changed(Arc<Container>),
    /// The cgroup was removed, or it is no longer a container.
    Removed(Arc<Container>),
}
