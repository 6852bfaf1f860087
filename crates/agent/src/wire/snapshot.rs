//! Reading of the ledger in the form of the socket: schema `cofferdam.snapshot/1`.

use cofferdam_records::OtherSchema;
use cofferdam_types::{
    CgroupId, Container, ContainerLedger, CpuId, CpuTime, Health, InterfacePair, Ledger, NetnsId,
    Reason, Runtime, Sampling, Snapshot, path_text, text_path,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

/// Schema of [`WireSnapshot`].
pub const SNAPSHOT: &str = "cofferdam.snapshot/1";

/// Cumulative counts since the agent's accounting started.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WireSnapshot {
    /// Always [`SNAPSHOT`].
    pub schema: String,
    /// Wall-clock time of the reading, nanoseconds since 1970.
    pub time_unix_ns: u64,
    /// Time since the accounting started, nanoseconds.
    pub uptime_ns: u64,
    /// Measured time of each CPU.
    pub cpus: Vec<WireCpu>,
    /// Tracked containers, and containers that ended after `gone_after_ns`.
    pub containers: Vec<WireContainer>,
    /// Time that belongs to no container, by reason.
    pub unattributed_ns: BTreeMap<Reason, u64>,
    /// Counts of failures.
    pub health: Health,
    /// Quality of the estimates from windows; absent in the readings of older agents.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampling: Option<Arc<Sampling>>,
}

/// Measured time of one CPU.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WireCpu {
    /// Number of the CPU.
    pub cpu: u32,
    /// Measured time.
    #[serde(flatten)]
    pub time: CpuTime,
}

/// One container with its ledger.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WireContainer {
    /// Id of its cgroup.
    pub cgroup_id: u64,
    /// Path of its cgroup; bytes that are not UTF-8 are replaced.
    pub cgroup_path: String,
    /// Ids of the cgroups below.
    pub descendants: Vec<u64>,
    /// Name of the container.
    pub name: String,
    /// Id that the runtime gave it.
    pub id: Option<String>,
    /// Runtime that created it.
    pub runtime: Runtime,
    /// Kubernetes pod.
    pub pod: Option<String>,
    /// Inode of its network namespace.
    pub netns: Option<u32>,
    /// Inodes of its further network namespaces.
    #[serde(default)]
    pub further_netns: Vec<u32>,
    /// Whether it shares the host's network namespace.
    pub host_network: bool,
    /// Process in the container.
    pub pid: Option<u32>,
    /// Network devices.
    pub interfaces: Vec<InterfacePair>,
    /// Counts of the container.
    pub ledger: Ledger,
    /// Network CPU caused on each CPU, in the order of `cpus`.
    pub caused_by_cpu_ns: Vec<u64>,
    /// Network CPU charged on each CPU, in the order of `cpus`.
    pub charged_by_cpu_ns: Vec<u64>,
    /// Receive softirqs in its time slices on each CPU, in the order of `cpus`.
    #[serde(default)]
    pub interruptions_by_cpu: Vec<u64>,
    /// Packets that other containers sent to it, by the id of the sender's cgroup.
    #[serde(default)]
    pub received_from: BTreeMap<u64, u64>,
}

impl WireSnapshot {
    /// Converts `snapshot` for the socket, with the containers that have `ended` since.
    pub fn new(snapshot: &Snapshot, ended: &[ContainerLedger]) -> WireSnapshot {
        let time = snapshot.time.duration_since(UNIX_EPOCH).unwrap_or_default();
        let containers = ended.iter().chain(&snapshot.containers);
        WireSnapshot {
            schema: SNAPSHOT.to_owned(),
            time_unix_ns: nanoseconds(time),
            uptime_ns: nanoseconds(snapshot.uptime),
            cpus: snapshot
                .cpus
                .iter()
                .map(|(cpu, time)| WireCpu {
                    cpu: cpu.0,
                    time: *time,
                })
                .collect(),
            containers: containers.map(WireContainer::new).collect(),
            unattributed_ns: snapshot.unattributed_ns.clone(),
            health: snapshot.health,
            sampling: snapshot.sampling.clone(),
        }
    }

    /// Converts it back for the commands.
    pub fn into_snapshot(self) -> Result<Snapshot, OtherSchema> {
        if self.schema != SNAPSHOT {
            return Err(OtherSchema {
                found: self.schema,
                expected: SNAPSHOT,
            });
        }
        Ok(Snapshot {
            time: UNIX_EPOCH + Duration::from_nanos(self.time_unix_ns),
            uptime: Duration::from_nanos(self.uptime_ns),
            cpus: self
                .cpus
                .into_iter()
                .map(|c| (CpuId(c.cpu), c.time))
                .collect(),
            containers: self
                .containers
                .into_iter()
                .map(WireContainer::into_ledger)
                .collect(),
            unattributed_ns: self.unattributed_ns,
            health: self.health,
            sampling: self.sampling,
        })
    }
}

/// Schema of the snapshot in the answer `line`, if it is another than [`SNAPSHOT`]. Nothing else is
/// parsed: a snapshot may be 15 MiB long, and its fields are those of another version.
pub(crate) fn other_schema(line: &[u8]) -> Option<OtherSchema> {
    #[derive(Deserialize)]
    struct SnapshotAnswer {
        ok: Document,
    }
    #[derive(Deserialize)]
    struct Document {
        schema: String,
    }
    let SnapshotAnswer { ok } = serde_json::from_slice(line).ok()?;
    (ok.schema != SNAPSHOT).then_some(OtherSchema {
        found: ok.schema,
        expected: SNAPSHOT,
    })
}

impl WireContainer {
    fn new(entry: &ContainerLedger) -> WireContainer {
        let container = &entry.container;
        WireContainer {
            cgroup_id: container.cgroup.0,
            cgroup_path: path_text(&container.cgroup_path).into_owned(),
            descendants: container.descendants.iter().map(|id| id.0).collect(),
            name: container.name.clone(),
            id: container.id.clone(),
            runtime: container.runtime,
            pod: container.pod.clone(),
            netns: container.netns.map(|n| n.0),
            further_netns: container.further_netns.iter().map(|n| n.0).collect(),
            host_network: container.host_network,
            pid: container.pid,
            interfaces: container.interfaces.clone(),
            ledger: entry.ledger,
            caused_by_cpu_ns: entry.caused_by_cpu_ns.clone(),
            charged_by_cpu_ns: entry.charged_by_cpu_ns.clone(),
            interruptions_by_cpu: entry.interruptions_by_cpu.clone(),
            received_from: (entry.received_from.iter())
                .map(|(sender, packets)| (sender.0, *packets))
                .collect(),
        }
    }

    fn into_ledger(self) -> ContainerLedger {
        ContainerLedger {
            container: Arc::new(Container {
                cgroup: CgroupId(self.cgroup_id),
                cgroup_path: text_path(&self.cgroup_path),
                descendants: self.descendants.into_iter().map(CgroupId).collect(),
                name: self.name,
                id: self.id,
                runtime: self.runtime,
                pod: self.pod,
                netns: self.netns.map(NetnsId),
                further_netns: self.further_netns.into_iter().map(NetnsId).collect(),
                host_network: self.host_network,
                pid: self.pid,
                interfaces: self.interfaces,
            }),
            ledger: self.ledger,
            caused_by_cpu_ns: self.caused_by_cpu_ns,
            charged_by_cpu_ns: self.charged_by_cpu_ns,
            interruptions_by_cpu: self.interruptions_by_cpu,
            received_from: (self.received_from.into_iter())
                .map(|(sender, packets)| (CgroupId(sender), packets))
                .collect(),
        }
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;

    /// Promise 9.
    #[test]
    fn a_path_that_is_no_text_crosses_the_socket() {
        let second = Duration::from_secs(1);
        let mut entry =
            crate::testing::interval_with_payments(second, &[(1, 1)]).containers[0].clone();
        let mut container = Container::clone(&entry.container);
        container.cgroup_path = OsStr::from_bytes(b"/a\xff/\x1b").into();
        container.further_netns = vec![NetnsId(8)];
        entry.container = Arc::new(container);
        let line = serde_json::to_string(&WireContainer::new(&entry)).unwrap();
        let back: WireContainer = serde_json::from_str(&line).unwrap();
        assert_eq!(back.into_ledger().container, entry.container);
    }

    /// Promise 77.
    #[test]
    fn a_snapshot_of_another_schema_is_refused() {
        let line = br#"{"version":1,"ok":{"cpus":{"0":1},"schema":"cofferdam.snapshot/9"}}"#;
        assert!(serde_json::from_slice::<crate::wire::Answer<WireSnapshot>>(line).is_err());
        let other = other_schema(line).map(|other| other.found);
        assert_eq!(other.as_deref(), Some("cofferdam.snapshot/9"));
        for damaged in [
            &br#"{"version":1,"ok":{"schema":"cofferdam.snapshot/1","cpus":[]}}"#[..],
            br#"{"version":1,"error":{"text":"no"}}"#,
            b"{",
        ] {
            assert_eq!(other_schema(damaged), None);
        }
    }
}
