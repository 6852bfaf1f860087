//! Pods and containers as the agent wants them, from the messages of the runtime.

use crate::api;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Quality of service class of a pod, as the kubelet derives it from requests and limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Qos {
    /// Every container has limits that equal its requests.
    Guaranteed,
    /// Some container has a request or a limit.
    Burstable,
    /// None has.
    BestEffort,
}

impl Qos {
    /// As Kubernetes writes it.
    pub fn name(self) -> &'static str {
        match self {
            Qos::Guaranteed => "Guaranteed",
            Qos::Burstable => "Burstable",
            Qos::BestEffort => "BestEffort",
        }
    }

    /// That of the pod whose cgroup is at `path`, or above it: the kubelet makes
    /// `kubepods/burstable/podUID`, `kubepods-besteffort-podUID.slice`; guaranteed pods lie directly
    /// below `kubepods`. `None` elsewhere.
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

/// One pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// The runtime's id of its sandbox.
    pub id: String,
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// UID, of the API server or of the kubelet (static pods).
    pub uid: String,
    /// Its class; `None` where no kubelet has made its cgroup.
    pub qos: Option<Qos>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// Its network namespace as a path; `None` in the host's.
    pub netns: Option<PathBuf>,
}

/// CPU of a container, as the runtime was asked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// Its request in thousandths of a CPU; `None` when it has none.
    pub request_milli_cpus: Option<u32>,
    /// Its limit in thousandths of a CPU; `None` when it has none.
    pub limit_milli_cpus: Option<u32>,
    /// The CPUs that it was given, as a list; empty: all.
    pub cpus: String,
}

/// One container of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Container {
    /// The runtime's id.
    pub id: String,
    /// Its name in the pod.
    pub name: String,
    /// Labels that the runtime keeps of it.
    pub labels: BTreeMap<String, String>,
    /// Annotations of its OCI configuration.
    pub annotations: BTreeMap<String, String>,
    /// Its CPU.
    pub resources: Resources,
    /// Its cgroup as the runtime was asked: a path, or `SLICE:PREFIX:NAME` for systemd.
    pub cgroups_path: String,
    /// Whether its process has ended.
    pub is_stopped: bool,
    /// Its pod.
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

    /// What it takes to keep it, bytes.
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

/// The kubelet's smallest `cpu.shares`, which it also gives to a container without a request.
const NO_REQUEST_SHARES: u64 = 2;

/// What the messages say of the CPU. The kubelet turns a request of m thousandths into
/// floor(m × 1024 / 1000) shares (`MilliCPUToShares`); rounding up undoes that exactly.
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
    fn a_request_comes_back_from_the_shares_that_the_kubelet_makes_of_it() {
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
