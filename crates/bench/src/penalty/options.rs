//! What `bench penalty` is told.

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
    /// How often a pair is measured at most, while the hypervisor disturbs it; default 1.
    pub attempts: u32,
    /// End in order after this long; the next call with the same output resumes. Default never.
    pub stop_after: Option<Duration>,
    /// Time the victim's work takes alone, seconds; default 2, 0.5 when `quick`.
    pub victim_seconds: Option<f64>,
    /// CPU of victim, competitor and softirq; default the lowest online one.
    pub victim_cpu: Option<u32>,
    /// CPU of the peer; default the next one on another core.
    pub peer_cpu: Option<u32>,
    /// Seed of orders, corpora and bootstrap; default 1.
    pub seed: u64,
    /// Keep a ledger of each sample, where the host can; default yes.
    pub ledger: bool,
    /// Let TCP senders hand over segments larger than a packet; default no: packets come off a
    /// wire one by one, and veth would otherwise hide their cost.
    pub segmentation_offload: bool,
    /// What makes the containers; default this program itself.
    pub made_by: MadeBy,
    /// A shuffle trace (CSV `start_ms,flow,bytes`); default the built-in one.
    pub trace: Option<PathBuf>,
    /// What is measured beside `vanilla`, in the same pairs; default nothing.
    pub treatments: Vec<Treatment>,
    /// Which cells of the grid.
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

/// Keeps the cells that match every list; an empty list keeps all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Filter {
    /// Whole ids ([`crate::data::Cell::id`]).
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
    /// Means of limiting.
    pub limits: Vec<Limit>,
    /// Numbers of competing containers.
    pub offenders: Vec<u32>,
    /// Where the victim runs.
    pub victims_in: Vec<VictimIn>,
}
