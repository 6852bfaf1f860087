//! Pods and containers for the agent, from the runtime's messages.

use crate::api;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Quality of service class of a pod, derived by the kubelet from requests and limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Qos {
    /// Every container has limits that equal its requests.
    Guaranteed,
    /// Some container has a request or a limit.
    Burstable,
    /// No container has a request or a limit.
    BestEffort,
}

impl Qos {
    /// Name in Kubernetes' spelling.
    pub fn name(self) -> &'static str {
        match self {
            Qos::Guaranteed => "Guaranteed",
            Qos::Burstable => "Burstable",
            Qos::BestEffort => "BestEffort",
        }
    }

    /// Class of the pod whose cgroup is at `path`, or above it. The kubelet creates
    /// `kubepods/burstable/podUID` or `kubepods-besteffort-podUID.slice`; guaranteed pods are
    /// directly below `kubepods`. `None` elsewhere.
    pub fn of_cgroup(path: &str) -> Option<Qos> {
        if !path.contains("kubepods") {
            return None;
        }
        Some(match path {
            path if path.contains("besteffort") => Qos::BestEffort,
            path if path.contains("burstable") => Qos::Burstable,
            _ => Qos::Guaranteed,
        })
    }
}

/// Pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// ID of its sandbox in the runtime.
    pub id: String,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID of the API server, or of the kubelet (static pods).
    pub uid: String,
    /// Class; `None` if no kubelet has created its cgroup.
    pub qos: Option<Qos>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// Path of its network namespace; `None` in the host's.
    pub netns: Option<PathBuf>,
}

/// CPU resources that were requested from the runtime for a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// Request in thousandths of a CPU; `None` without one.
    pub request_milli_cpus: Option<u32>,
    /// Limit in thousandths of a CPU; `None` without one.
    pub limit_milli_cpus: Option<u32>,
    /// CPU list; empty: all.
    pub cpus: String,
}

/// Container of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// ID in the runtime.
    pub id: String,
    /// Name in the pod.
    pub name: String,
    /// Labels that the runtime keeps for it.
    pub labels: BTreeMap<String, String>,
    /// Annotations of its OCI configuration.
    pub annotations: BTreeMap<String, String>,
    /// CPU resources.
    pub resources: Resources,
    /// Requested cgroup: a path, or `SLICE:PREFIX:NAME` for systemd.
    pub cgroups_path: String,
    /// Whether its process has ended.
    pub is_stopped: bool,
    /// Pod of the container.
    pub pod: Arc<Pod>,
}

impl Pod {
    /// `namespace/name`.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }

    pub(crate) fn new(raw: api::PodSandbox) -> Pod {
        let linux = raw.linux.unwrap_or_default();
        Pod {
            qos: Qos::of_cgroup(&linux.cgroup_parent),
            netns: linux
                .namespaces
                .into_iter()
                .find(|n| n.r#type == "network" && !n.path.is_empty())
                .map(|n| n.path.into()),
            id: raw.id,
            namespace: raw.namespace,
            name: raw.name,
            uid: raw.uid,
            labels: raw.labels,
            annotations: raw.annotations,
        }
    }

    /// Memory for the description, bytes.
    pub(crate) fn size_bytes(&self) -> usize {
        let own = self.id.len() + self.namespace.len() + self.name.len() + self.uid.len();
        size_of::<Pod>() + own + map_bytes(&self.labels) + map_bytes(&self.annotations)
    }
}

impl Container {
    pub(crate) fn new(raw: api::Container, pod: Arc<Pod>) -> Container {
        let linux = raw.linux.unwrap_or_default();
        Container {
            id: raw.id,
            name: raw.name,
            labels: raw.labels,
            annotations: raw.annotations,
            resources: linux.resources.map(resources).unwrap_or_default(),
            cgroups_path: linux.cgroups_path,
            is_stopped: raw.state == api::CONTAINER_STOPPED,
            pod,
        }
    }

    pub(crate) fn size_bytes(&self) -> usize {
        let own = self.id.len() + self.name.len() + self.cgroups_path.len();
        let cpus = self.resources.cpus.len();
        size_of::<Container>() + own + cpus + map_bytes(&self.labels) + map_bytes(&self.annotations)
    }
}

fn map_bytes(map: &BTreeMap<String, String>) -> usize {
    let entry = 2 * size_of::<String>();
    map.iter().map(|(k, v)| entry + k.len() + v.len()).sum()
}

/// Smallest `cpu.shares` of the kubelet, which it also gives to a container without a request.
const NO_REQUEST_SHARES: u64 = 2;

/// CPU resources in a message. The kubelet converts a request of m thousandths into floor(m × 1024
/// / 1000) shares (`MilliCPUToShares`); rounding up reverses that exactly.
pub(crate) fn resources(raw: api::LinuxResources) -> Resources {
    let cpu = raw.cpu.unwrap_or_default();
    let shares = cpu.shares.map_or(0, |s| s.value);
    let request = (shares > NO_REQUEST_SHARES)
        .then(|| shares.saturating_mul(1000).div_ceil(1024))
        .and_then(|milli| u32::try_from(milli).ok());
    let quota = cpu.quota.map_or(0, |q| q.value);
    let period = cpu.period.map_or(100_000, |p| p.value);
    let limit = u64::try_from(quota)
        .ok()
        .filter(|quota| *quota > 0)
        .and_then(|quota| quota.checked_mul(1000)?.checked_div(period))
        .and_then(|milli| u32::try_from(milli).ok());
    Resources {
        request_milli_cpus: request,
        limit_milli_cpus: limit,
        cpus: cpu.cpus,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpu(shares: u64, quota: i64) -> Resources {
        resources(api::LinuxResources {
            cpu: Some(api::LinuxCpu {
                shares: Some(api::OptionalUInt64 { value: shares }),
                quota: Some(api::OptionalInt64 { value: quota }),
                ..api::LinuxCpu::default()
            }),
        })
    }

    #[test]
    fn a_request_is_recovered_from_its_shares() {
        for milli in 3..=64_000u32 {
            let shares = u64::from(milli) * 1024 / 1000;
            assert_eq!(cpu(shares, 0).request_milli_cpus, Some(milli), "{shares}");
        }
        assert_eq!(cpu(2, 0).request_milli_cpus, None);
        assert_eq!(cpu(u64::MAX, i64::MIN).request_milli_cpus, None);
        assert_eq!(cpu(512, 150_000).limit_milli_cpus, Some(1500));
        assert_eq!(cpu(512, -1).limit_milli_cpus, None);
    }

    #[test]
    fn the_class_is_read_from_the_cgroup_of_both_drivers() {
        for (parent, class) in [
            ("/kubepods/pod1234", Some(Qos::Guaranteed)),
            ("kubepods-pod1234.slice", Some(Qos::Guaranteed)),
            ("/kubepods/burstable/pod1234", Some(Qos::Burstable)),
            (
                "/kubelet.slice/kubelet-kubepods.slice/kubepods-besteffort-pod1.slice",
                Some(Qos::BestEffort),
            ),
            ("", None),
            ("/user.slice", None),
        ] {
            assert_eq!(Qos::of_cgroup(parent), class, "{parent}");
        }
    }
}
