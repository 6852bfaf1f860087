//! The ledger of an interval: schema `cofferdam.accounting/2`, the document of `top --json` and one
//! line of `accounting record --format jsonl`.

use crate::diagnosis::DiagnosisRecord;
use crate::time;
use cofferdam_types::{
    AccountingMode, CgroupId, Container, ContainerLedger, CpuId, CpuTime, Interval, NetnsId,
    Reason, Runtime, Sampling, path_text, text_path,
};
use schemars::JsonSchema;
use serde::de::IntoDeserializer;
use serde::de::value::StrDeserializer;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::Duration;

/// Schema of [`AccountingRecord`].
pub const ACCOUNTING: &str = "cofferdam.accounting/2";

/// Value of `runtime` for a cgroup of the host.
const HOST: &str = "host";

/// The ledger of one interval: the document of `top --json`, one line of
/// `accounting record --format jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AccountingRecord {
    /// Always `cofferdam.accounting/2`.
    pub schema: String,
    /// End of the interval, RFC 3339 in UTC.
    pub time: String,
    /// Length of the interval, seconds.
    pub interval_s: f64,
    /// Every container (or every selected container), largest `owed_ns` first.
    pub containers: Vec<ContainerRecord>,
    /// Time that belongs to no container, nanoseconds, by reason: `host_traffic`,
    /// `forwarding`, `unknown_namespace`, `no_slot`, `no_packet`, `other_hardirq`, and
    /// `*_softirq` for softirqs that are not network work. Reasons without time may be absent.
    pub unattributed_ns: BTreeMap<String, u64>,
    /// Whether the ledgers add up to the time measured.
    pub conservation: ConservationRecord,
    /// Failures of the accounting, counted since it started.
    pub health: HealthRecord,
    /// Time measured on each CPU, independent of its owner.
    pub cpus: Vec<CpuRecord>,
    /// Accounting mode; absent where everything is always measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accounting: Option<SamplingRecord>,
    /// CPU time that containers were entitled to but did not get; only in `top --json`, and absent
    /// if the diagnosis is off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diagnosis: Option<DiagnosisRecord>,
}

/// The ledger of one container.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ContainerRecord {
    /// The runtime's name for it if readable, otherwise the last part of its cgroup path.
    pub name: String,
    /// Id of its cgroup in the unified hierarchy (inode number of the directory).
    pub cgroup_id: u64,
    /// Path of its cgroup below the cgroup2 mount, beginning with `/`.
    pub cgroup_path: String,
    /// Full id assigned by the runtime; null for plain cgroups.
    pub id: Option<String>,
    /// `podman`, `docker`, `containerd`, `crio`, `nspawn` or `plain`.
    pub runtime: String,
    /// Kubernetes pod as `namespace/name`, otherwise its UID; null outside Kubernetes.
    pub pod: Option<String>,
    /// Inode number of its network namespace; null while it has no process.
    pub netns: Option<u32>,
    /// Whether it shares the host's network namespace.
    pub host_network: bool,
    /// Softirq and NAPI-thread time that its received packets required, including their share of
    /// batches, nanoseconds.
    pub caused_rx_ns: u64,
    /// Softirq time that its transmitted packets required, and time in other tasks' system calls
    /// that drained its packets from a shared qdisc, nanoseconds.
    pub caused_tx_ns: u64,
    /// The container's share of the network devices' hardirq time, nanoseconds.
    pub caused_hardirq_ns: u64,
    /// caused_rx_ns + caused_tx_ns + caused_hardirq_ns.
    pub caused_ns: u64,
    /// Packets received; a GRO super-packet counts its segments.
    pub rx_packets: u64,
    /// Bytes of those packets, without the link-layer header.
    pub rx_bytes: u64,
    /// Packets of the container that softirqs handled on the way out. Packets that its own system
    /// calls send are its own CPU use and do not count here.
    pub tx_packets: u64,
    /// Bytes of those packets.
    pub tx_bytes: u64,
    /// Network CPU that ran in the container's time slices, whatever its cause, nanoseconds.
    pub charged_network_ns: u64,
    /// Other softirq and hardirq time (timer, RCU, block, …) in the container's time slices,
    /// nanoseconds.
    pub charged_other_ns: u64,
    /// caused_ns − charged_network_ns: positive if others were charged for its packets.
    pub owed_ns: i64,
    /// CPU time that the scheduler charged to the cgroup, nanoseconds.
    pub cpu_usage_ns: u64,
    /// cpu_usage_ns + owed_ns: CPU use if every packet had been charged to its owner.
    pub corrected_cpu_ns: i64,
    /// caused_ns ÷ (rx_packets + tx_packets), nanoseconds; null without packets.
    pub ns_per_packet: Option<f64>,
    /// Network CPU it caused on each CPU, nanoseconds, in the order of `cpus`.
    pub caused_by_cpu_ns: Vec<u64>,
    /// Network CPU charged to it on each CPU, nanoseconds, in the order of `cpus`.
    pub charged_by_cpu_ns: Vec<u64>,
    /// Packets that other containers of this host sent to it, by the id of the sender's cgroup.
    /// They are counted where they are queued to its interface, before queues that may drop them.
    #[serde(default)]
    pub received_from: BTreeMap<u64, u64>,
    /// Precision of its figures; absent if none of them is an estimate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_95: Option<Interval95Record>,
}

/// Accounting mode of an interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SamplingRecord {
    /// `exact` if everything in the interval was measured, `sampled` if part of it was estimated
    /// from windows of measurement.
    pub mode: String,
    /// Windows whose estimates are part of the interval.
    pub windows: u64,
    /// Length of these windows together, seconds.
    pub observed_s: f64,
    /// Time that the windows stand for, their own length included, seconds.
    pub estimated_s: f64,
}

/// The 95% intervals of a container's figures: lower and upper end.
///
/// They come from the differences between the windows (Student's t, weighted by the time that a
/// window stands for). With fewer than two windows they are the possible range: no less than was
/// measured, no more than all CPUs could have done meanwhile.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interval95Record {
    /// Interval of `caused_ns`, nanoseconds.
    pub caused_ns: [f64; 2],
    /// Interval of `charged_network_ns`, nanoseconds.
    pub charged_network_ns: [f64; 2],
    /// Interval of `owed_ns`, nanoseconds.
    pub owed_ns: [f64; 2],
}

/// The invariant: Σ caused + Σ unattributed = measured. Counted since the accounting started.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConservationRecord {
    /// Softirq, hardirq, NAPI-thread and drain time, nanoseconds.
    pub measured_ns: u64,
    /// Σ caused + Σ unattributed, nanoseconds.
    pub attributed_ns: u64,
    /// Difference between the two on the worst CPU, percent of its measured time. CPUs with less
    /// than 10 ms measured are left out.
    pub worst_cpu_error_pct: f64,
}

/// Failures of the accounting, so that nothing is lost silently. Counted since the accounting
/// started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HealthRecord {
    /// Containers without a slot because the table was full.
    pub containers_without_slot: u64,
    /// Kernel events lost because the ring was full; each loss triggers a full scan.
    pub events_lost: u64,
    /// Containers whose cgroup was removed. Their last counts were kept until they were read.
    pub containers_gone: u64,
    /// Times the set of online CPUs changed.
    pub cpu_hotplugs: u64,
    /// Segments longer than 10 s, discarded as clock or nesting errors.
    pub segments_rejected: u64,
    /// Program runs at tracepoints that the kernel skipped.
    pub markers_missed: u64,
    /// Softirqs that the kernel counted but no tracepoint reported, and polls of NAPI threads whose
    /// context switch was hidden. Their time is in no ledger and in no total.
    pub softirqs_unseen: u64,
    /// Times a cgroup's CPU use could not be read.
    pub cpu_usage_unreadable: u64,
}

/// Time measured on one CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CpuRecord {
    /// Number of the CPU.
    pub cpu: u32,
    /// All softirq time, without nested hardirqs, nanoseconds.
    pub softirq_ns: u64,
    /// The part of `softirq_ns` in NET_RX and NET_TX, nanoseconds.
    pub network_softirq_ns: u64,
    /// All device hardirq time, nanoseconds.
    pub hardirq_ns: u64,
    /// Time that NAPI threads ran, without nested interrupts, nanoseconds.
    pub napi_thread_ns: u64,
    /// Time in system calls of one container that drained another's packets, nanoseconds.
    pub drain_ns: u64,
    /// softirq_ns + hardirq_ns + napi_thread_ns + drain_ns.
    pub measured_ns: u64,
    /// Measured time according to the ledgers: Σ caused + Σ unattributed, nanoseconds.
    pub attributed_ns: u64,
    /// Measured time charged to containers and to cgroups of the host, network and other,
    /// nanoseconds.
    pub charged_ns: u64,
    /// Measured time charged to neither: that of the idle task, of threads that do network work
    /// themselves, and of tasks of cgroups that are not tracked, nanoseconds.
    pub charged_nobody_ns: u64,
    /// Part of `charged_nobody_ns` that is network CPU in tasks of cgroups that are not tracked,
    /// nanoseconds.
    #[serde(default)]
    pub charged_host_ns: u64,
}

impl AccountingRecord {
    /// Record of `interval`.
    pub fn new(interval: &Interval) -> AccountingRecord {
        let mut containers: Vec<_> = interval.containers.iter().collect();
        containers.sort_by_key(|c| (-c.ledger.owed_ns(), c.container.cgroup));
        let conservation = &interval.conservation;
        let health = &interval.health;
        AccountingRecord {
            schema: ACCOUNTING.to_owned(),
            time: time(interval.time),
            interval_s: interval.length.as_secs_f64(),
            containers: (containers.into_iter())
                .map(|entry| ContainerRecord {
                    interval_95: interval_95(entry, interval),
                    ..ContainerRecord::new(entry)
                })
                .collect(),
            unattributed_ns: interval
                .unattributed_ns
                .iter()
                .map(|(reason, ns)| (reason_key(*reason), *ns))
                .collect(),
            conservation: ConservationRecord {
                measured_ns: conservation.measured_ns,
                attributed_ns: conservation.attributed_ns,
                worst_cpu_error_pct: conservation.worst_cpu_error_pct,
            },
            health: HealthRecord {
                containers_without_slot: health.containers_without_slot,
                events_lost: health.events_lost,
                containers_gone: health.containers_gone,
                cpu_hotplugs: health.cpu_hotplugs,
                segments_rejected: health.segments_rejected,
                markers_missed: health.markers_missed,
                softirqs_unseen: health.softirqs_unseen,
                cpu_usage_unreadable: health.cpu_usage_unreadable,
            },
            cpus: interval
                .cpus
                .iter()
                .map(|(id, time)| CpuRecord::new(*id, time))
                .collect(),
            accounting: interval.sampling.as_ref().map(SamplingRecord::new),
            diagnosis: None,
        }
    }

    /// Length of the interval; 0 where the document has no such length.
    pub fn length(&self) -> Duration {
        Duration::try_from_secs_f64(self.interval_s).unwrap_or_default()
    }
}

impl ContainerRecord {
    /// The container as far as the document describes it: without processes and interfaces.
    pub fn container(&self) -> Container {
        let cgroup = CgroupId(self.cgroup_id);
        let runtime: StrDeserializer<'_, serde::de::value::Error> =
            self.runtime.as_str().into_deserializer();
        Container {
            id: self.id.clone(),
            runtime: Runtime::deserialize(runtime).unwrap_or(Runtime::Plain),
            pod: self.pod.clone(),
            netns: self.netns.map(NetnsId),
            host_network: self.host_network,
            ..Container::plain(cgroup, text_path(&self.cgroup_path), self.name.as_str())
        }
    }

    /// Whether this is no container but a cgroup of the host.
    pub fn is_of_host(&self) -> bool {
        self.runtime == HOST
    }

    fn new(entry: &ContainerLedger) -> ContainerRecord {
        let (container, ledger) = (&entry.container, &entry.ledger);
        ContainerRecord {
            name: container.name.clone(),
            cgroup_id: container.cgroup.0,
            cgroup_path: path_text(&container.cgroup_path).into_owned(),
            id: container.id.clone(),
            runtime: container.runtime.to_string(),
            pod: container.pod.clone(),
            netns: container.netns.map(|n| n.0),
            host_network: container.host_network,
            caused_rx_ns: ledger.caused_rx_ns,
            caused_tx_ns: ledger.caused_tx_ns,
            caused_hardirq_ns: ledger.caused_hardirq_ns,
            caused_ns: ledger.caused_ns(),
            rx_packets: ledger.rx_packets,
            rx_bytes: ledger.rx_bytes,
            tx_packets: ledger.tx_packets,
            tx_bytes: ledger.tx_bytes,
            charged_network_ns: ledger.charged_network_ns,
            charged_other_ns: ledger.charged_other_ns,
            owed_ns: ledger.owed_ns(),
            cpu_usage_ns: ledger.cpu_usage_ns,
            corrected_cpu_ns: ledger.corrected_cpu_ns(),
            ns_per_packet: ledger.ns_per_packet(),
            caused_by_cpu_ns: entry.caused_by_cpu_ns.clone(),
            charged_by_cpu_ns: entry.charged_by_cpu_ns.clone(),
            received_from: (entry.received_from.iter())
                .map(|(sender, packets)| (sender.0, *packets))
                .collect(),
            interval_95: None,
        }
    }
}

impl SamplingRecord {
    fn new(sampling: &Sampling) -> SamplingRecord {
        let mode = match sampling.is_estimated() {
            true => AccountingMode::Sampled,
            false => AccountingMode::Exact,
        };
        SamplingRecord {
            mode: mode.label().to_owned(),
            windows: sampling.windows,
            observed_s: sampling.observed_ns as f64 / 1e9,
            estimated_s: sampling.estimated_ns as f64 / 1e9,
        }
    }
}

fn interval_95(entry: &ContainerLedger, interval: &Interval) -> Option<Interval95Record> {
    let sampling = interval.sampling.as_ref().filter(|s| s.is_estimated())?;
    let spread = sampling.spreads.get(&entry.container.cgroup);
    let spread = spread.copied().unwrap_or_default();
    let (ledger, cpus) = (&entry.ledger, interval.cpus.len());
    let (caused, charged) = (ledger.caused_ns(), ledger.charged_network_ns);
    let ends = |ns, moments, signed| sampling.interval_95(ns, moments, cpus, signed);
    Some(Interval95Record {
        caused_ns: ends(caused as f64, &spread.caused, false),
        charged_network_ns: ends(charged as f64, &spread.charged, false),
        owed_ns: ends(ledger.owed_ns() as f64, &spread.owed, true),
    })
}

impl CpuRecord {
    fn new(cpu: CpuId, time: &CpuTime) -> CpuRecord {
        CpuRecord {
            cpu: cpu.0,
            softirq_ns: time.softirq_ns,
            network_softirq_ns: time.network_softirq_ns,
            hardirq_ns: time.hardirq_ns,
            napi_thread_ns: time.napi_thread_ns,
            drain_ns: time.drain_ns,
            measured_ns: time.measured_ns(),
            attributed_ns: time.attributed_ns,
            charged_ns: time.charged_ns,
            charged_nobody_ns: time.charged_nobody_ns,
            charged_host_ns: time.charged_host_ns,
        }
    }
}

/// Reason that `key` of `unattributed_ns` spells; `None` for one that this version does not have.
pub fn reason(key: &str) -> Option<Reason> {
    let key: StrDeserializer<'_, serde::de::value::Error> = key.into_deserializer();
    Reason::deserialize(key).ok()
}

/// Spelling of `reason` in documents.
fn reason_key(reason: Reason) -> String {
    match serde_json::to_value(reason) {
        Ok(serde_json::Value::String(name)) => name,
        _ => reason.label().replace(' ', "_"),
    }
}
