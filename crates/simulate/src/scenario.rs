//! Input of a simulation: tenants with their cgroups and threads on a host, under a policy.

use crate::host::Host;
use cofferdam_types::CpuAmount;
use std::time::Duration;

/// Behaviour of a thread. Times are nanoseconds; a `run` is CPU time, never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// Computes all the time.
    CpuBound,
    /// Alternately computes for `run_ns` and sleeps for `sleep_ns`.
    Periodic {
        /// CPU time of one round.
        run_ns: u64,
        /// Sleep after each round.
        sleep_ns: u64,
    },
    /// Like `Periodic`, with both times drawn each round from exponential distributions.
    Bursts {
        /// Mean CPU time of one round.
        mean_run_ns: u64,
        /// Mean sleep after each round.
        mean_sleep_ns: u64,
    },
    /// Computes for `run_ns`, then sleeps until all threads of its load have done so: a parallel
    /// program with a barrier after each phase.
    Phases {
        /// CPU time of one thread in one phase.
        run_ns: u64,
    },
}

impl Behaviour {
    /// Part of a CPU that one thread wants.
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

/// Threads with the same behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Load {
    /// Number of threads.
    pub threads: u32,
    /// Behaviour of each thread.
    pub behaviour: Behaviour,
}

/// CFS quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// CPU time per period, nanoseconds.
    pub quota_ns: u64,
    /// Length of the period, nanoseconds.
    pub period_ns: u64,
}

impl Quota {
    /// Quota in CPUs.
    pub fn cpus(&self) -> f64 {
        self.quota_ns as f64 / self.period_ns as f64
    }
}

/// Settings of one cgroup.
#[derive(Clone, Debug, PartialEq)]
pub struct Cgroup {
    /// Name, unique among all cgroups.
    pub name: String,
    /// Index of the parent in [`Tenants::groups`]; `None`: the root.
    pub parent: Option<usize>,
    /// Value of `cpu.weight`, 1 to 10000; default 100.
    pub weight: u32,
    /// Value of `cpu.max`.
    pub quota: Option<Quota>,
    /// Value of `cpuset.cpus`, as indices of CPUs in the host; `None`: all of the parent's.
    pub cpus: Option<Vec<usize>>,
}

/// Container: a cgroup with threads and no child cgroups.
#[derive(Clone, Debug, PartialEq)]
pub struct Tenant {
    /// Cgroup of the tenant.
    pub cgroup: Cgroup,
    /// CPUs that a strict policy reserves.
    pub reserved: Option<CpuAmount>,
    /// Threads of the tenant.
    pub loads: Vec<Load>,
}

impl Tenant {
    /// Number of its threads.
    pub fn threads(&self) -> usize {
        self.loads.iter().map(|l| l.threads as usize).sum()
    }

    /// CPUs that its threads want.
    pub fn demand_cpus(&self) -> f64 {
        let one = |l: &Load| f64::from(l.threads) * l.behaviour.demand();
        self.loads.iter().map(one).sum()
    }
}

/// Policy for reservations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// No reservations: weights, quotas and cpusets stay as they are.
    Standard,
    /// Reserved CPUs.
    Strict,
    /// Reserved CPUs that are lent while their owner leaves them idle.
    StrictLending,
}

impl Policy {
    /// All policies in the order of comparison.
    pub const ALL: [Policy; 3] = [Policy::Standard, Policy::Strict, Policy::StrictLending];

    /// Name in commands and documents.
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
    /// Cgroups without threads; a parent precedes its children.
    pub groups: Vec<Cgroup>,
    /// Containers.
    pub tenants: Vec<Tenant>,
}

/// Input of one simulation.
#[derive(Clone, Debug, PartialEq)]
pub struct Scenario<'a> {
    /// Simulated host.
    pub host: &'a Host,
    /// Simulated tenants.
    pub tenants: &'a Tenants,
    /// Policy for reservations.
    pub policy: Policy,
    /// Accounted time after [`WARM_UP`].
    pub duration: Duration,
    /// Seed of placements and bursts.
    pub seed: u64,
    /// Number of CPUs that stay for standard tenants.
    pub keep_cpus: u32,
}

/// Simulated time before the accounting starts, in which the balancer spreads the threads.
pub const WARM_UP: Duration = Duration::from_secs(1);
