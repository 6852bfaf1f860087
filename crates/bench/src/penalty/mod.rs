//! Penalty experiment: how much longer a victim takes next to traffic than next to an equally
//! entitled compute job (Iron, NSDI'18, section 2).
//!
//! Victim and competitor share one CPU with equal weights. In the baseline the competitor computes.
//! In the test it sends, or it receives with softirq steered to that CPU; the other end runs on
//! another CPU. Baseline and test alternate within each pair, in random order, so that drift of the
//! host affects both alike.

pub(crate) mod args;
pub mod data;
mod export;
pub(crate) mod goals;
mod grid;
mod options;
pub(crate) mod plan;
pub(crate) mod report;
mod session;

pub use grid::cells;
pub use options::{Filter, Options};

use crate::error::BenchError;
use crate::experiment::{CPU_OPTIONS, Rig, RigOptions};
use crate::progress::Progress;
use crate::run::{Kind, RunResult};
use crate::rundir::RunDir;
use session::Session;

/// Runs the grid, or the rest of it in a directory with the same plan. Returns the written
/// directory. An interrupted or failed run leaves its samples there.
pub fn run(options: &Options, progress: &mut dyn Progress) -> Result<RunDir, BenchError> {
    let cells = cells(options)?;
    let rig_options = RigOptions {
        kind: Kind::Penalty,
        quick: options.quick,
        output: options.output.clone(),
        victim_cpu: options.victim_cpu,
        peer_cpu: options.peer_cpu,
        placed_by: Some(CPU_OPTIONS),
        seed: options.seed,
        ledger: options.ledger,
        resumes: true,
    };
    let mut rig = Rig::new(rig_options, progress)?;
    let (result, outcome) = match Session::open(&mut rig, &cells, options) {
        Ok(mut session) => {
            let outcome = session.measure(&cells);
            (Some(RunResult::Penalty(session.result)), outcome)
        }
        Err(e) => (None, Err(e)),
    };
    rig.close(result, outcome)
}
