//! Results of `bench accounting`: the accounting's own cost and its accuracy.

use crate::data::{Estimate, Rate};
use serde::{Deserialize, Serialize};

/// Load under which the cost was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoadShape {
    /// One UDP flood of 64-byte datagrams; goodput in packets/s.
    Flood64,
    /// One TCP stream; goodput in bytes/s.
    TcpStream,
}

/// Programs that ran with the packets of a period.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Watch {
    /// The accounting measured everything.
    #[default]
    Exact,
    /// The accounting measured in windows, and estimated the time between them.
    Sampled,
    /// Empty programs at the tracepoints of the accounting.
    Nothing,
}

impl Watch {
    /// Text for tables.
    pub fn label(self) -> &'static str {
        match self {
            Watch::Exact => "exact",
            Watch::Sampled => "sampled",
            Watch::Nothing => "empty programs",
        }
    }
}

impl OverheadRow {
    /// Text of the load and of the programs that ran with it.
    pub fn label(&self) -> String {
        format!("{}, {}", self.load.label(), self.mode.label())
    }
}

impl LoadShape {
    /// Text for tables.
    pub fn label(self) -> &'static str {
        match self {
            LoadShape::Flood64 => "UDP flood, 64 bytes",
            LoadShape::TcpStream => "one TCP stream",
        }
    }

    /// Name in the data.
    pub fn id(self) -> &'static str {
        match self {
            LoadShape::Flood64 => "flood64",
            LoadShape::TcpStream => "tcp-stream",
        }
    }
}

/// Period with the accounting off, exact or sampled, or with empty programs: a line of
/// `samples.jsonl` in accounting runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PeriodSample {
    /// Schema of this line.
    pub schema: u32,
    /// End of the period, RFC 3339 in UTC.
    pub time: String,
    /// The load.
    pub load: LoadShape,
    /// Number of the round, from 0. Each treatment has one period in a round.
    pub pair: u32,
    /// Position within the round, from 0.
    pub position: u32,
    /// Whether the accounting ran.
    pub accounting: bool,
    /// Mode of the accounting, or the programs in its place.
    #[serde(default)]
    pub mode: Watch,
    /// Whether the kernel measured the programs (a period outside the comparison).
    pub measured_programs: bool,
    /// Length, seconds.
    pub seconds: f64,
    /// Rate of the generator.
    pub offered: Rate,
    /// Rate at the sink.
    pub received: Rate,
    /// Datagrams a second that the receiver's stack carried to the socket, whether read or dropped
    /// there; `None` for loads other than a flood.
    #[serde(default)]
    pub carried_packets_per_s: Option<f64>,
}

/// Cost of the accounting under one load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OverheadRow {
    /// The load.
    pub load: LoadShape,
    /// Mode of the accounting. `Sampled` measures in windows, as the agent does while no CPU is
    /// contended; `Nothing` runs as many empty programs.
    #[serde(default)]
    pub mode: Watch,
    /// Unit of `off` and `on`: `packets/s carried` (by the stack, to the socket), `packets/s read`
    /// (by the application) or `bytes/s`.
    pub unit: String,
    /// Goodput without the accounting.
    pub off: Estimate,
    /// Goodput with the accounting.
    pub on: Estimate,
    /// on ÷ off, round by round.
    pub ratio: Estimate,
    /// Smallest median ratio that reaches the goal; `None` for empty programs.
    pub goal: Option<f64>,
    /// BPF run time ÷ received packets, nanoseconds, without the time of the statistics; `None` if
    /// the kernel does not export it.
    pub bpf_ns_per_packet: Option<f64>,
    /// Time that the kernel's run-time statistics add to each run, nanoseconds: their figure for an
    /// empty program attached at the same time.
    #[serde(default)]
    pub statistics_ns_per_run: Option<f64>,
}

/// Cost of one BPF program under one load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProgramRow {
    /// The load.
    pub load: LoadShape,
    /// Program name.
    pub name: String,
    /// Runs within the measured period.
    pub runs: u64,
    /// Mean run time, nanoseconds, without the time of the statistics.
    pub ns_per_run: f64,
    /// Runs for each received packet.
    pub runs_per_packet: f64,
}

/// Conservation of the ledger under one load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConservationRow {
    /// Name of the load.
    pub load: String,
    /// softirq + hardirq + NAPI-thread + drain time, nanoseconds.
    pub measured_ns: u64,
    /// Σ caused + Σ unattributed, nanoseconds.
    pub attributed_ns: u64,
    /// |attributed − measured| ÷ measured of the worst CPU, percent.
    pub worst_cpu_error_pct: f64,
}

/// One case of the accuracy table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AccuracyRow {
    /// The case.
    pub case: String,
    /// Compared quantity (`caused b ÷ caused a`, `ns per packet`).
    pub quantity: String,
    /// Expected value.
    pub expected: f64,
    /// Value from the ledger.
    pub measured: f64,
    /// (measured − expected) ÷ expected, percent.
    pub error_pct: f64,
    /// 95% interval of `error_pct`, low and high; absent from runs before it was recorded.
    #[serde(default)]
    pub error_interval_pct: Option<[f64; 2]>,
}

impl AccuracyRow {
    /// Text of the error with its interval: `+1.2% [-0.5, +2.0]`.
    pub fn error(&self) -> String {
        match self.error_interval_pct {
            Some([low, high]) => format!("{:+.1}% [{low:+.1}, {high:+.1}]", self.error_pct),
            None => format!("{:+.1}%", self.error_pct),
        }
    }
}

/// Result of an accounting run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AccountingResult {
    /// Goodput with and without the accounting.
    pub overhead: Vec<OverheadRow>,
    /// Cost of each program.
    pub programs: Vec<ProgramRow>,
    /// Conservation of the ledger.
    pub conservation: Vec<ConservationRow>,
    /// Memory of the BPF maps, bytes.
    pub memory_bytes: Option<u64>,
    /// Accuracy of attribution.
    pub accuracy: Vec<AccuracyRow>,
}
