//! Options of `bench penalty`.

use crate::data::{Direction, Interferer, Limit, Path, Treatment, VictimIn, VictimKind};
use crate::topology::MadeBy;
use std::path::PathBuf;
use std::time::Duration;

/// Options with their defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// The short grid with short victims; default no.
    pub quick: bool,
    /// The run directory; default `runs/<UTC time>-penalty`. One with the same plan is resumed.
    pub output: Option<PathBuf>,
    /// Pairs of baseline and test for each cell, at least 1; default 5.
    pub pairs: u32,
    /// Most attempts at a pair that the hypervisor disturbs; default 1.
    pub attempts: u32,
    /// Time after which the run stops; the next call with the same output resumes. Default never.
    pub stop_after: Option<Duration>,
    /// Time of the victim's work without competitors, seconds; default 2, 0.5 when `quick`.
    pub victim_seconds: Option<f64>,
    /// CPU of victim, competitor and softirq; default the lowest online one.
    pub victim_cpu: Option<u32>,
    /// CPU of the peer; default the next one on another core.
    pub peer_cpu: Option<u32>,
    /// Seed of orders, corpora and bootstrap; default 1.
    pub seed: u64,
    /// Whether to write a ledger of each sample, if the host can; default yes.
    pub ledger: bool,
    /// Whether TCP senders may hand over segments larger than a packet; default no. Packets come
    /// off a wire one by one, and veth would otherwise hide their cost.
    pub segmentation_offload: bool,
    /// Runtime of the containers; default this program.
    pub made_by: MadeBy,
    /// Shuffle trace (CSV `start_ms,flow,bytes`); default the built-in one.
    pub trace: Option<PathBuf>,
    /// Treatments to measure in the same pairs as `vanilla`; default none.
    pub treatments: Vec<Treatment>,
    /// Cells of the grid to measure.
    pub filter: Filter,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            quick: false,
            output: None,
            pairs: 5,
            attempts: 1,
            stop_after: None,
            victim_seconds: None,
            victim_cpu: None,
            peer_cpu: None,
            seed: 1,
            ledger: true,
            segmentation_offload: false,
            made_by: MadeBy::Ourselves,
            trace: None,
            treatments: Vec::new(),
            filter: Filter::default(),
        }
    }
}

impl Options {
    pub(crate) fn victim_seconds(&self) -> f64 {
        self.victim_seconds
            .unwrap_or(if self.quick { 0.5 } else { 2.0 })
    }
}

/// Filter of cells: a cell must match every list; an empty list matches all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    /// Complete ids ([`crate::data::Cell::id`]).
    pub ids: Vec<String>,
    /// Victims.
    pub victims: Vec<VictimKind>,
    /// Interferers.
    pub interferers: Vec<Interferer>,
    /// Directions.
    pub directions: Vec<Direction>,
    /// Paths.
    pub paths: Vec<Path>,
    /// Numbers of flows.
    pub flows: Vec<u32>,
    /// Datagram payloads or TCP write sizes, bytes.
    pub payloads_bytes: Vec<u32>,
    /// HTB rates, Gbit/s.
    pub htb_gbit_per_s: Vec<f64>,
    /// The victim's shares of the CPU, percent.
    pub victim_shares_pct: Vec<u32>,
    /// Means by which the CPU is divided.
    pub limits: Vec<Limit>,
    /// Numbers of competing containers.
    pub offenders: Vec<u32>,
    /// Places of the victim.
    pub victims_in: Vec<VictimIn>,
}
