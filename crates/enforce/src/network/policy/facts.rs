//! Observations of an interval, as plain values.

use super::correction::CorrectionState;
use cofferdam_types::{CgroupId, Interval};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::time::Duration;

/// Container that needs a decision.
#[derive(Clone, Debug)]
pub(in crate::network) struct Active {
    pub cgroup: CgroupId,
    /// CPUs on which others are charged for its packets now.
    pub contended_now: Vec<u32>,
    /// CPUs on which others are charged now, or were a moment ago.
    pub contended: Vec<u32>,
}

/// Input of a decision.
#[derive(Debug)]
pub(in crate::network) struct Facts<'a> {
    /// End of the interval.
    pub now: Duration,
    /// Measurements of the accounting.
    pub interval: &'a Interval,
    pub interruptions: InterruptionCosts,
    /// Time that the scheduler billed to `ksoftirqd` on each CPU although the task before it ran,
    /// nanoseconds.
    pub late_ns: BTreeMap<u32, f64>,
    /// Weights of cgroups without corrections.
    pub weights: HashMap<PathBuf, f64>,
    /// Whether a quota stops a NAPI thread as it stops a task.
    pub quota_stops_threads: bool,
    /// Containers that need a decision.
    pub containers: Vec<ContainerFacts>,
}

/// Cost of an interruption to the stopped task, beyond the time that the ledger sees. The cost
/// depends on the CPU: an interruption by a timer, as behind a shaped queue, takes twice as long as
/// one by another CPU.
#[derive(Clone, Debug, Default)]
pub(in crate::network) struct InterruptionCosts {
    /// Cost on each CPU where it was measured, nanoseconds.
    pub by_cpu_ns: BTreeMap<u32, f64>,
    /// Cost on all other CPUs, nanoseconds.
    pub elsewhere_ns: f64,
}

impl InterruptionCosts {
    /// Returns one cost for all CPUs, nanoseconds.
    pub fn everywhere(ns: f64) -> InterruptionCosts {
        InterruptionCosts {
            elsewhere_ns: ns,
            ..InterruptionCosts::default()
        }
    }

    /// Cost on `cpu`, nanoseconds.
    pub fn on(&self, cpu: u32) -> f64 {
        self.by_cpu_ns
            .get(&cpu)
            .copied()
            .unwrap_or(self.elsewhere_ns)
    }
}

/// Idle time since the last reading.
#[derive(Clone, Debug, Default)]
pub(in crate::network) struct IdleParts {
    /// Length of the time that the parts are of.
    pub length: Duration,
    /// Idle part (0..=1) of each CPU.
    pub by_cpu: BTreeMap<u32, f64>,
}

/// One container in an interval, and the means in force for it.
#[derive(Clone, Debug)]
pub(in crate::network) struct ContainerFacts {
    pub active: Active,
    /// Whether it has a process. Without one nothing may keep its cgroup in use.
    pub is_alive: bool,
    pub billed: BilledInterval,
    /// CPU time of its NAPI threads, nanoseconds.
    pub napi_ns: u64,
    /// CPUs that it may use: the tightest quota of its cgroup and the cgroups above.
    pub quota_cpus: Option<f64>,
    /// Period of its own quota, or the kernel's default.
    pub quota_period: Duration,
    /// Own quota; `None` if only a cgroup above has one.
    pub own_quota: Option<OwnQuota>,
    /// Weight file; `None` without a CPU controller.
    pub weight: Option<CorrectionState>,
    /// Quota file.
    pub quota: CorrectionState,
    pub limiting: Limiting,
}

impl ContainerFacts {
    /// Whether the means withheld anything from it in the interval.
    pub fn is_throttled(&self) -> bool {
        let counts = self.limiting.counts;
        let lowered = self.weight.is_some_and(|weight| weight.is_lowered());
        lowered || counts.rx_dropped + counts.tx_dropped > 0
    }

    /// Whether more of its packets were dropped in the interval than passed. No stream continues at
    /// such a loss.
    pub fn is_flooded(&self) -> bool {
        let counts = self.limiting.counts;
        counts.rx_dropped + counts.tx_dropped > counts.rx_passed + counts.tx_passed
    }
}

/// CPU time that the scheduler billed in an interval, nanoseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::network) struct BilledInterval {
    /// Time on all CPUs.
    pub all_ns: f64,
    /// Time on each CPU; empty where the kernel reports only the sum (pure cgroup v2).
    pub by_cpu_ns: Vec<f64>,
}

impl BilledInterval {
    /// Time on the CPUs `cpus`, or on all CPUs where the kernel reports only the sum.
    pub fn on(&self, cpus: &[u32]) -> f64 {
        match self.by_cpu_ns.is_empty() {
            true => self.all_ns,
            false => self.known_on(cpus),
        }
    }

    /// Time on the CPUs `cpus`, or 0 where the kernel reports only the sum.
    pub fn known_on(&self, cpus: &[u32]) -> f64 {
        let there = (0_u32..).zip(&self.by_cpu_ns);
        let there = there.filter(|(cpu, _)| cpus.contains(cpu));
        there.map(|(_, ns)| ns).sum()
    }
}

/// Quota of a container itself, without corrections.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::network) struct OwnQuota {
    pub quota_us: f64,
    pub period_us: f64,
}

impl OwnQuota {
    pub fn cpus(&self) -> f64 {
        self.quota_us / self.period_us
    }
}

/// Packet limit in force, and its effect in the interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::network) struct Limiting {
    /// Whether received packets are limited.
    pub received: bool,
    /// Whether sent packets are limited.
    pub sent: bool,
    pub counts: PacketCounts,
}

/// Packets that passed a limit or were dropped by it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::network) struct PacketCounts {
    pub rx_passed: u64,
    pub rx_dropped: u64,
    pub tx_passed: u64,
    pub tx_dropped: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_times_by_cpu_the_sum_counts() {
        let by_cpu_ns = vec![200.0, 400.0];
        let mut billed = BilledInterval {
            all_ns: 600.0,
            by_cpu_ns,
        };
        assert_eq!(billed.on(&[1]), 400.0);
        billed.by_cpu_ns.clear();
        assert_eq!((billed.on(&[1]), billed.known_on(&[1])), (600.0, 0.0));
    }
}
