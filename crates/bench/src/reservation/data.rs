//! Results of `bench reservation`: a container with a reservation next to neighbours, under several
//! policies.

use crate::data::{Estimate, Latency};
use crate::run::{RunData, RunSamples};
use serde::{Deserialize, Serialize};

/// File of the samples of the demo's reservation.
pub(crate) const DEMO_RESERVATIONS: &str = "reservations.jsonl";

/// Work of the target container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    /// Fixed amount of integer work in phases. All threads meet at a barrier after each phase, as
    /// in streamcluster.
    Batch,
    /// Batch work with a working set larger than the private caches.
    BatchMemory,
    /// Real batch program: xz compresses text in several threads.
    Xz,
    /// One thread that wakes a thousand times a second and works a little.
    Wakeups,
    /// memcached with requests at a fixed rate.
    Memcached,
}
labels!(Target {
    Batch => "batch", BatchMemory => "batch-memory", Xz => "xz", Wakeups => "wakeups",
    Memcached => "memcached",
});

impl Target {
    /// Whether the target is judged by its latency, not by its completion time.
    pub fn is_interactive(self) -> bool {
        matches!(self, Target::Wakeups | Target::Memcached)
    }
}

/// Work of the neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Neighbours {
    /// Integer work in registers.
    Cpu,
    /// Walks through memory larger than the caches.
    Memory,
}
labels!(Neighbours { Cpu => "cpu", Memory => "memory" });

/// Limit of the neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NeighbourLimit {
    /// A quota limits them to their request.
    Capped,
    /// They may also use idle CPU time.
    Burstable,
}
labels!(NeighbourLimit { Capped => "capped", Burstable => "burstable" });

/// Way in which the target gets its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReservationPolicy {
    /// Baseline without neighbours.
    Alone,
    /// Weights and quotas, as the runtimes set them.
    None,
    /// Request of one and a half times the size.
    Scaled,
    /// Request and threads of one and a half times the size.
    ScaledThreads,
    /// Pod with a request and no limit: CFS shares.
    Shares,
    /// Pod with a request and an equal limit: CFS shares and a quota.
    Limits,
    /// Pod with exclusive CPUs of the kubelet's static CPU manager.
    CpuManager,
    /// CPUs of its own that are not lent.
    Strict,
    /// CPUs of its own that are lent while idle.
    Lending,
}
labels!(ReservationPolicy {
    Alone => "alone", None => "none", Scaled => "scaled", ScaledThreads => "scaled-threads",
    Shares => "shares", Limits => "limits", CpuManager => "cpu-manager", Strict => "strict",
    Lending => "lending",
});

impl ReservationPolicy {
    /// Text for tables.
    pub fn words(self) -> &'static str {
        match self {
            ReservationPolicy::Alone => "alone",
            ReservationPolicy::None => "no policy",
            ReservationPolicy::Scaled => "request × 1.5",
            ReservationPolicy::ScaledThreads => "request and threads × 1.5",
            ReservationPolicy::Shares => "CFS shares",
            ReservationPolicy::Limits => "CFS shares and limit",
            ReservationPolicy::CpuManager => "static CPU manager",
            ReservationPolicy::Strict => "strict",
            ReservationPolicy::Lending => "strict + lending",
        }
    }

    /// Whether target and neighbours of `runtime` can have this policy.
    pub fn is_of(self, runtime: ReservationRuntime) -> bool {
        use ReservationPolicy::{CpuManager, Limits, None, Scaled, ScaledThreads, Shares};
        match self {
            None | Scaled | ScaledThreads => runtime == ReservationRuntime::Process,
            Shares | Limits | CpuManager => runtime == ReservationRuntime::Kubernetes,
            _ => true,
        }
    }
}

/// Runtime of target and neighbours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReservationRuntime {
    /// This program, with cgroups of its own.
    #[default]
    Process,
    /// Pods on this host, a cluster's node, made through the API server.
    Kubernetes,
}
labels!(ReservationRuntime { Process => "process", Kubernetes => "kubernetes" });

/// CPU entitlement of the target and its losses by cause, in CPUs. `T` is the figure of one sample,
/// or an estimate over samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Entitlements<T> {
    /// CPUs that its weight and quota, or its reservation, promise.
    pub entitled_cpus: T,
    /// Lost to others that ran where the target waited.
    pub forced_sharing_cpus: T,
    /// Lost while CPUs that the target could not use were idle.
    pub phantom_cpus: T,
    /// Lost to its own quota.
    pub throttled_cpus: T,
    /// Lost because it had no runnable thread.
    pub lack_cpus: T,
}

impl<T> Entitlements<T> {
    /// Texts for [`Entitlements::losses`], in the same order.
    pub const CAUSES: [&'static str; 4] = [
        "forced sharing",
        "phantom CPU time",
        "throttled",
        "lack of threads",
    ];

    /// Losses by cause.
    pub fn losses(&self) -> [&T; 4] {
        [
            &self.forced_sharing_cpus,
            &self.phantom_cpus,
            &self.throttled_cpus,
            &self.lack_cpus,
        ]
    }
}

/// Condition: a target and its neighbours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReservationCell {
    /// `TARGET/NEIGHBOURS/LIMIT`, unique within a run. If numbers are varied, `/COUNTxTHREADS`
    /// follows, of the neighbours and of the target.
    pub id: String,
    /// The judged target.
    pub target: Target,
    /// The neighbours.
    pub neighbours: Neighbours,
    /// Limit of the neighbours.
    pub limit: NeighbourLimit,
    /// CPUs that the target requests.
    pub reserved_cpus: f64,
    /// CPUs that all neighbours together request.
    pub neighbour_cpus: f64,
    /// Threads of the target.
    pub threads: u32,
    /// Number of neighbours; all request the same.
    #[serde(default = "one")]
    pub neighbour_count: u32,
    /// Threads of each neighbour.
    pub neighbour_threads: u32,
    /// Runtime of target and neighbours.
    #[serde(default)]
    pub runtime: ReservationRuntime,
}

/// Number of neighbours in runs that did not record it.
fn one() -> u32 {
    1
}

/// One run of the target: a line of `samples.jsonl` in reservation runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReservationSample {
    /// Schema of this line.
    pub schema: u32,
    /// End of the sample, RFC 3339 in UTC.
    pub time: String,
    /// [`ReservationCell::id`].
    pub cell: String,
    /// The policy.
    pub policy: ReservationPolicy,
    /// Number of the round, from 0: each policy is measured once a round.
    pub round: u32,
    /// Position within the round, from 0: shows the drawn order.
    pub position: u32,
    /// Wall-clock time of the work (batch) or of the measurement (interactive), seconds.
    pub elapsed_s: f64,
    /// CPU time of the target in that time, seconds.
    pub cpu_s: f64,
    /// `cpu_s` ÷ (`elapsed_s` × CPUs requested by the cell).
    pub cpu_got: f64,
    /// Delay of its wake-ups (wakeups) or answers (memcached); `None` for batch targets.
    pub latency: Option<Latency>,
    /// Share of the host's CPU time that was not idle, 0 to 1.
    pub host_utilisation: f64,
    /// CPU time of the neighbours in that time, seconds.
    pub neighbour_cpu_s: f64,
    /// Number of times a CPU was lent in that time.
    pub lendings: u64,
    /// Entitlement and losses; `None` if the diagnosis cannot run.
    pub entitled: Option<Entitlements<f64>>,
    /// Checksum of the work; `None` for interactive targets.
    pub checksum: Option<String>,
    /// Phases of the work, the same in all parts of a run; `None` for interactive targets.
    #[serde(default)]
    pub phases: Option<u64>,
}

impl ReservationSample {
    /// Samples of a reservation run, or of the demo's reservation; empty for other experiments.
    pub fn of(run: &RunData) -> &[ReservationSample] {
        match &run.samples {
            RunSamples::Reservation(samples) => samples,
            RunSamples::Demo(samples) => &samples.reservations,
            _ => &[],
        }
    }
}

/// Results of one policy in one cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PolicyRow {
    /// The policy.
    pub policy: ReservationPolicy,
    /// Completion time, seconds; only for batch targets.
    pub elapsed_s: Option<Estimate>,
    /// 99th percentile of the latency, microseconds; only for interactive targets.
    pub p99_us: Option<Estimate>,
    /// Completion time or p99 ÷ that of `alone` in the same round.
    pub to_alone: Option<Estimate>,
    /// CPU got ÷ CPU requested.
    pub cpu_got: Estimate,
    /// Share of the host's CPU time that was not idle, 0 to 1.
    pub host_utilisation: Estimate,
    /// Entitlement and losses; `None` if the diagnosis cannot run.
    pub entitled: Option<Entitlements<Estimate>>,
}

/// Result of one cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReservationCellResult {
    /// The cell.
    pub cell: ReservationCell,
    /// Results by policy, in the order of [`ReservationPolicy::ALL`].
    pub rows: Vec<PolicyRow>,
}

impl ReservationCellResult {
    /// Result under `policy`.
    pub fn row(&self, policy: ReservationPolicy) -> Option<&PolicyRow> {
        self.rows.iter().find(|row| row.policy == policy)
    }

    /// Result with weights and quotas alone, as runtimes set them: the baseline of a reservation.
    pub fn without(&self) -> Option<&PolicyRow> {
        let none = self.row(ReservationPolicy::None);
        none.or_else(|| self.row(ReservationPolicy::Limits))
    }
}

/// Result of a reservation run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReservationResult {
    /// Every cell with at least one complete round, in the order of measurement.
    pub cells: Vec<ReservationCellResult>,
    /// Cells that could not be measured, with the reason.
    pub failed: std::collections::BTreeMap<String, String>,
}
