//! What `bench latency` measured: is it true, is it whole, what does it cost.

use crate::data::Estimate;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A part of `bench latency`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LatencyExperiment {
    /// Reports against the stamps of both ends.
    Truth,
    /// Delays put in on purpose.
    Injection,
    /// Container against host.
    Bias,
    /// Reports ÷ packets.
    Coverage,
    /// What the measurement costs those it measures, and what each program takes.
    Perturbation,
}
labels!(LatencyExperiment {
    Truth => "truth", Injection => "injection", Bias => "bias", Coverage => "coverage",
    Perturbation => "perturbation",
});

/// Raw round trips: a line of `samples.jsonl` in latency runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatencySample {
    /// Schema of this line.
    pub schema: u32,
    /// End of the block, RFC 3339 in UTC.
    pub time: String,
    /// `injection`, `bias` or `perturbation`.
    pub experiment: String,
    /// Which of its cases.
    pub case: String,
    /// Number of the block, from 0.
    pub round: u32,
    /// What was measured, microseconds each.
    pub values_us: Vec<f64>,
}

/// Reports against the stamps of both ends: application ≤ start ≤ end ≤ peer, or the other way
/// round.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TruthRow {
    /// `icmp` or `udp`.
    pub protocol: String,
    /// `egress` or `ingress`.
    pub direction: String,
    /// Packets with all four stamps.
    pub packets: u64,
    /// Packets whose stamps are out of order.
    pub violations: u64,
    /// Between the outer stamp and the report's start: median and largest, microseconds.
    pub before_us: (f64, f64),
    /// Between the report's end and the outer stamp: median and largest, microseconds.
    pub after_us: (f64, f64),
}

/// A known delay inside or outside of the measured path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InjectionRow {
    /// `inside` or `outside`.
    pub place: String,
    /// Mean of what was injected, microseconds.
    pub injected_us: f64,
    /// How much longer the reports (egress + ingress) became, block by block.
    pub seen_us: Estimate,
    /// Largest difference from what should be seen that is good enough, microseconds.
    pub goal_us: f64,
}

/// Round trips from a container and from the host at the same time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BiasRow {
    /// Containers beside it that ping as fast as they can.
    pub load: u32,
    /// From the container, as its process saw it; medians of blocks.
    pub raw_us: Estimate,
    /// With the added part taken out.
    pub corrected_us: Estimate,
    /// From the host's namespace.
    pub host_us: Estimate,
    /// corrected − host, block by block.
    pub bias_us: Estimate,
    /// raw − host, block by block.
    pub raw_bias_us: Estimate,
    /// Round trips that could not be corrected.
    pub uncorrected: u64,
}

/// Reports ÷ packets at one rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CoverageRow {
    /// `icmp`, `udp` or `tcp`.
    pub protocol: String,
    /// `egress` or `ingress`.
    pub direction: String,
    /// The other direction was under the same load meanwhile.
    #[serde(default)]
    pub both_ways: bool,
    /// Packets a second that were asked for; `None` for as fast as it goes.
    pub asked_per_s: Option<f64>,
    /// Packets a second that there were.
    pub packets_per_s: f64,
    /// Packets.
    pub packets: u64,
    /// Reports, segments counted.
    pub reports: u64,
    /// reports ÷ packets, percent.
    pub coverage_pct: f64,
    /// Packets without a report, by reason.
    pub misses: BTreeMap<String, u64>,
    /// Reports written over before they were read.
    pub lost: u64,
}

/// What the measurement does to what it measures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PerturbationRow {
    /// `off`, `idle`, `no match`, `on (queue)`, `on (send)`, `idle (device)`, `on (device)`, `empty at devices` or `ftrace`.
    pub state: String,
    /// Median round trip, block by block.
    pub rtt_us: Estimate,
    /// Each block minus the one off beside it, µs; the median of each round.
    pub added_us: Estimate,
    /// UDP datagrams a second that a sender gets rid of.
    pub packets_per_s: Estimate,
}

/// Cost of one program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatencyProgramRow {
    /// Its name.
    pub name: String,
    /// Runs in the measured period.
    pub runs: u64,
    /// Mean run time, nanoseconds, the statistics' own time taken off.
    pub ns_per_run: f64,
}

/// The outcome of a latency run. A list is empty while its experiment has not run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencyResult {
    /// Timestamps of both ends.
    pub truth: Vec<TruthRow>,
    /// Injected delays.
    pub injection: Vec<InjectionRow>,
    /// Container against host.
    pub bias: Vec<BiasRow>,
    /// Reports ÷ packets.
    pub coverage: Vec<CoverageRow>,
    /// Cost to the measured.
    pub perturbation: Vec<PerturbationRow>,
    /// Cost of each program.
    pub programs: Vec<LatencyProgramRow>,
    /// Memory of all maps, bytes.
    pub memory_bytes: Option<u64>,
}
