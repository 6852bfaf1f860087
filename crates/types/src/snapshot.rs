//! Readings of the whole ledger, and the difference of two.

use crate::{CgroupId, Container, CpuId, CpuTime, Ledger, Reason, Sampling};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// One container with its counts.
#[derive(Clone, Debug)]
pub struct ContainerLedger {
    /// The container.
    pub container: Arc<Container>,
    /// Counts: cumulative in a [`Snapshot`], the difference in an [`Interval`].
    pub ledger: Ledger,
    /// Network CPU caused on each CPU, nanoseconds (index = position in `Snapshot::cpus`).
    pub caused_by_cpu_ns: Vec<u64>,
    /// Network CPU charged on each CPU, nanoseconds.
    pub charged_by_cpu_ns: Vec<u64>,
    /// Interruptions of the container's tasks by network softirqs on each CPU.
    pub interruptions_by_cpu: Vec<u64>,
    /// Packets that other containers of this host sent to the container, by the sender's cgroup.
    /// They are counted where they are queued to its interface, before queues that may drop them.
    /// Empty in the readings of a loop that does not need them.
    pub received_from: BTreeMap<CgroupId, u64>,
}

/// Failures of the accounting, so that nothing is lost silently. Cumulative counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Health {
    /// Containers without a slot because the table was full.
    pub containers_without_slot: u64,
    /// Kernel events lost because the ring was full (each loss triggers a full scan).
    pub events_lost: u64,
    /// Containers whose cgroup was removed. The accounting kept their last counts until they were
    /// read.
    pub containers_gone: u64,
    /// Times the set of online CPUs changed.
    pub cpu_hotplugs: u64,
    /// Segments longer than 10 s, thrown away as clock or nesting errors.
    pub segments_rejected: u64,
    /// Program runs at tracepoints that the kernel skipped.
    pub markers_missed: u64,
    /// Softirqs that the kernel counted but no tracepoint reported, and polls of NAPI threads whose
    /// context switch was hidden. Their time is in no ledger and in no total.
    pub softirqs_unseen: u64,
    /// Failed readings of a cgroup's CPU use.
    pub cpu_usage_unreadable: u64,
}

/// The ledger at one moment; all counts since the accounting started.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Wall-clock time of the reading.
    pub time: SystemTime,
    /// Time since the accounting started (monotonic).
    pub uptime: Duration,
    /// Per-CPU measured time, in CPU order.
    pub cpus: Vec<(CpuId, CpuTime)>,
    /// Every tracked container, and those forgotten since the last reading.
    pub containers: Vec<ContainerLedger>,
    /// Time that belongs to no container, by reason.
    pub unattributed_ns: BTreeMap<Reason, u64>,
    /// Failures so far.
    pub health: Health,
    /// Precision of the estimates; `None` for an accounting that always measures everything.
    pub sampling: Option<Arc<Sampling>>,
}

/// Difference between the measured time and the ledgers' sum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conservation {
    /// softirq + hardirq + NAPI-thread + drain time, nanoseconds.
    pub measured_ns: u64,
    /// Σ caused + Σ unattributed, nanoseconds.
    pub attributed_ns: u64,
    /// |attributed − measured| ÷ measured, in percent, of the worst CPU. CPUs with less than 10 ms
    /// measured are left out: there the resolution of the readings decides. 0 without any CPU.
    pub worst_cpu_error_pct: f64,
}

/// The difference of two snapshots.
#[derive(Clone, Debug)]
pub struct Interval {
    /// Wall-clock time of the later reading.
    pub time: SystemTime,
    /// Length of the interval.
    pub length: Duration,
    /// Measured time of each CPU within the interval.
    pub cpus: Vec<(CpuId, CpuTime)>,
    /// Containers with their differences.
    pub containers: Vec<ContainerLedger>,
    /// Unattributed time within the interval, by reason.
    pub unattributed_ns: BTreeMap<Reason, u64>,
    /// Cumulative, as in the later snapshot.
    pub health: Health,
    /// The invariant over the whole run so far: the later reading minus the first.
    pub conservation: Conservation,
    /// Precision of the estimates; `None` for an accounting that always measures everything.
    pub sampling: Option<Sampling>,
}

impl Snapshot {
    /// Checks the invariant over everything measured so far.
    pub fn conservation(&self) -> Conservation {
        let mut total = Conservation {
            measured_ns: 0,
            attributed_ns: 0,
            worst_cpu_error_pct: 0.0,
        };
        for (_, cpu) in &self.cpus {
            let (measured, attributed) = (cpu.measured_ns(), cpu.attributed_ns);
            total.measured_ns += measured;
            total.attributed_ns += attributed;
            if measured >= 10_000_000 {
                let error = measured.abs_diff(attributed) as f64 / measured as f64 * 100.0;
                total.worst_cpu_error_pct = total.worst_cpu_error_pct.max(error);
            }
        }
        total
    }

    /// Difference between this reading and `earlier`. A container that `earlier` lacks counts from
    /// zero.
    pub fn since(&self, earlier: &Snapshot) -> Interval {
        let before: HashMap<CgroupId, &ContainerLedger> = earlier
            .containers
            .iter()
            .map(|c| (c.container.cgroup, c))
            .collect();
        let containers = self
            .containers
            .iter()
            .map(|now| match before.get(&now.container.cgroup) {
                None => now.clone(),
                Some(old) => now.since(old),
            })
            .collect();
        let old_cpus: HashMap<CpuId, CpuTime> = earlier.cpus.iter().copied().collect();
        let cpus = self
            .cpus
            .iter()
            .map(|(id, now)| (*id, *now - old_cpus.get(id).copied().unwrap_or_default()))
            .collect();
        let unattributed_ns = self
            .unattributed_ns
            .iter()
            .map(|(reason, ns)| {
                let old = earlier.unattributed_ns.get(reason).copied().unwrap_or(0);
                (*reason, ns.saturating_sub(old))
            })
            .collect();
        Interval {
            time: self.time,
            length: self.uptime.saturating_sub(earlier.uptime),
            cpus,
            containers,
            unattributed_ns,
            health: self.health,
            conservation: self.conservation(),
            sampling: self
                .sampling
                .as_ref()
                .map(|sampling| sampling.since(earlier.sampling.as_deref())),
        }
    }
}

impl Interval {
    /// Whether some of the counts are estimates.
    pub fn is_estimated(&self) -> bool {
        self.sampling.as_ref().is_some_and(Sampling::is_estimated)
    }
}

impl ContainerLedger {
    /// Difference between this reading and `earlier`, a reading of the same container.
    pub fn since(&self, earlier: &ContainerLedger) -> ContainerLedger {
        ContainerLedger {
            container: self.container.clone(),
            ledger: self.ledger - earlier.ledger,
            caused_by_cpu_ns: minus(&self.caused_by_cpu_ns, &earlier.caused_by_cpu_ns),
            charged_by_cpu_ns: minus(&self.charged_by_cpu_ns, &earlier.charged_by_cpu_ns),
            interruptions_by_cpu: minus(&self.interruptions_by_cpu, &earlier.interruptions_by_cpu),
            received_from: since(&self.received_from, &earlier.received_from),
        }
    }
}

fn since(now: &BTreeMap<CgroupId, u64>, old: &BTreeMap<CgroupId, u64>) -> BTreeMap<CgroupId, u64> {
    let new = |(id, packets): (&CgroupId, &u64)| {
        let before = old.get(id).copied().unwrap_or(0);
        (*id, packets.saturating_sub(before))
    };
    (now.iter().map(new))
        .filter(|(_, packets)| *packets > 0)
        .collect()
}

fn minus(now: &[u64], old: &[u64]) -> Vec<u64> {
    now.iter()
        .enumerate()
        .map(|(i, n)| n.saturating_sub(old.get(i).copied().unwrap_or(0)))
        .collect()
}
