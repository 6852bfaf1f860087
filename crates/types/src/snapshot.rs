//! Readings of the whole ledger, and the difference of two.

use crate::{CgroupId, Container, CpuId, CpuTime, Ledger, Reason, Sampling};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// One container with its counts.
#[derive(Clone, Debug)]
pub struct ContainerLedger {
    /// Who.
    pub container: Arc<Container>,
    /// Its counts: cumulative in a [`Snapshot`], the difference in an [`Interval`].
    pub ledger: Ledger,
    /// Its network CPU caused on each CPU, nanoseconds (index = position in `Snapshot::cpus`).
    pub caused_by_cpu_ns: Vec<u64>,
    /// Network CPU charged to it on each CPU, nanoseconds.
    pub charged_by_cpu_ns: Vec<u64>,
    /// Interruptions of its tasks by network softirqs on each CPU.
    pub interruptions_by_cpu: Vec<u64>,
    /// Packets that other containers of this host sent to it, by the sender's cgroup: counted
    /// where they are queued to its interface, before queues that may drop them. Empty in the
    /// readings of a loop that has no use for it.
    pub received_from: BTreeMap<CgroupId, u64>,
}

/// What the accounting could not do, so that nothing is lost silently. Cumulative counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Health {
    /// Containers without a slot because the table was full.
    pub containers_without_slot: u64,
    /// Kernel events lost because the ring was full (each loss triggers a full scan).
    pub events_lost: u64,
    /// Containers whose cgroup was removed; their last counts were kept until read.
    pub containers_gone: u64,
    /// Times the set of online CPUs changed.
    pub cpu_hotplugs: u64,
    /// Segments longer than 10 s, thrown away as clock or nesting errors.
    pub segments_rejected: u64,
    /// Program runs at markers that the kernel skipped.
    pub markers_missed: u64,
    /// Softirqs that the kernel counted but no tracepoint reported, and polls of NAPI threads that came to
    /// their CPU unseen. Their time is in no ledger and in no total.
    pub softirqs_unseen: u64,
    /// Cgroup CPU use that could not be read.
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
    /// Every container known now, and those gone since the last reading.
    pub containers: Vec<ContainerLedger>,
    /// Time that belongs to no container, by reason.
    pub unattributed_ns: BTreeMap<Reason, u64>,
    /// What went wrong.
    pub health: Health,
    /// How well estimated what windows stand for is; `None` for an accounting that always measures all.
    pub sampling: Option<Arc<Sampling>>,
}

/// How well the ledgers add up to the measured time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conservation {
    /// softirq + hardirq + NAPI-thread + drain time, nanoseconds.
    pub measured_ns: u64,
    /// Σ caused + Σ unattributed, nanoseconds.
    pub attributed_ns: u64,
    /// |attributed − measured| ÷ measured, in percent, of the worst CPU that measured at
    /// least 10 ms (below that the reading's own grain decides); 0 when there is none.
    pub worst_cpu_error_pct: f64,
}

/// The difference of two snapshots.
#[derive(Clone, Debug)]
pub struct Interval {
    /// Wall-clock time of the later reading.
    pub time: SystemTime,
    /// Length.
    pub length: Duration,
    /// Per-CPU measured time within the interval.
    pub cpus: Vec<(CpuId, CpuTime)>,
    /// Containers with their differences.
    pub containers: Vec<ContainerLedger>,
    /// Unattributed time within the interval, by reason.
    pub unattributed_ns: BTreeMap<Reason, u64>,
    /// Cumulative, as in the later snapshot.
    pub health: Health,
    /// The invariant, checked over the whole run so far: the later reading minus the first.
    pub conservation: Conservation,
    /// How much of it is estimated, and how well; `None` for an accounting that always measures all.
    pub sampling: Option<Sampling>,
}

impl Snapshot {
    /// The invariant over everything measured so far.
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

    /// What happened between `earlier` and this reading. A container that `earlier` does not
    /// have counts from zero.
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
    /// Whether some of its counts are estimates.
    pub fn is_estimated(&self) -> bool {
        self.sampling.as_ref().is_some_and(Sampling::is_estimated)
    }
}

impl ContainerLedger {
    /// What came after `earlier`, an earlier reading of the same container.
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
