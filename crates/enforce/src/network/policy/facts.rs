//! What an interval brought, as plain values.

use super::correction::Standing;
use cofferdam_types::{CgroupId, Interval};
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::time::Duration;

/// A container that needs a look.
#[derive(Clone, Debug)]
pub(in crate::network) struct Active {
    pub cgroup: CgroupId,
    /// CPUs on which others pay for it, now.
    pub pressed_now: Vec<u32>,
    /// Those, and CPUs on which others paid a moment ago.
    pub pressed: Vec<u32>,
}

/// All that a decision is made from.
#[derive(Debug)]
pub(in crate::network) struct Facts<'a> {
    /// End of the interval.
    pub now: Duration,
    /// What the accounting measured.
    pub interval: &'a Interval,
    pub interruptions: InterruptionCosts,
    /// What the scheduler billed to `ksoftirqd` on each CPU of the time of those that ran before it, nanoseconds.
    pub late_ns: BTreeMap<u32, f64>,
    /// Weights of cgroups as they would be without corrections.
    pub weights: HashMap<PathBuf, f64>,
    /// A quota stops a NAPI thread as it stops a task.
    pub quota_stops_threads: bool,
    /// Of those that need a look.
    pub containers: Vec<ContainerFacts>,
}

/// What an interruption takes from the task that it meets, beyond what the ledger sees. It depends on the CPU: where a
/// timer interrupts, as behind a shaped queue, twice what another CPU's packets cost there (measured: 20 and 11 µs).
#[derive(Clone, Debug, Default)]
pub(in crate::network) struct InterruptionCosts {
    /// On each CPU where it was measured, nanoseconds.
    pub by_cpu_ns: BTreeMap<u32, f64>,
    /// On others, nanoseconds.
    pub elsewhere_ns: f64,
}

impl InterruptionCosts {
    /// The same on all CPUs, nanoseconds.
    pub fn everywhere(ns: f64) -> InterruptionCosts {
        InterruptionCosts {
            elsewhere_ns: ns,
            ..InterruptionCosts::default()
        }
    }

    /// On `cpu`, nanoseconds.
    pub fn on(&self, cpu: u32) -> f64 {
        self.by_cpu_ns
            .get(&cpu)
            .copied()
            .unwrap_or(self.elsewhere_ns)
    }
}

/// Idle time since the last look.
#[derive(Clone, Debug, Default)]
pub(in crate::network) struct IdleParts {
    /// How long ago that was.
    pub length: Duration,
    /// The part (0..=1) of it that each CPU was idle.
    pub by_cpu: BTreeMap<u32, f64>,
}

/// One container in an interval, and what is in force for it.
#[derive(Clone, Debug)]
pub(in crate::network) struct ContainerFacts {
    pub active: Active,
    /// A process of it lives; without one nothing may hold its cgroup.
    pub is_alive: bool,
    pub billed: Billed,
    /// CPU time of its NAPI threads, nanoseconds.
    pub napi_ns: u64,
    /// CPUs that it may use: the tightest quota of its cgroup and those above.
    pub quota_cpus: Option<f64>,
    /// Period of its own quota, or the kernel's default.
    pub quota_period: Duration,
    /// Its own quota; `None` where only a cgroup above has one.
    pub own_quota: Option<OwnQuota>,
    /// Its weight's file; `None` without a CPU controller.
    pub weight: Option<Standing>,
    /// Its quota's file.
    pub quota: Standing,
    pub limiting: Limiting,
}

impl ContainerFacts {
    /// Whether the means took something from it in the interval.
    pub fn is_held_back(&self) -> bool {
        let counts = self.limiting.counts;
        let lowered = self.weight.is_some_and(|weight| weight.is_lowered());
        lowered || counts.rx_dropped + counts.tx_dropped > 0
    }

    /// Whether more of its packets were dropped in the interval than passed: no stream goes on so.
    pub fn is_flooded(&self) -> bool {
        let counts = self.limiting.counts;
        counts.rx_dropped + counts.tx_dropped > counts.rx_passed + counts.tx_passed
    }
}

/// CPU time that the scheduler billed in an interval, nanoseconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::network) struct Billed {
    /// On all CPUs.
    pub all_ns: f64,
    /// On each CPU; empty where the kernel does not tell (pure cgroup v2).
    pub by_cpu_ns: Vec<f64>,
}

impl Billed {
    /// On the CPUs `cpus`; where the kernel does not tell, on all.
    pub fn on(&self, cpus: &[u32]) -> f64 {
        match self.by_cpu_ns.is_empty() {
            true => self.all_ns,
            false => self.known_on(cpus),
        }
    }

    /// On the CPUs `cpus`; where the kernel does not tell, 0.
    pub fn known_on(&self, cpus: &[u32]) -> f64 {
        let there = (0_u32..).zip(&self.by_cpu_ns);
        let there = there.filter(|(cpu, _)| cpus.contains(cpu));
        there.map(|(_, ns)| ns).sum()
    }
}

/// A container's own quota, corrections left out.
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

/// The limit on a container's packets that is in force, and what it did in the interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::network) struct Limiting {
    /// What it receives is limited.
    pub received: bool,
    /// What it sends is limited.
    pub sent: bool,
    pub counts: PacketCounts,
}

/// Packets that met a limit.
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
    fn without_figures_a_cpu_all_of_it_counts() {
        let by_cpu_ns = vec![200.0, 400.0];
        let mut billed = Billed {
            all_ns: 600.0,
            by_cpu_ns,
        };
        assert_eq!(billed.on(&[1]), 400.0);
        billed.by_cpu_ns.clear();
        assert_eq!((billed.on(&[1]), billed.known_on(&[1])), (600.0, 0.0));
    }
}
