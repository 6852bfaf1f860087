//! Results of a simulation: schema `cofferdam.simulation/1`, the document of `simulate --json`.

use cofferdam_types::Entitlement;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Schema of [`SimulationReport`].
pub const SIMULATION: &str = "cofferdam.simulation/1";

/// Tenants on a host, simulated under one policy or several: the document of `simulate --json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SimulationReport {
    /// Always `cofferdam.simulation/1`.
    pub schema: String,
    /// CPUs of the simulated host.
    pub cpus: u64,
    /// Simulated and accounted time, seconds.
    pub duration_s: f64,
    /// Time simulated before that and not accounted, seconds.
    pub warm_up_s: f64,
    /// Seed of placements and bursts: the same inputs and seed give the same document.
    pub seed: u64,
    /// One for each policy.
    pub runs: Vec<SimulationRun>,
}

/// One policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SimulationRun {
    /// `standard`, `strict` or `strict-lending`.
    pub policy: String,
    /// Share of the CPUs' time that was not idle, 0 to 1.
    pub utilisation: f64,
    /// Idle time of all CPUs, nanoseconds. With `got_ns` of all tenants it adds up to CPUs × time.
    pub idle_ns: u64,
    /// Tenants in the order of the input.
    pub tenants: Vec<SimulatedTenant>,
    /// Reservations that do not fit; these tenants are standard.
    pub refused: Vec<RefusedRecord>,
}

/// CPU time of one tenant. The four losses add up to entitled_ns − got_ns if that is positive,
/// otherwise to 0; they mean the same as in the diagnosis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SimulatedTenant {
    /// Name of the tenant.
    pub name: String,
    /// Number of threads.
    pub threads: u64,
    /// Time that its threads would run if each had a CPU of its own (at most all CPUs),
    /// nanoseconds.
    pub demanded_ns: u64,
    /// Entitlement by the tenant's reservation, or by its weight among its competitors,
    /// nanoseconds.
    pub entitled_ns: u64,
    /// The basis of `entitled_ns`: `reserved`, `weight`, `quota` or `cpuset`.
    #[schemars(with = "String")]
    pub entitled_by: Entitlement,
    /// Run time of the tenant's threads, nanoseconds.
    pub got_ns: u64,
    /// Lost to forced runqueue sharing, nanoseconds.
    pub forced_sharing_ns: u64,
    /// Lost as phantom CPU time, nanoseconds.
    pub phantom_ns: u64,
    /// Lost to the tenant's own quota, nanoseconds.
    pub throttled_ns: u64,
    /// Lost for lack of a runnable thread, nanoseconds.
    pub lack_ns: u64,
    /// Runs that the threads completed, or phases that all of them completed.
    pub rounds: u64,
    /// Delay from waking up to running; null if no thread woke up.
    pub wakeup_delay: Option<DelayRecord>,
    /// Reservation; null if the tenant has none, or none that fits, or the policy is `standard`.
    pub reserved: Option<ReservedRecord>,
}

/// Delays of wake-ups.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DelayRecord {
    /// Number of wake-ups.
    pub count: u64,
    /// Median, microseconds.
    pub p50_us: f64,
    /// 90th percentile, microseconds.
    pub p90_us: f64,
    /// 99th percentile, microseconds.
    pub p99_us: f64,
    /// 99.9th percentile, microseconds.
    pub p999_us: f64,
    /// Longest, microseconds.
    pub max_us: f64,
}

/// A tenant's reservation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ReservedRecord {
    /// Reserved CPUs, whole and in part.
    pub cpus: f64,
    /// CPUs reserved for this tenant alone.
    pub own_cpus: Vec<u32>,
    /// CPU of the slice; null if there is none.
    pub slice_cpu: Option<u32>,
    /// Number of times that reserved CPUs were lent, the warm-up included.
    pub lendings: u64,
}

/// A reservation that does not fit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RefusedRecord {
    /// The tenant.
    pub name: String,
    /// Requested CPUs.
    pub asked_cpus: f64,
    /// CPUs that would fit; null if none are left.
    pub fits_cpus: Option<f64>,
}
