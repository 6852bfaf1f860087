//! Options of `bench reservation`.

use crate::reservation::data::{
    NeighbourLimit, Neighbours, ReservationPolicy, ReservationRuntime, Target,
};
use std::path::PathBuf;

/// Options with their defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Fewer cells with shorter samples; default no.
    pub quick: bool,
    /// The run directory; default `runs/<UTC time>-reservation`.
    pub output: Option<PathBuf>,
    /// Rounds, each of which measures every policy once; at least 1, default 5.
    pub rounds: u32,
    /// Length of a sample without neighbours, seconds; default 2, 1 when `quick`.
    pub seconds: Option<f64>,
    /// Whole CPUs that the target requests; default half of the host's.
    pub cpus: Option<u32>,
    /// Threads of a batch target, each number a condition; empty: two for each CPU that it
    /// requests.
    pub threads: Vec<u32>,
    /// Numbers of neighbours, each a condition; empty: one.
    pub neighbour_counts: Vec<u32>,
    /// Seed of orders and bootstrap; default 1.
    pub seed: u64,
    /// Runtime of target and neighbours; default this program.
    pub runtime: ReservationRuntime,
    /// Only these targets; empty: all.
    pub targets: Vec<Target>,
    /// Only these neighbours; empty: all.
    pub neighbours: Vec<Neighbours>,
    /// Only these limits; empty: all.
    pub limits: Vec<NeighbourLimit>,
    /// Only these policies (and `alone`); empty: all.
    pub policies: Vec<ReservationPolicy>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            quick: false,
            output: None,
            rounds: 5,
            seconds: None,
            cpus: None,
            threads: Vec::new(),
            neighbour_counts: Vec::new(),
            seed: 1,
            runtime: ReservationRuntime::Process,
            targets: Vec::new(),
            neighbours: Vec::new(),
            limits: Vec::new(),
            policies: Vec::new(),
        }
    }
}

impl Options {
    pub(crate) fn seconds(&self) -> f64 {
        self.seconds.unwrap_or(if self.quick { 1.0 } else { 2.0 })
    }

    /// Number of neighbours of the largest cell.
    pub(crate) fn most_neighbours(&self) -> u32 {
        self.neighbour_counts.iter().copied().max().unwrap_or(1)
    }

    /// Requested policies of the runtime, and `alone`.
    pub(crate) fn policies(&self) -> Vec<ReservationPolicy> {
        ReservationPolicy::ALL
            .iter()
            .copied()
            .filter(|p| {
                *p == ReservationPolicy::Alone
                    || self.policies.is_empty()
                    || self.policies.contains(p)
            })
            .filter(|p| p.is_of(self.runtime))
            .collect()
    }
}
