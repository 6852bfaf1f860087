//! What `bench reservation` measured: a container with a reservation beside neighbours, under
//! several policies.

use crate::data::{Estimate, Latency};
use crate::run::{RunData, RunSamples};
use serde::{Deserialize, Serialize};

/// File of the samples of the demo's reservation.
pub(crate) const DEMO_RESERVATIONS: &str = "reservations.jsonl";

/// What the target container does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    /// A fixed amount of integer work in phases: all threads meet at a barrier after each, as in
    /// streamcluster.
    Batch,
    /// The same with a working set larger than the private caches.
    BatchMemory,
    /// A real batch program: xz compresses text in several threads.
    Xz,
    /// One thread that wakes a thousand times a second and works a little.
    Wakeups,
    /// memcached, asked at a fixed rate.
    Memcached,
}
labels!(Target { Batch => "batch", BatchMemory => "batch-memory", Xz => "xz", Wakeups => "wakeups", Memcached => "memcached" });

impl Target {
    /// Judged by its latency, not by when it is done.
    pub fn is_interactive(self) -> bool {
        matches!(self, Target::Wakeups | Target::Memcached)
    }
}

/// What the neighbours do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Neighbours {
    /// Integer work in registers.
    Cpu,
    /// Walks through memory larger than the caches.
    Memory,
}
labels!(Neighbours { Cpu => "cpu", Memory => "memory" });

/// Whether the neighbours may use more than they requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NeighbourLimit {
    /// No: a quota holds them to their request.
    Capped,
    /// Yes, what others leave.
    Burstable,
}
labels!(NeighbourLimit { Capped => "capped", Burstable => "burstable" });

/// How the target gets its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReservationPolicy {
    /// No neighbours at all: what the others are compared with.
    Alone,
    /// Weights and quotas, as the runtimes set them.
    None,
    /// A request half as large again.
    Scaled,
    /// A request half as large again, and as many more threads.
    ScaledThreads,
    /// A pod with a request and no limit: CFS shares.
    Shares,
    /// A pod with a request and a limit of as much: CFS shares and a quota.
    Limits,
    /// A pod with exclusive CPUs of the kubelet's static CPU manager.
    CpuManager,
    /// CPUs of its own, not lent.
    Strict,
    /// CPUs of its own, lent while it leaves them idle.
    Lending,
}
labels!(ReservationPolicy {
    Alone => "alone", None => "none", Scaled => "scaled", ScaledThreads => "scaled-threads",
    Shares => "shares", Limits => "limits", CpuManager => "cpu-manager", Strict => "strict",
    Lending => "lending",
});

impl ReservationPolicy {
    /// Words for tables.
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

    /// Whether target and neighbours of `runtime` can be under it.
    pub fn is_of(self, runtime: ReservationRuntime) -> bool {
        use ReservationPolicy::{CpuManager, Limits, None, Scaled, ScaledThreads, Shares};
        match self {
            None | Scaled | ScaledThreads => runtime == ReservationRuntime::Process,
            Shares | Limits | CpuManager => runtime == ReservationRuntime::Kubernetes,
            _ => true,
        }
    }
}

/// What makes target and neighbours.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ReservationRuntime {
    /// This program: cgroups of its own.
    #[default]
    Process,
    /// Pods of the cluster's node that this is, made through the API server.
    Kubernetes,
}
labels!(ReservationRuntime { Process => "process", Kubernetes => "kubernetes" });

/// What became of the CPU that the target was entitled to, in CPUs: what it ran and, by cause, what
/// it did not get. `T` is a figure of one sample, or an estimate over samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Entitled<T> {
    /// What its weight and quota, or its reservation, promised it.
    pub entitled_cpus: T,
    /// Lost to others that ran where it waited.
    pub forced_sharing_cpus: T,
    /// Lost while CPUs were idle that it could not use.
    pub phantom_cpus: T,
    /// Lost to its own quota.
    pub throttled_cpus: T,
    /// Lost for want of a thread that could run.
    pub lack_cpus: T,
}

impl<T> Entitled<T> {
    /// Words for [`Entitled::losses`], in that order.
    pub const CAUSES: [&'static str; 4] = [
        "forced sharing",
        "phantom CPU time",
        "throttled",
        "lack of threads",
    ];

    /// What was lost, by cause.
    pub fn losses(&self) -> [&T; 4] {
        [
            &self.forced_sharing_cpus,
            &self.phantom_cpus,
            &self.throttled_cpus,
            &self.lack_cpus,
        ]
    }
}

/// One condition: a target and its neighbours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReservationCell {
    /// `TARGET/NEIGHBOURS/LIMIT`, and `/COUNTxTHREADS` (of the neighbours and of the target) where
    /// these are varied; unique within a run.
    pub id: String,
    /// What is judged.
    pub target: Target,
    /// What runs beside it.
    pub neighbours: Neighbours,
    /// Whether that is capped.
    pub limit: NeighbourLimit,
    /// CPUs that the target has requested.
    pub reserved_cpus: f64,
    /// CPUs that the neighbours have requested, all together.
    pub neighbour_cpus: f64,
    /// Threads of the target.
    pub threads: u32,
    /// Neighbours, which have requested the same each.
    #[serde(default = "one")]
    pub neighbour_count: u32,
    /// Threads of each neighbour.
    pub neighbour_threads: u32,
    /// What made them.
    #[serde(default)]
    pub runtime: ReservationRuntime,
}

/// Neighbours of a run that was written before they were counted.
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
    /// Place within the round, from 0: shows the order that was drawn.
    pub position: u32,
    /// Wall-clock time of the work (batch) or of the measurement (interactive), seconds.
    pub elapsed_s: f64,
    /// CPU time of the target meanwhile, seconds.
    pub cpu_s: f64,
    /// `cpu_s` ÷ (`elapsed_s` × CPUs requested by the cell).
    pub cpu_got: f64,
    /// How late it woke (wakeups) or was answered (memcached); `None` for batch targets.
    pub latency: Option<Latency>,
    /// Share of the host's CPU time that was not idle, 0 to 1.
    pub host_utilisation: f64,
    /// CPU time of the neighbours meanwhile, seconds.
    pub neighbour_cpu_s: f64,
    /// Times a CPU was lent meanwhile.
    pub lendings: u64,
    /// Where the rest of its CPU went; `None` where the diagnosis cannot run.
    pub entitled: Option<Entitled<f64>>,
    /// Checksum of the work; `None` for interactive targets.
    pub checksum: Option<String>,
    /// Phases of the work, the same in all parts of a run; `None` for interactive targets.
    #[serde(default)]
    pub phases: Option<u64>,
}

impl ReservationSample {
    /// Those of a reservation run or of the demo's reservation; none in another experiment's.
    pub fn of(run: &RunData) -> &[ReservationSample] {
        match &run.samples {
            RunSamples::Reservation(samples) => samples,
            RunSamples::Demo(kept) => &kept.reservations,
            _ => &[],
        }
    }
}

/// One policy in one cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PolicyRow {
    /// Which.
    pub policy: ReservationPolicy,
    /// Completion time, seconds; only batch.
    pub elapsed_s: Option<Estimate>,
    /// 99th percentile of the latency, microseconds; only interactive.
    pub p99_us: Option<Estimate>,
    /// Completion time or p99 ÷ that of `alone` in the same round.
    pub to_alone: Option<Estimate>,
    /// CPU got ÷ CPU requested.
    pub cpu_got: Estimate,
    /// Share of the host's CPU time that was not idle, 0 to 1.
    pub host_utilisation: Estimate,
    /// Where the rest of its CPU went; `None` where the diagnosis cannot run.
    pub entitled: Option<Entitled<Estimate>>,
}

/// The outcome of one cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReservationCellResult {
    /// What was measured.
    pub cell: ReservationCell,
    /// The policies, in the order of [`ReservationPolicy::ALL`].
    pub rows: Vec<PolicyRow>,
}

impl ReservationCellResult {
    /// Under `policy`.
    pub fn row(&self, policy: ReservationPolicy) -> Option<&PolicyRow> {
        self.rows.iter().find(|row| row.policy == policy)
    }

    /// With weights and quotas alone, as runtimes set them: what a reservation is compared with.
    pub fn without(&self) -> Option<&PolicyRow> {
        let none = self.row(ReservationPolicy::None);
        none.or_else(|| self.row(ReservationPolicy::Limits))
    }
}

/// The outcome of a reservation run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReservationResult {
    /// Every cell with at least one whole round, in the order measured.
    pub cells: Vec<ReservationCellResult>,
    /// Cells that could not be measured, with the reason.
    pub failed: std::collections::BTreeMap<String, String>,
}
