//! What is simulated: tenants with their cgroups and threads on a host, under a policy.

use crate::host::Host;
use cofferdam_types::CpuAmount;
use std::time::Duration;

/// What a thread does. Times are nanoseconds; a `run` is CPU time, never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// Computes all the time.
    CpuBound,
    /// Computes for `run_ns`, sleeps for `sleep_ns`, again and again.
    Periodic {
        /// CPU time of one round.
        run_ns: u64,
        /// Sleep after it.
        sleep_ns: u64,
    },
    /// As `Periodic`, both times drawn anew each round from exponential distributions.
    Bursts {
        /// Mean CPU time of one round.
        mean_run_ns: u64,
        /// Mean sleep after it.
        mean_sleep_ns: u64,
    },
    /// Computes for `run_ns`, then sleeps until all threads of its load have done so too: a
    /// parallel program with a barrier after each phase.
    Phases {
        /// CPU time of one thread in one phase.
        run_ns: u64,
    },
}

impl Behaviour {
    /// The part of a CPU that one thread wants.
    pub fn demand(&self) -> f64 {
        let part = |run: u64, sleep: u64| run as f64 / (run as f64 + sleep as f64);
        match *self {
            Behaviour::CpuBound | Behaviour::Phases { .. } => 1.0,
            Behaviour::Periodic { run_ns, sleep_ns } => part(run_ns, sleep_ns),
            Behaviour::Bursts {
                mean_run_ns,
                mean_sleep_ns,
            } => part(mean_run_ns, mean_sleep_ns),
        }
    }
}

/// Threads that do the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// How many.
    pub threads: u32,
    /// What each does.
    pub behaviour: Behaviour,
}

/// A CFS quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// CPU time a period, nanoseconds.
    pub quota_ns: u64,
    /// The period, nanoseconds.
    pub period_ns: u64,
}

impl Quota {
    /// In CPUs.
    pub fn cpus(&self) -> f64 {
        self.quota_ns as f64 / self.period_ns as f64
    }
}

/// The settings of one cgroup.
#[derive(Clone, Debug, PartialEq)]
pub struct Cgroup {
    /// Its name, unique among all.
    pub name: String,
    /// The cgroup above, by its place in [`Tenants::groups`]; `None`: the root.
    pub parent: Option<usize>,
    /// `cpu.weight`, 1 to 10000; default 100.
    pub weight: u32,
    /// `cpu.max`.
    pub quota: Option<Quota>,
    /// `cpuset.cpus`, by the CPUs' places in the host; `None`: all of the cgroup above.
    pub cpus: Option<Vec<usize>>,
}

/// A container: a cgroup with threads and nothing below it.
#[derive(Clone, Debug, PartialEq)]
pub struct Tenant {
    /// Its cgroup.
    pub cgroup: Cgroup,
    /// CPUs that a strict policy reserves.
    pub reserved: Option<CpuAmount>,
    /// Its threads.
    pub loads: Vec<Load>,
}

impl Tenant {
    /// All its threads.
    pub fn threads(&self) -> usize {
        self.loads.iter().map(|l| l.threads as usize).sum()
    }

    /// CPUs that its threads want.
    pub fn demand_cpus(&self) -> f64 {
        let one = |l: &Load| f64::from(l.threads) * l.behaviour.demand();
        self.loads.iter().map(one).sum()
    }
}

/// How reservations are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Not at all: weights, quotas and cpusets as they are.
    Standard,
    /// CPUs of their own.
    Strict,
    /// CPUs of their own, lent while their owner leaves them idle.
    StrictLending,
}

impl Policy {
    /// In the order in which they are compared.
    pub const ALL: [Policy; 3] = [Policy::Standard, Policy::Strict, Policy::StrictLending];

    /// Its name in commands and documents.
    pub fn label(self) -> &'static str {
        match self {
            Policy::Standard => "standard",
            Policy::Strict => "strict",
            Policy::StrictLending => "strict-lending",
        }
    }
}

/// Cgroups and tenants. Built by [`crate::input::tenants`], or by hand and then checked by
/// [`crate::input::check`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tenants {
    /// Cgroups without threads; a parent stands before its children.
    pub groups: Vec<Cgroup>,
    /// The containers.
    pub tenants: Vec<Tenant>,
}

/// One simulation.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario<'a> {
    /// Where.
    pub host: &'a Host,
    /// Who.
    pub tenants: &'a Tenants,
    /// How.
    pub policy: Policy,
    /// Time that is accounted, after [`WARM_UP`].
    pub duration: Duration,
    /// Seed of placements and bursts.
    pub seed: u64,
    /// CPUs that stay for standard tenants.
    pub keep_cpus: u32,
}

/// Simulated before anything is accounted: the balancer has then spread the threads.
pub const WARM_UP: Duration = Duration::from_secs(1);
