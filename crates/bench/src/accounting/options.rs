//! Options of `bench accounting`.

use crate::error::BenchError;
use std::path::PathBuf;

/// Options with their defaults.
#[derive(Clone, Debug, PartialEq)]
pub struct Options {
    /// Shorter periods; default no.
    pub quick: bool,
    /// The run directory; default `runs/<UTC time>-accounting`.
    pub output: Option<PathBuf>,
    /// Rounds of off, exact and sampled for each load, at least 1; default 21.
    pub pairs: u32,
    /// Length of a period, seconds; default 1, 0.5 when `quick`.
    pub period_seconds: Option<f64>,
    /// CPU that receives; default the lowest online one.
    pub victim_cpu: Option<u32>,
    /// CPU that sends; default the next one on another core.
    pub peer_cpu: Option<u32>,
    /// Seed of orders and bootstrap; default 1.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            quick: false,
            output: None,
            pairs: 21,
            period_seconds: None,
            victim_cpu: None,
            peer_cpu: None,
            seed: 1,
        }
    }
}

impl Options {
    pub(crate) fn period_s(&self) -> f64 {
        self.period_seconds
            .unwrap_or(if self.quick { 0.5 } else { 1.0 })
    }

    pub(crate) fn check(&self) -> Result<(), BenchError> {
        if self.pairs == 0 {
            return Err(BenchError::Usage(
                "--pairs 0 measures nothing: give at least 1".to_owned(),
            ));
        }
        if !(0.1..=60.0).contains(&self.period_s()) {
            return Err(BenchError::Usage(
                "a period must be between 100ms and 60s".to_owned(),
            ));
        }
        Ok(())
    }
}
