//! Cost of the accounting, and accuracy of its ledgers.
//!
//! The cost is goodput on ÷ off, under a 64-byte UDP flood and under one TCP stream on a plain veth
//! pair. Periods with the accounting off, exact and sampled take turns, each round in random order.
//! The kernel's own run-time statistics cost about 25 ns a run, so they are on only in a separate
//! period. For the accuracy see `accuracy.rs`.

mod accuracy;
pub(crate) mod args;
mod batches;
pub mod data;
mod flow;
pub(crate) mod goals;
mod options;
mod overhead;
pub(crate) mod report;
mod terminal;
mod traffic;

pub use options::Options;

use crate::accounting::data::{AccountingResult, LoadShape};
use crate::error::BenchError;
use crate::experiment::{CPU_OPTIONS, Rig, RigOptions};
use crate::progress::Progress;
use crate::run::{Kind, RunResult};
use crate::rundir::RunDir;

/// Runs the experiment.
///
/// # Errors
/// [`BenchError::Unsupported`] if this host cannot run the accounting.
pub fn run(options: &Options, progress: &mut dyn Progress) -> Result<RunDir, BenchError> {
    options.check()?;
    let rig_options = RigOptions {
        kind: Kind::Accounting,
        quick: options.quick,
        output: options.output.clone(),
        victim_cpu: options.victim_cpu,
        peer_cpu: options.peer_cpu,
        placed_by: Some(CPU_OPTIONS),
        seed: options.seed,
        // The experiment starts and stops the accounting itself, period by period.
        ledger: false,
        resumes: false,
    };
    // First of all, so that a host without accounting gets no run directory.
    drop(overhead::start(false)?);
    let mut rig = Rig::new(rig_options, progress)?;
    let mut result = AccountingResult::default();
    let outcome = measure(&mut rig, options, &mut result);
    rig.close(Some(RunResult::Accounting(result)), outcome)
}

fn measure(
    rig: &mut Rig<'_>,
    options: &Options,
    result: &mut AccountingResult,
) -> Result<(), BenchError> {
    for load in [LoadShape::Flood64, LoadShape::TcpStream] {
        overhead::measure(rig, options, load, result)?;
        rig.dir.result(&RunResult::Accounting(result.clone()))?;
    }
    accuracy::measure(rig, options, result)
}
