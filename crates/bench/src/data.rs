//! Data that experiments share: cells, samples of a victim, ledgers, estimates, judgements.
//!
//! Every document and every line of a run directory has a `schema`; a reader refuses a newer one by
//! its number. Field names carry their units. An absent field means "not measured", never zero.

#[macro_use]
mod cell;
mod estimate;
mod judgement;

pub use cell::{
    Cell, Direction, EVEN_SHARE_PCT, Interferer, Limit, Path, Protocol, Treatment, VictimIn,
    VictimKind,
};
pub use estimate::{Estimate, FEWEST_BLOCKS, Interval};
pub use judgement::{Doubt, GoalBound, Judgement, Verdict};

use crate::run::{RunData, RunSamples};
use cofferdam_types::{CpuTime, Ledger, Reason};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Schema that this build writes, and the newest that it reads.
pub const SCHEMA: u32 = 2;

/// Work of the competitors during one sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// No competitor runs.
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

/// Source of a softirq fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SoftirqSource {
    /// Per-CPU clock of the accounting: exact.
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
    /// Number of earlier attempts at this pair: the calmest attempt counts.
    #[serde(default)]
    pub attempt: u32,
    /// Position within the pair, from 0: shows the drawn order.
    pub position: u32,
    /// Work of the competitors.
    pub role: Role,
    /// Treatment of the competitors' network CPU; `vanilla` in every baseline.
    #[serde(default)]
    pub treatment: Treatment,
    /// Wall-clock time of the victim's fixed work, seconds.
    pub elapsed_s: f64,
    /// CPU time that the scheduler charged to the victim, seconds.
    pub victim_cpu_s: f64,
    /// Checksum of the victim's answer: equal in all samples of a cell.
    pub checksum: String,
    /// Round-trip times; only for the `rpc` victim.
    pub latency: Option<Latency>,
    /// Share of the victim's CPU spent in softirq, 0 to 1.
    pub softirq_fraction: Option<f64>,
    /// Source of `softirq_fraction`.
    pub softirq_source: Option<SoftirqSource>,
    /// Share of the victim's CPU that the hypervisor took, 0 to 1.
    pub steal_fraction: Option<f64>,
    /// Rate of the generator; `None` without traffic.
    pub offered: Option<Rate>,
    /// Rate at the sink; `None` without traffic.
    pub received: Option<Rate>,
    /// Rate at the sink after the victim's end, when nothing else wants the CPU.
    pub received_idle: Option<Rate>,
    /// Network work that the competitors caused on the victim's CPU, as a share of it.
    #[serde(default)]
    pub offender_caused_fraction: Option<f64>,
    /// Corrected CPU use of the competitors, as a share of one CPU, without their network work on
    /// other CPUs than the victim's.
    #[serde(default)]
    pub offender_corrected_fraction: Option<f64>,
    /// Network work that was charged to the victim, as a share of its CPU.
    #[serde(default)]
    pub victim_charged_fraction: Option<f64>,
}

impl Sample {
    /// Samples of a penalty or demo run; empty for other experiments.
    pub fn of(run: &RunData) -> &[Sample] {
        match &run.samples {
            RunSamples::Penalty(samples) => &samples.samples,
            RunSamples::Demo(samples) => &samples.flood,
            _ => &[],
        }
    }
}

/// One container's part of a [`LedgerRecord`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LedgerContainer {
    /// Name of the container.
    pub name: String,
    /// Path of its cgroup.
    pub cgroup_path: String,
    /// Counts within the sample.
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
    /// Measured time within the sample.
    pub time: CpuTime,
}

/// Ledger of one sample: a line of `ledger.jsonl`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LedgerRecord {
    /// Schema of this line.
    pub schema: u32,
    /// End of the interval, RFC 3339 in UTC.
    pub time: String,
    /// Length of the interval, seconds.
    pub interval_s: f64,
    /// [`Cell::id`] (penalty, demo) or the load's name (accounting).
    pub cell: String,
    /// Number of the pair (penalty, demo) or period (accounting).
    pub pair: u32,
    /// Number of earlier attempts at this pair.
    #[serde(default)]
    pub attempt: u32,
    /// Work of the competitors; `None` in accounting runs.
    pub role: Option<Role>,
    /// Treatment of the competitors' network CPU.
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

/// Quantity that is compared between test and baseline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Completion time of fixed work, seconds.
    ElapsedS,
    /// 99th percentile of round-trip time, microseconds.
    P99Us,
}

/// Result of one cell.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CellResult {
    /// The cell.
    pub cell: Cell,
    /// Compared quantity.
    pub metric: Metric,
    /// Without competitors; only in the demo.
    pub alone: Option<Estimate>,
    /// Next to the compute competitor.
    pub baseline: Estimate,
    /// Next to the traffic.
    pub test: Estimate,
    /// Test ÷ baseline, pair by pair: the penalty factor.
    pub penalty: Estimate,
    /// Median share of the victim's CPU in softirq during the test, 0 to 1.
    pub softirq_fraction: Option<f64>,
    /// Source of `softirq_fraction`.
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
    /// Results of the same test under treatments, in the order of [`Treatment`].
    #[serde(default)]
    pub treated: Vec<TreatedResult>,
}

/// The test of a cell under one treatment, judged against the same baselines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TreatedResult {
    /// The treatment.
    pub treatment: Treatment,
    /// Next to the traffic.
    pub test: Estimate,
    /// Test ÷ baseline, pair by pair.
    pub penalty: Estimate,
    /// Received rate ÷ that of the vanilla test of the same pair.
    pub goodput_kept: Option<Estimate>,
    /// Like `goodput_kept`, after the victim's end: nothing else wants the CPU, and the treatment
    /// still runs.
    pub idle_goodput_kept: Option<Estimate>,
    /// Median share of the victim's CPU in softirq, 0 to 1.
    pub softirq_fraction: Option<f64>,
    /// Median received rate.
    pub received: Option<Rate>,
    /// The competitors' corrected CPU use, as a share of one CPU.
    pub offender_corrected_fraction: Option<f64>,
    /// Values of `offender_corrected_fraction`, pair by pair; absent in runs of earlier versions.
    #[serde(default)]
    pub offender_corrected: Option<Estimate>,
    /// Median share of one CPU in network work charged to the victim.
    pub victim_charged_fraction: Option<f64>,
}
