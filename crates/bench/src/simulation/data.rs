//! Results of `bench simulation`: tenants on this host, and the same tenants simulated.

use crate::data::Estimate;
use crate::run::{RunData, RunSamples};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Work of a tenant's threads.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// Computes all the time.
    Spin,
    /// Computes for `run_us` of CPU time, then sleeps for `sleep_us`.
    Periodic {
        /// CPU time of a run, microseconds.
        run_us: u32,
        /// Length of a sleep, microseconds.
        sleep_us: u32,
    },
}

/// Policy of a case's reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReservationMode {
    /// No reservation.
    Standard,
    /// Reserved CPUs that are not lent.
    Strict,
    /// Reserved CPUs that are lent while idle.
    StrictLending,
}

/// One tenant of a case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CaseTenant {
    /// `target`, or `n1`, `n2`, ….
    pub name: String,
    /// `cpu.weight`; `cpu.shares` in the same ratio.
    pub weight: u32,
    /// Quota in CPUs; `None`: no quota.
    pub quota_cpus: Option<f64>,
    /// CPU that its cpuset allows, as an index of the online ones; `None`: all.
    pub pinned: Option<usize>,
    /// Number of CPUs that are reserved for it.
    pub reserved_cpus: Option<u32>,
    /// Number of threads.
    pub threads: u32,
    /// Work of each thread.
    pub work: Work,
}

/// Condition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SimulationCase {
    /// Id, unique within a run.
    pub id: String,
    /// Policy of its reservations.
    #[serde(rename = "kept")]
    pub reservation: ReservationMode,
    /// Tenants that run.
    pub tenants: Vec<CaseTenant>,
}

/// One measurement of one case: a line of `samples.jsonl` in simulation runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SimulationSample {
    /// Schema of this line.
    pub schema: u32,
    /// End of the sample, RFC 3339 in UTC.
    pub time: String,
    /// [`SimulationCase::id`].
    pub case: String,
    /// Number of the round, from 0.
    pub round: u32,
    /// Length of the sample, seconds.
    pub elapsed_s: f64,
    /// CPU time of each tenant, seconds.
    pub cpu_s: Vec<f64>,
    /// Idle time of all CPUs, seconds.
    pub idle_s: f64,
    /// CPU time of processes outside the tenants, seconds.
    pub foreign_s: f64,
    /// CPU time that the hypervisor took, seconds.
    pub steal_s: f64,
    /// CPU time that the tenants could not use because of others, seconds: steal, and foreign time
    /// beyond the idle time of the simulation.
    pub taken_s: f64,
    /// Whether `taken_s` is so large that the sample does not count.
    pub disturbed: bool,
}

impl SimulationSample {
    /// Samples of a simulation run; empty for another experiment.
    pub fn of(run: &RunData) -> &[SimulationSample] {
        match &run.samples {
            RunSamples::Simulation(samples) => samples,
            _ => &[],
        }
    }

    /// Share of each tenant in the CPU time that was available to the tenants, 0 to 1.
    pub fn shares(&self) -> Vec<f64> {
        let used: f64 = self.cpu_s.iter().sum();
        let all = used + self.idle_s + self.foreign_s + self.steal_s - self.taken_s;
        self.cpu_s.iter().map(|s| s / all.max(1e-9)).collect()
    }
}

/// One tenant, measured and simulated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TenantRow {
    /// [`CaseTenant::name`].
    pub name: String,
    /// Measured share of the CPU time that was available to the tenants, 0 to 1.
    pub measured: Estimate,
    /// Simulated share, for the seed of each round.
    pub simulated: Estimate,
}

/// Result of one case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SimulationCaseResult {
    /// The case.
    pub case: SimulationCase,
    /// Results by tenant, in the order of the case.
    pub rows: Vec<TenantRow>,
    /// Largest difference of a tenant's share in each round, percent of the host.
    pub difference_pct: Estimate,
    /// CPU time that the tenants could not use, percent of the host.
    pub taken_pct: Estimate,
    /// Number of disturbed samples that were measured again.
    pub repeated: u32,
    /// Number of samples that count although every attempt was disturbed.
    pub disturbed: u32,
}

impl SimulationCaseResult {
    /// Tenant whose share differs most, by the medians.
    pub fn most_different(&self) -> Option<&TenantRow> {
        let apart = |r: &TenantRow| (r.measured.median - r.simulated.median).abs();
        let by = |a: &&TenantRow, b: &&TenantRow| apart(a).total_cmp(&apart(b));
        self.rows.iter().max_by(by)
    }
}

/// Result of a simulation run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SimulationResult {
    /// Every case with a complete round, in the order of measurement.
    pub cases: Vec<SimulationCaseResult>,
    /// Cases that could not be measured, with the reason.
    pub failed: BTreeMap<String, String>,
}
