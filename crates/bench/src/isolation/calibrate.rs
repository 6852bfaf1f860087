//! Limits that depend on the host.

use super::bench::Bench;
use super::experiment::Experiment;
use super::levels::PARTS_OF_DISK;
use crate::error::BenchError;
use crate::isolation::data::{CellKey, Level, Protection, Resource, RuntimeKind, Scenario};
use crate::signals::Signals;
use crate::stats;
use std::path::Path;

/// Number of measurements; their median counts.
const ROUNDS: u32 = 3;

/// Measures a tenant's limit of block operations a second: a quarter of the rate of an unrestricted
/// process without neighbour, by O_DIRECT. The CPU limit is likewise a quarter of the host's CPUs.
pub(super) fn disk_iops(experiment: &Experiment, signals: &Signals) -> Result<f64, BenchError> {
    let key = CellKey {
        runtime: RuntimeKind::Process,
        protection: Protection::Vanilla,
        resource: Resource::Disk,
        scenario: Scenario {
            a: Level::Unrestricted,
            b: None,
        },
        repetition: 0,
    };
    let mut bench = Bench::new(experiment, &key, signals)?;
    let mut got = Vec::new();
    for _ in 0..ROUNDS {
        if signals.caught() {
            return Err(BenchError::Interrupted {
                dir: Path::new("").to_owned(),
            });
        }
        got.push(bench.cell(&key, 0)?.a.used);
    }
    Ok(stats::median(&got).unwrap_or(0.0) / PARTS_OF_DISK)
}
