//! What `bench simulation` measured: tenants on this host, and the same tenants simulated.

use crate::data::Estimate;
use crate::run::{RunData, RunSamples};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What the threads of a tenant do.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Work {
    /// Compute all the time.
    Spin,
    /// Compute for `run_us` of CPU time, sleep for `sleep_us`.
    Periodic {
        /// Microseconds.
        run_us: u32,
        /// Microseconds.
        sleep_us: u32,
    },
}

/// How the reservation of a case is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kept {
    /// There is none.
    Standard,
    /// Not lent.
    Strict,
    /// Lent while idle.
    StrictLending,
}

/// One tenant of a case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CaseTenant {
    /// `target`, or `n1`, `n2`, ….
    pub name: String,
    /// `cpu.weight`; `cpu.shares` in the same ratio.
    pub weight: u32,
    /// CPUs of its quota, if it has one.
    pub quota_cpus: Option<f64>,
    /// The CPU that its cpuset allows, by its place among the online ones; `None`: all.
    pub pinned: Option<usize>,
    /// CPUs that are reserved for it.
    pub reserved_cpus: Option<u32>,
    /// Threads.
    pub threads: u32,
    /// What each does.
    pub work: Work,
}

/// One condition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SimulationCase {
    /// Unique within a run.
    pub id: String,
    /// How reservations are kept.
    pub kept: Kept,
    /// Who runs.
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
    /// Length, seconds.
    pub elapsed_s: f64,
    /// CPU time of each tenant, seconds.
    pub cpu_s: Vec<f64>,
    /// Idle time of all CPUs, seconds.
    pub idle_s: f64,
    /// CPU time of processes outside the tenants, seconds.
    pub foreign_s: f64,
    /// CPU time that the hypervisor took, seconds.
    pub steal_s: f64,
    /// What the tenants could not have for it, seconds: steal, and foreign time beyond what the
    /// tenants leave idle by the simulation.
    pub taken_s: f64,
    /// That is so much that the sample does not count.
    pub disturbed: bool,
}

impl SimulationSample {
    /// Those of a simulation run; none of another.
    pub fn of(run: &RunData) -> &[SimulationSample] {
        match &run.samples {
            RunSamples::Simulation(samples) => samples,
            _ => &[],
        }
    }

    /// Each tenant's part of the CPU time that there was for them, 0 to 1.
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
    /// Its part of the CPU time that there was for the tenants, measured, 0 to 1.
    pub measured: Estimate,
    /// The same, simulated, for the seed of each round.
    pub simulated: Estimate,
}

/// The outcome of one case.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SimulationCaseResult {
    /// What was measured and simulated.
    pub case: SimulationCase,
    /// In the order of the case.
    pub rows: Vec<TenantRow>,
    /// Of each round, the largest difference of a tenant's share, percent of the host.
    pub difference_pct: Estimate,
    /// CPU time that the tenants could not have, percent of the host.
    pub taken_pct: Estimate,
    /// Samples that were disturbed and measured again.
    pub repeated: u32,
    /// Samples that count although they were disturbed at every attempt.
    pub disturbed: u32,
}

impl SimulationCaseResult {
    /// The tenant whose share differs most, by the medians.
    pub fn most_different(&self) -> Option<&TenantRow> {
        let apart = |r: &TenantRow| (r.measured.median - r.simulated.median).abs();
        let by = |a: &&TenantRow, b: &&TenantRow| apart(a).total_cmp(&apart(b));
        self.rows.iter().max_by(by)
    }
}

/// The outcome of a simulation run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SimulationResult {
    /// Every case with a whole round, in the order measured.
    pub cases: Vec<SimulationCaseResult>,
    /// Cases that could not be measured, with the reason.
    pub failed: BTreeMap<String, String>,
}
