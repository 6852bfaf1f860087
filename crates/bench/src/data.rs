//! The data of a run: all that `cofferdam report` needs to render it again.
//!
//! A run directory holds `manifest.json` ([`Manifest`]), `samples.jsonl` (one [`Sample`] a
//! line; the demo's reservation in `reservations.jsonl`), `ledger.jsonl` (one [`LedgerRecord`] a line) and `result.json` ([`RunResult`]).
//! Every document and every line carries `schema`; a reader refuses a newer one by name.
//! Field names carry their units. An absent field means "not measured", never zero.

mod accounting;
#[macro_use]
mod cell;
mod agent;
mod dataplane;
mod estimate;
mod isolation;
mod judgement;
mod latency;
mod load;
mod reservation;

pub use accounting::{
    AccountingResult, AccuracyRow, ConservationRow, LoadShape, OverheadRow, PeriodSample,
    ProgramRow,
};
pub use agent::{
    AgentCostRow, AgentDuty, AgentExperiment, AgentResult, AgentSample, DiagnosisCostRow,
    SwitchCase, SwitchProgramRow,
};
pub use cell::{
    Cell, Direction, EVEN_SHARE_PCT, Interferer, Limit, Path, Protocol, Treatment, VictimKind,
};
pub use dataplane::{
    DataplaneCell, DataplaneExperiment, DataplaneResult, DataplaneRow, DataplaneSample,
    DataplaneService, EchoServer, SERVICE_P99_US, SERVICE_SHARE,
};
pub use estimate::{Estimate, FEWEST_BLOCKS, Interval};
pub use isolation::{
    CellKey, DISTURBING_STEAL, GeneratorKind, IsolationEnvironment, IsolationResult, IsolationRow,
    IsolationSample, IsolationTable, Level, Point, Protection, Resource, RuntimeKind, Scenario,
    TenantSample, Traced, counted,
};
pub use judgement::{Bound, Doubt, Judgement, Verdict};
pub use latency::{
    BiasRow, CoverageRow, InjectionRow, LatencyExperiment, LatencyProgramRow, LatencyResult,
    LatencySample, PerturbationRow, TruthRow,
};
pub(crate) use load::DEMO_RESERVATIONS;
pub use load::{DataError, RunData};
pub use reservation::{
    Entitled, NeighbourLimit, Neighbours, PolicyRow, ReservationCell, ReservationCellResult,
    ReservationPolicy, ReservationResult, ReservationSample, Target,
};

use cofferdam_types::{CpuTime, Ledger, Reason};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The schema that this build writes, and the newest that it reads.
pub const SCHEMA: u32 = 2;

/// What was run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// `cofferdam bench penalty`.
    Penalty,
    /// `cofferdam bench accounting`.
    Accounting,
    /// `cofferdam bench latency`.
    Latency,
    /// `cofferdam demo`.
    Demo,
    /// `cofferdam bench reservation`.
    Reservation,
    /// `cofferdam bench dataplane`.
    Dataplane,
    /// `cofferdam bench isolation`.
    Isolation,
    /// `cofferdam bench agent`.
    Agent,
}

impl Kind {
    /// The word used in directory names.
    pub fn label(self) -> &'static str {
        match self {
            Kind::Penalty => "penalty",
            Kind::Accounting => "accounting",
            Kind::Latency => "latency",
            Kind::Demo => "demo",
            Kind::Reservation => "reservation",
            Kind::Dataplane => "dataplane",
            Kind::Isolation => "isolation",
            Kind::Agent => "agent",
        }
    }
}

/// Where, when and how a run was made: `manifest.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Schema of the whole directory.
    pub schema: u32,
    /// What was run.
    pub kind: Kind,
    /// Version of Cofferdam.
    pub version: String,
    /// Git commit that the program was built from, `-dirty` appended when the tree had changes;
    /// `None` where the build did not know.
    pub commit: Option<String>,
    /// The command line, program first.
    pub command: Vec<String>,
    /// Whether the short grid was taken.
    pub quick: bool,
    /// Start, RFC 3339 in UTC.
    pub started: String,
    /// End; `None` while running, and for ever when it failed or was killed.
    pub finished: Option<String>,
    /// True when a signal ended it early: the samples so far are whole.
    pub interrupted: bool,
    /// `uname -r` and `-v`.
    pub kernel: String,
    /// CPU model name.
    pub cpu_model: String,
    /// Online CPUs.
    pub cpus: u32,
    /// Vulnerability → mitigation, as the kernel words it.
    pub mitigations: BTreeMap<String, String>,
    /// `hybrid`, `v2` or `v1`.
    pub cgroup_layout: String,
    /// CPU that victim, competitor and softirq share.
    pub victim_cpu: u32,
    /// CPU that the peer's load generator ran on.
    pub peer_cpu: u32,
    /// Seed of the order of runs, the corpora and the bootstrap.
    pub seed: u64,
    /// Noise seen before the start, and what to do about it.
    pub warnings: Vec<String>,
    /// Other work or the hypervisor had the CPUs before the start: no goal is judged by what was
    /// measured.
    #[serde(default)]
    pub is_busy: bool,
}

/// What ran beside the victim in one sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Nothing.
    Alone,
    /// The equally entitled competitor computes: the baseline.
    Compute,
    /// The equally entitled competitor receives or sends traffic: the test.
    Traffic,
}

/// Packets and bytes a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rate {
    /// Datagrams a second (UDP), or write/read calls a second (TCP).
    pub packets_per_s: f64,
    /// Payload bytes a second.
    pub bytes_per_s: f64,
}

impl std::ops::Add for Rate {
    type Output = Rate;

    fn add(self, other: Rate) -> Rate {
        Rate {
            packets_per_s: self.packets_per_s + other.packets_per_s,
            bytes_per_s: self.bytes_per_s + other.bytes_per_s,
        }
    }
}

/// Round-trip times of the `rpc` victim, microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Answered requests.
    pub requests: u64,
    /// Requests without an answer within a second.
    pub lost: u64,
    /// Median.
    pub p50_us: f64,
    /// 90th percentile.
    pub p90_us: f64,
    /// 99th percentile.
    pub p99_us: f64,
    /// 99.9th percentile.
    pub p999_us: f64,
    /// Slowest.
    pub max_us: f64,
}

/// Where a softirq fraction was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SoftirqSource {
    /// The accounting's per-CPU clock: exact.
    Ledger,
    /// `/proc/stat`: sampled at the timer tick, so rough.
    ProcStat,
}

/// One run of a victim: a line of `samples.jsonl` in penalty and demo runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Schema of this line.
    pub schema: u32,
    /// End of the sample, RFC 3339 in UTC.
    pub time: String,
    /// [`Cell::id`] of its cell.
    pub cell: String,
    /// Number of the pair within the cell, from 0.
    pub pair: u32,
    /// Place within the pair, from 0: shows the order that was drawn.
    pub position: u32,
    /// What ran beside the victim.
    pub role: Role,
    /// What was done against the competitors' network CPU; `vanilla` in every baseline.
    #[serde(default)]
    pub treatment: Treatment,
    /// Wall-clock time the victim took for its fixed work, seconds.
    pub elapsed_s: f64,
    /// CPU time the scheduler billed the victim for it, seconds.
    pub victim_cpu_s: f64,
    /// Checksum of the victim's answer: equal in all samples of a cell.
    pub checksum: String,
    /// Round-trip times; only for the `rpc` victim.
    pub latency: Option<Latency>,
    /// Share of the victim's CPU spent in softirq, 0 to 1.
    pub softirq_fraction: Option<f64>,
    /// Where `softirq_fraction` comes from.
    pub softirq_source: Option<SoftirqSource>,
    /// Share of the victim's CPU that the hypervisor took, 0 to 1.
    pub steal_fraction: Option<f64>,
    /// What the generator sent; `None` without traffic.
    pub offered: Option<Rate>,
    /// What arrived; `None` without traffic.
    pub received: Option<Rate>,
    /// The same once the victim has ended and nobody else wants the CPU.
    pub received_idle: Option<Rate>,
}

/// One container's part of a [`LedgerRecord`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LedgerContainer {
    /// Name of the container.
    pub name: String,
    /// Path of its cgroup.
    pub cgroup_path: String,
    /// Its counts within the sample.
    pub ledger: Ledger,
    /// caused − charged, nanoseconds.
    pub owed_ns: i64,
    /// CPU use + owed, nanoseconds.
    pub corrected_cpu_ns: i64,
    /// Network CPU it caused on each CPU, nanoseconds, in the order of `cpus`.
    pub caused_by_cpu_ns: Vec<u64>,
    /// Network CPU charged to it on each CPU, nanoseconds.
    pub charged_by_cpu_ns: Vec<u64>,
}

/// One CPU's part of a [`LedgerRecord`].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LedgerCpu {
    /// Number of the CPU.
    pub cpu: u32,
    /// Its measured time within the sample.
    pub time: CpuTime,
}

/// The ledger over one sample: a line of `ledger.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LedgerRecord {
    /// Schema of this line.
    pub schema: u32,
    /// End of the interval, RFC 3339 in UTC.
    pub time: String,
    /// Its length, seconds.
    pub interval_s: f64,
    /// [`Cell::id`] (penalty, demo) or the load's name (accounting).
    pub cell: String,
    /// Number of the pair (penalty, demo) or period (accounting).
    pub pair: u32,
    /// What ran beside the victim; `None` in accounting runs.
    pub role: Option<Role>,
    /// What was done against the competitors' network CPU.
    #[serde(default)]
    pub treatment: Treatment,
    /// Per-CPU measured time.
    pub cpus: Vec<LedgerCpu>,
    /// Every container that caused, was charged or used CPU.
    pub containers: Vec<LedgerContainer>,
    /// Time that belongs to no container, by reason, nanoseconds.
    pub unattributed_ns: BTreeMap<Reason, u64>,
    /// |attributed − measured| ÷ measured since the accounting started, worst CPU, percent.
    pub conservation_error_pct: f64,
}

/// What is compared between test and baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Completion time of fixed work, seconds.
    ElapsedS,
    /// 99th percentile of round-trip time, microseconds.
    P99Us,
}

/// The outcome of one cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellResult {
    /// What was measured.
    pub cell: Cell,
    /// What is compared.
    pub metric: Metric,
    /// The victim alone; only where it was measured (demo).
    pub alone: Option<Estimate>,
    /// Beside the compute competitor.
    pub baseline: Estimate,
    /// Beside the traffic.
    pub test: Estimate,
    /// Test ÷ baseline, pair by pair: the penalty factor.
    pub penalty: Estimate,
    /// Median share of the victim's CPU in softirq during the test, 0 to 1.
    pub softirq_fraction: Option<f64>,
    /// Where it was read.
    pub softirq_source: Option<SoftirqSource>,
    /// 1/(1 − softirq fraction): the penalty that equal shares alone would explain.
    pub predicted: Option<f64>,
    /// Median offered rate during the test.
    pub offered: Option<Rate>,
    /// Median received rate during the test.
    pub received: Option<Rate>,
    /// Median share of one CPU that the competitor caused in network work during the test.
    pub offender_caused_fraction: Option<f64>,
    /// Median share of one CPU in network work charged to the victim during the test.
    pub victim_charged_fraction: Option<f64>,
    /// The competitors' corrected CPU use during the test, as a share of one CPU.
    #[serde(default)]
    pub offender_corrected_fraction: Option<f64>,
    /// The same test with something done against it, in the order of [`Treatment`].
    #[serde(default)]
    pub treated: Vec<TreatedResult>,
}

/// The test of a cell under one treatment, judged against the same baselines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TreatedResult {
    /// Which.
    pub treatment: Treatment,
    /// Beside the traffic.
    pub test: Estimate,
    /// Test ÷ baseline, pair by pair.
    pub penalty: Estimate,
    /// Received rate ÷ that of the vanilla test of the same pair.
    pub goodput_kept: Option<Estimate>,
    /// The same after the victim's end, while nobody else wants the CPU and the means are still in
    /// place.
    pub idle_goodput_kept: Option<Estimate>,
    /// Median share of the victim's CPU in softirq, 0 to 1.
    pub softirq_fraction: Option<f64>,
    /// Median received rate.
    pub received: Option<Rate>,
    /// The competitors' corrected CPU use, as a share of one CPU.
    pub offender_corrected_fraction: Option<f64>,
    /// Median share of one CPU in network work charged to the victim.
    pub victim_charged_fraction: Option<f64>,
}

/// The outcome of a penalty run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PenaltyResult {
    /// What made the containers; absent: the benchmark itself, of namespaces and cgroups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub containers_by: Option<String>,
    /// Every cell with at least one whole pair, in the order measured.
    pub cells: Vec<CellResult>,
    /// Cells that could not be measured, with the reason.
    pub failed: BTreeMap<String, String>,
}

/// The outcome of the demo.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DemoResult {
    /// The one cell, with `alone` filled in.
    pub cell: CellResult,
    /// Name of the container that caused the most network CPU.
    pub offender: Option<String>,
    /// Name of the victim's container.
    pub victim: String,
    /// The last flood sample's ledger.
    pub ledger: Option<LedgerRecord>,
    /// Who harmed whom, in words.
    pub sentence: String,
    /// A CPU reservation beside busy neighbours; `None` where this host cannot reserve, and in
    /// runs of earlier versions.
    pub reservation: Option<ReservationCellResult>,
}

/// `result.json`: medians and intervals.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResultFile {
    /// Schema of this document.
    pub schema: u32,
    /// What the outcome proves, goal by goal. A report judges again, by the rule of its own version.
    #[serde(default)]
    pub goals: Vec<Judgement>,
    /// The outcome.
    #[serde(flatten)]
    pub result: RunResult,
}

/// The outcome by kind of run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum RunResult {
    /// Of `bench penalty`.
    Penalty(PenaltyResult),
    /// Of `bench accounting`.
    Accounting(AccountingResult),
    /// Of `bench latency`.
    Latency(LatencyResult),
    /// Of `demo`.
    Demo(Box<DemoResult>),
    /// Of `bench reservation`.
    Reservation(ReservationResult),
    /// Of `bench dataplane`.
    Dataplane(DataplaneResult),
    /// Of `bench isolation`.
    Isolation(IsolationResult),
    /// Of `bench agent`.
    Agent(AgentResult),
}
