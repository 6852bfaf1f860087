//! CPU time that containers were entitled to but did not get, as the ledger's document and the
//! agent's status have it.

use cofferdam_types::{
    CgroupId, Container, CpuId, CpuLoss, DiagnosedContainer, DiagnosisHealth, Entitlement,
    LossShare, Neighbour, ScheduleInterval, ScheduleTime, UnusedTime,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::time::Duration;

/// One interval of the diagnosis.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DiagnosisRecord {
    /// Length of the interval, seconds.
    pub interval_s: f64,
    /// Part of `interval_s` in which everything was counted, seconds; the rest is estimated from
    /// it. Null where everything was counted, and in the history, which does not keep it.
    #[serde(default)]
    pub counted_s: Option<f64>,
    /// Every container (or every selected container) that existed for the whole interval; largest
    /// losses to others first.
    pub containers: Vec<CpuLossRecord>,
    /// Idle time of all CPUs, nanoseconds.
    pub idle_ns: u64,
    /// The part of `idle_ns` that followed the throttling of a container, nanoseconds.
    pub left_idle_ns: u64,
    /// Run time of host tasks on all CPUs, nanoseconds.
    pub host_ns: u64,
    /// Containers without a free row, since the start; they count as the host.
    pub containers_without_slot: u64,
    /// Segments that ended with a different task than they began with, since the start.
    pub mismatches: u64,
    /// Segments of impossible length, discarded, since the start.
    pub segments_rejected: u64,
    /// Lost time of the containers that lost much, divided among their neighbours. Absent where
    /// none did, and in the history.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shares: Vec<LossShareRecord>,
    /// Time in which no container ran, for each CPU that is in `shares`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_cpu: Vec<UnusedTimeRecord>,
}

/// Part of a container's lost time that one neighbour took on one CPU.
///
/// The wait there is divided among all that ran meanwhile, in proportion to their run time. The
/// shares of a container add up to no more than its forced_sharing_ns + phantom_ns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LossShareRecord {
    /// Id of the cgroup of the container that waited.
    pub victim: u64,
    /// Id of the cgroup that ran; null for host tasks without a row of their own.
    pub neighbour: Option<u64>,
    /// Number of the CPU.
    pub cpu: u32,
    /// The part, nanoseconds.
    pub ns: u64,
}

/// Time of one CPU in which no container ran.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct UnusedTimeRecord {
    /// Number of the CPU.
    pub cpu: u32,
    /// The CPU was idle, nanoseconds.
    pub idle_ns: u64,
    /// Host tasks without a row of their own ran, `ksoftirqd` among them, nanoseconds.
    pub host_ns: u64,
}

/// CPU time of one container in the interval. The four losses add up to entitled_ns − got_ns if
/// that is positive, otherwise to 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CpuLossRecord {
    /// Name of the container, as in the ledger.
    pub name: String,
    /// Id of the container's cgroup, as in the ledger.
    pub cgroup_id: u64,
    /// Entitlement by the container's reservation, or by its weight among its competitors,
    /// nanoseconds.
    pub entitled_ns: u64,
    /// The basis of `entitled_ns`: `reserved`, `weight`, `quota` or `cpuset`.
    #[schemars(with = "String")]
    pub entitled_by: Entitlement,
    /// Run time of the container's threads, nanoseconds.
    pub got_ns: u64,
    /// Lost to forced runqueue sharing: a thread of the container waited on a CPU while others ran
    /// there, nanoseconds.
    pub forced_sharing_ns: u64,
    /// Lost as phantom CPU time: a thread waited while a CPU was idle, or throttled neighbours left
    /// CPUs idle for as long in the same scheduling period, nanoseconds.
    pub phantom_ns: u64,
    /// Lost to the container's own quota, nanoseconds.
    pub throttled_ns: u64,
    /// Lost for lack of a runnable thread, nanoseconds.
    pub lack_ns: u64,
    /// Neighbour that the container waited for longest since the diagnosis started; null if it did
    /// not wait.
    pub neighbour: Option<NeighbourRecord>,
}

/// Neighbour that ran while a container waited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum NeighbourRecord {
    /// Host tasks.
    Host,
    /// A container.
    Container {
        /// Name of the container.
        name: String,
    },
}

impl DiagnosisRecord {
    /// Record of `interval` with the containers `shown`, in their order.
    pub fn new<'a>(
        interval: &ScheduleInterval,
        shown: impl IntoIterator<Item = &'a DiagnosedContainer>,
    ) -> DiagnosisRecord {
        let health = &interval.health;
        DiagnosisRecord {
            interval_s: interval.length.as_secs_f64(),
            counted_s: (interval.is_estimated()).then_some(interval.counted.as_secs_f64()),
            containers: shown.into_iter().map(CpuLossRecord::new).collect(),
            idle_ns: interval.idle_ns,
            left_idle_ns: interval.left_idle_ns,
            host_ns: interval.host_ns,
            containers_without_slot: health.containers_without_slot,
            mismatches: health.mismatches,
            segments_rejected: health.segments_rejected,
            shares: interval.shares.iter().map(LossShareRecord::new).collect(),
            by_cpu: interval.unused.iter().map(UnusedTimeRecord::new).collect(),
        }
    }

    /// Interval that this record describes, with those of its containers that `containers` has.
    ///
    /// A record lacks the number of CPUs and the scheduler's times except the run time: these are
    /// 0.
    pub fn interval(&self, containers: &[Arc<Container>]) -> ScheduleInterval {
        let diagnosed = |record: &CpuLossRecord| {
            let cgroup = CgroupId(record.cgroup_id);
            let container = containers.iter().find(|c| c.cgroup == cgroup)?;
            Some(record.diagnosed(Arc::clone(container)))
        };
        let length = Duration::try_from_secs_f64(self.interval_s).unwrap_or_default();
        let counted = (self.counted_s).and_then(|s| Duration::try_from_secs_f64(s).ok());
        ScheduleInterval {
            length,
            counted: counted.unwrap_or(length),
            cpus: 0,
            idle_ns: self.idle_ns,
            left_idle_ns: self.left_idle_ns,
            host_ns: self.host_ns,
            containers: self.containers.iter().filter_map(diagnosed).collect(),
            shares: self.shares.iter().map(LossShareRecord::share).collect(),
            unused: self.by_cpu.iter().map(UnusedTimeRecord::unused).collect(),
            health: DiagnosisHealth {
                containers_without_slot: self.containers_without_slot,
                mismatches: self.mismatches,
                segments_rejected: self.segments_rejected,
            },
        }
    }
}

impl LossShareRecord {
    fn new(share: &LossShare) -> LossShareRecord {
        LossShareRecord {
            victim: share.victim.0,
            neighbour: share.neighbour.map(|id| id.0),
            cpu: share.cpu.0,
            ns: share.ns,
        }
    }

    fn share(&self) -> LossShare {
        LossShare {
            victim: CgroupId(self.victim),
            neighbour: self.neighbour.map(CgroupId),
            cpu: CpuId(self.cpu),
            ns: self.ns,
        }
    }
}

impl UnusedTimeRecord {
    fn new(time: &UnusedTime) -> UnusedTimeRecord {
        UnusedTimeRecord {
            cpu: time.cpu.0,
            idle_ns: time.idle_ns,
            host_ns: time.host_ns,
        }
    }

    fn unused(&self) -> UnusedTime {
        UnusedTime {
            cpu: CpuId(self.cpu),
            idle_ns: self.idle_ns,
            host_ns: self.host_ns,
        }
    }
}

impl CpuLossRecord {
    fn new(one: &DiagnosedContainer) -> CpuLossRecord {
        let loss = &one.loss;
        CpuLossRecord {
            name: one.container.name.clone(),
            cgroup_id: one.container.cgroup.0,
            entitled_ns: loss.entitled_ns,
            entitled_by: one.entitlement,
            got_ns: loss.got_ns,
            forced_sharing_ns: loss.forced_sharing_ns,
            phantom_ns: loss.phantom_ns,
            throttled_ns: loss.throttled_ns,
            lack_ns: loss.lack_ns,
            neighbour: one.neighbour.as_ref().map(NeighbourRecord::from),
        }
    }

    /// Line for people: CPUs that the container got of its entitlement over `length`, and the
    /// causes of the loss.
    pub fn words(&self, length: Duration) -> String {
        let container = Container::plain(CgroupId(self.cgroup_id), "", self.name.as_str());
        self.diagnosed(Arc::new(container)).words(length)
    }

    /// Time that others took from the container, nanoseconds.
    pub fn taken_ns(&self) -> u64 {
        self.forced_sharing_ns.saturating_add(self.phantom_ns)
    }

    fn diagnosed(&self, container: Arc<Container>) -> DiagnosedContainer {
        DiagnosedContainer {
            container,
            loss: CpuLoss {
                entitled_ns: self.entitled_ns,
                got_ns: self.got_ns,
                forced_sharing_ns: self.forced_sharing_ns,
                phantom_ns: self.phantom_ns,
                throttled_ns: self.throttled_ns,
                lack_ns: self.lack_ns,
            },
            entitlement: self.entitled_by,
            time: ScheduleTime {
                run_ns: self.got_ns,
                ..ScheduleTime::default()
            },
            neighbour: self.neighbour.clone().map(Neighbour::from),
        }
    }
}

impl From<&Neighbour> for NeighbourRecord {
    fn from(neighbour: &Neighbour) -> NeighbourRecord {
        match neighbour {
            Neighbour::Host => NeighbourRecord::Host,
            Neighbour::Container(name) => NeighbourRecord::Container { name: name.clone() },
        }
    }
}

impl From<NeighbourRecord> for Neighbour {
    fn from(record: NeighbourRecord) -> Neighbour {
        match record {
            NeighbourRecord::Host => Neighbour::Host,
            NeighbourRecord::Container { name } => Neighbour::Container(name),
        }
    }
}

#[cfg(test)]
mod tests;
