//! A reading of all counters, and the difference of two.

use crate::promise::{Levels, Promise, Promises};
use crate::shares::{OnCpu, UnusedCpuTime, divide};
use cofferdam_types::{
    CgroupId, Container, CpuAmount, CpuLoss, DiagnosedContainer, DiagnosisHealth, Entitlement,
    Neighbour, ScheduleInterval, ScheduleTime,
};
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Container with its counts since it was first tracked.
#[derive(Clone, Debug)]
pub(crate) struct ContainerCounts {
    pub(crate) container: Arc<Container>,
    /// Path of its cgroup in the hierarchy of the cpu controller.
    pub(crate) path: PathBuf,
    pub(crate) time: ScheduleTime,
    pub(crate) neighbour: Option<Neighbour>,
    /// Times by CPU, without the CPUs on which it neither ran nor waited.
    pub(crate) by_cpu: Vec<OnCpu>,
    /// CPUs that a rule reserves for it.
    pub(crate) reserved: Option<CpuAmount>,
}

/// All counters at one moment.
#[derive(Clone, Debug)]
pub struct DiagnosisReading {
    pub(crate) monotonic: Duration,
    pub(crate) cpus: usize,
    pub(crate) online_cpus: usize,
    pub(crate) idle_ns: u64,
    pub(crate) left_idle_ns: u64,
    pub(crate) host_ns: u64,
    /// Unused time by CPU number.
    pub(crate) by_cpu: Vec<UnusedCpuTime>,
    pub(crate) containers: Vec<ContainerCounts>,
    pub(crate) levels: Levels,
    pub(crate) health: DiagnosisHealth,
}

impl DiagnosisReading {
    /// Interval from `earlier` to this reading. Containers that `earlier` does not have appear in
    /// the next interval: their promise is unknown until then.
    pub fn since(&self, earlier: &DiagnosisReading) -> ScheduleInterval {
        let length = self.monotonic.saturating_sub(earlier.monotonic);
        let before: HashMap<CgroupId, &ContainerCounts> = earlier
            .containers
            .iter()
            .map(|c| (c.container.cgroup, c))
            .collect();
        let promises = Promises::new(
            &earlier.levels,
            &self.levels,
            length.as_secs_f64(),
            self.online_cpus,
        );
        let diagnosed = self.containers.iter().filter_map(|now| {
            let old = before.get(&now.container.cgroup)?;
            let time = now.time - old.time;
            let promise = match now.reserved {
                Some(amount) => Promise {
                    cpus: amount.into(),
                    by: Entitlement::Reserved,
                },
                None => promises.of(&now.path),
            };
            let entitled_ns = (promise.cpus * length.as_nanos() as f64) as u64;
            Some(DiagnosedContainer {
                container: Arc::clone(&now.container),
                loss: CpuLoss::split(entitled_ns, &time),
                entitlement: promise.by,
                time,
                neighbour: now.neighbour.clone(),
            })
        });
        let containers: Vec<DiagnosedContainer> = diagnosed.collect();
        let (shares, unused) = divide(&containers, earlier, self, length);
        ScheduleInterval {
            length,
            counted: length,
            cpus: self.cpus,
            idle_ns: self.idle_ns.saturating_sub(earlier.idle_ns),
            left_idle_ns: self.left_idle_ns.saturating_sub(earlier.left_idle_ns),
            host_ns: self.host_ns.saturating_sub(earlier.host_ns),
            containers,
            shares,
            unused,
            health: self.health,
        }
    }
}
