//! What the accounting costs, and how well its ledgers fit.
//!
//! Cost: under a 64-byte UDP flood and under one TCP stream on a plain veth pair, periods with
//! the accounting off, exact and sampled take turns, each round in random order; goodput on ÷ off.
//! The kernel's own run-time statistics, which cost about 25 ns a run, are on only in a period
//! of their own. Accuracy: see `accuracy.rs`.

mod accuracy;
pub(crate) mod args;
pub mod data;
mod flow;
pub(crate) mod goals;
mod options;
mod overhead;
pub(crate) mod report;
mod terminal;
mod traffic;
mod turns;

pub use options::Options;

use crate::accounting::data::{AccountingResult, LoadShape};
use crate::error::BenchError;
use crate::experiment::{PLACED_BY, Rig, RigOptions};
use crate::progress::Progress;
use crate::run::{Kind, RunResult};
use crate::rundir::RunDir;

/// Runs the experiment. Exit code 3 when this host cannot run the accounting at all.
pub fn run(options: &Options, progress: &mut dyn Progress) -> Result<RunDir, BenchError> {
    options.check()?;
    let rig_options = RigOptions {
        kind: Kind::Accounting,
        quick: options.quick,
        output: options.output.clone(),
        victim_cpu: options.victim_cpu,
        peer_cpu: options.peer_cpu,
        placed_by: Some(PLACED_BY),
        seed: options.seed,
        // Switched on and off period by period instead.
        ledger: false,
        resumes: false,
    };
    // Before anything is written: a host that cannot account has no figures to give.
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
