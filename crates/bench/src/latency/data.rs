//! Results of `bench latency`: accuracy, coverage and cost of the measurement.

use crate::data::Estimate;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Part of `bench latency`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LatencyExperiment {
    /// Reports against the stamps of both ends.
    Truth,
    /// Delays added on purpose.
    Injection,
    /// Container against host.
    Bias,
    /// Reports ÷ packets.
    Coverage,
    /// Cost of the measurement for the measured containers, and time of each program.
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
    /// Case of the experiment.
    pub case: String,
    /// Number of the block, from 0.
    pub round: u32,
    /// Measured values, microseconds.
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
    /// Time between the outer stamp and the report's start: median and largest, microseconds.
    pub before_us: (f64, f64),
    /// Time between the report's end and the outer stamp: median and largest, microseconds.
    pub after_us: (f64, f64),
}

/// Known delay inside or outside the measured path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct InjectionRow {
    /// `inside` or `outside`.
    pub place: String,
    /// Mean injected delay, microseconds.
    pub injected_us: f64,
    /// Growth of the reports (egress + ingress), block by block, microseconds.
    pub seen_us: Estimate,
    /// Largest deviation from the expected growth that reaches the goal, microseconds.
    pub goal_us: f64,
}

/// Round trips from a container and from the host at the same time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BiasRow {
    /// Neighbours that ping as fast as they can.
    pub load: u32,
    /// From the container, as its process sees it; medians of blocks.
    pub raw_us: Estimate,
    /// From the container, without the time that the container adds.
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
    /// Whether the other direction had the same load at the same time.
    #[serde(default)]
    pub both_ways: bool,
    /// Requested packets a second; `None` for as fast as possible.
    pub asked_per_s: Option<f64>,
    /// Measured packets a second.
    pub packets_per_s: f64,
    /// Packets.
    pub packets: u64,
    /// Reports; segments count one by one.
    pub reports: u64,
    /// reports ÷ packets, percent.
    pub coverage_pct: f64,
    /// Packets without a report, by reason.
    pub misses: BTreeMap<String, u64>,
    /// Reports that were overwritten before they were read.
    pub lost: u64,
}

/// Effect of the measurement on the measured traffic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PerturbationRow {
    /// `off`, `idle`, `no match`, `on (queue)`, `on (send)`, `idle (device)`, `on (device)`, `empty
    /// at devices` or `ftrace`.
    pub state: String,
    /// Median round trip, block by block.
    pub rtt_us: Estimate,
    /// Each block minus the adjacent `off` block, µs; the median of each round.
    pub added_us: Estimate,
    /// UDP datagrams that one sender can send, a second.
    pub packets_per_s: Estimate,
}

/// Cost of one program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LatencyProgramRow {
    /// Name of the program.
    pub name: String,
    /// Runs in the measured period.
    pub runs: u64,
    /// Mean run time, nanoseconds, without the time of the statistics.
    pub ns_per_run: f64,
}

/// Result of a latency run. The list of an experiment that has not run is empty.
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
    /// Cost for the measured containers.
    pub perturbation: Vec<PerturbationRow>,
    /// Cost of each program.
    pub programs: Vec<LatencyProgramRow>,
    /// Memory of all maps, bytes.
    pub memory_bytes: Option<u64>,
}
