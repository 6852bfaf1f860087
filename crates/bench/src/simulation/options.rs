//! Options of `bench simulation`.

use std::path::PathBuf;

/// Options with their defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Every kind of case once or twice, with shorter samples; default no.
    pub quick: bool,
    /// The run directory; default `runs/<UTC time>-simulation`.
    pub output: Option<PathBuf>,
    /// Rounds, each of which measures every case once; at least 1, default 5.
    pub rounds: u32,
    /// Length of a sample, seconds; default 3, 2 when `quick`.
    pub seconds: Option<f64>,
    /// Only the cases whose names begin with one of these; empty: all.
    pub cases: Vec<String>,
    /// Seed of orders, simulations and bootstrap; default 1.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            quick: false,
            output: None,
            rounds: 5,
            seconds: None,
            cases: Vec::new(),
            seed: 1,
        }
    }
}

impl Options {
    pub(super) fn seconds(&self) -> f64 {
        self.seconds.unwrap_or(if self.quick { 2.0 } else { 3.0 })
    }
}
