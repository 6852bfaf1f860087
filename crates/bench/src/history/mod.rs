//! Cost of the agent's history: bytes after 30 days, CPU time of an append, and time of a read.
//!
//! The counts are synthetic, from a seed. A month of them takes minutes: intervals that only the
//! coarser tiers still contain are appended at their resolution. These are minutes for 29 days,
//! tens of seconds for 23 hours, and seconds for the last hour. The store then has as many frames
//! in each tier as after 30 days of seconds.

pub(crate) mod args;
pub mod data;
pub(crate) mod goals;
mod measure;
pub(crate) mod report;
mod synthetic;
mod terminal;

use crate::error::BenchError;
use crate::experiment::{Rig, RigOptions};
use crate::history::data::{HistoryCase, HistoryResult};
use crate::progress::Progress;
use crate::run::{Kind, RunResult};
use crate::rundir::RunDir;
use std::path::PathBuf;

/// Most containers; no host has more.
const MOST_CONTAINERS: u32 = 10_000;

/// Options with their defaults.
#[derive(Clone, Debug)]
pub struct Options {
    /// Two days instead of 30.
    pub quick: bool,
    /// The run directory; default `runs/<UTC time>-history`.
    pub output: Option<PathBuf>,
    /// Containers, 1 to 10,000.
    pub containers: u32,
    /// Seed of the counts and of the bootstrap.
    pub seed: u64,
}

impl Options {
    fn days(&self) -> u32 {
        if self.quick { 2 } else { 30 }
    }
}

/// Fills a store for each case, and reads it.
pub fn run(options: &Options, progress: &mut dyn Progress) -> Result<RunDir, BenchError> {
    if !(1..=MOST_CONTAINERS).contains(&options.containers) {
        return Err(BenchError::Usage(format!(
            "--containers {}: give 1 to {MOST_CONTAINERS}",
            options.containers
        )));
    }
    let plain = RigOptions::plain(
        Kind::History,
        options.quick,
        options.output.clone(),
        options.seed,
    );
    let mut rig = Rig::new(plain, progress)?;
    rig.use_all_cpus();
    let mut result = HistoryResult::default();
    let mut outcome = Ok(());
    for (at, case) in HistoryCase::ALL.iter().enumerate() {
        rig.progress
            .step(at, HistoryCase::ALL.len(), &case.to_string());
        match measure::case(&mut rig, options, *case) {
            Ok(row) => result.rows.push(row),
            Err(e) => {
                outcome = Err(e);
                break;
            }
        }
        rig.dir.result(&RunResult::History(result.clone()))?;
    }
    rig.close(Some(RunResult::History(result)), outcome)
}
