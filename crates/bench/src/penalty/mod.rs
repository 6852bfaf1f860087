//! The penalty experiment: how much longer a victim takes beside traffic than beside an equally
//! entitled compute job (Iron, NSDI'18, section 2).
//!
//! Victim and competitor share one CPU with equal weights. Baseline: the competitor computes.
//! Test: it receives, with softirq steered to that CPU, or sends; the other end runs on another
//! CPU. Baseline and test alternate within each pair, in random order, so that
//! drift of the host hits both alike.

pub(crate) mod args;
pub mod data;
pub(crate) mod goals;
mod grid;
mod options;
pub(crate) mod report;

pub use grid::cells;
pub use options::{Filter, Options};

use crate::data::{Cell, CellResult, Role, Treatment};
use crate::error::BenchError;
use crate::experiment::{Bench, Context, PLACED_BY, Rig, RigOptions, cell_result, same_answers};
use crate::penalty::data::PenaltyResult;
use crate::progress::Progress;
use crate::run::{Kind, RunResult};
use crate::rundir::RunDir;
use crate::topology::MadeBy;

/// Runs the grid. Returns the written directory; when interrupted or failed, what was measured
/// until then stays in it.
pub fn run(options: &Options, progress: &mut dyn Progress) -> Result<RunDir, BenchError> {
    let cells = cells(options)?;
    let rig_options = RigOptions {
        kind: Kind::Penalty,
        quick: options.quick,
        output: options.output.clone(),
        victim_cpu: options.victim_cpu,
        peer_cpu: options.peer_cpu,
        placed_by: Some(PLACED_BY),
        seed: options.seed,
        ledger: options.ledger,
    };
    let mut rig = Rig::new(rig_options, progress)?;
    let mut result = PenaltyResult {
        containers_by: (options.made_by == MadeBy::Podman).then(|| "podman".to_owned()),
        ..PenaltyResult::default()
    };
    let outcome = measure_all(&mut rig, &cells, options, &mut result);
    rig.close(Some(RunResult::Penalty(result)), outcome)
}

/// A cell that fails for its own reasons does not end the run, unless all do.
fn measure_all(
    rig: &mut Rig<'_>,
    cells: &[Cell],
    options: &Options,
    result: &mut PenaltyResult,
) -> Result<(), BenchError> {
    let mut failure = None;
    for (i, cell) in cells.iter().enumerate() {
        rig.check()?;
        rig.progress.step(i, cells.len(), &cell.id);
        match measure(rig, cell, options) {
            Ok(outcome) => result.cells.extend(outcome),
            Err(e) if concerns_one_cell(&e) => {
                rig.warn(&format!("{}: {e}", cell.id))?;
                result.failed.insert(cell.id.clone(), e.to_string());
                failure.get_or_insert(e);
            }
            Err(e) => return Err(e),
        }
        rig.dir.result(&RunResult::Penalty(result.clone()))?;
    }
    rig.progress.step(cells.len(), cells.len(), "done");
    match failure {
        Some(e) if result.cells.is_empty() => Err(e),
        _ => Ok(()),
    }
}

fn concerns_one_cell(error: &BenchError) -> bool {
    matches!(error, BenchError::Worker { .. } | BenchError::Lab(_))
}

fn measure(
    rig: &mut Rig<'_>,
    cell: &Cell,
    options: &Options,
) -> Result<Option<CellResult>, BenchError> {
    let bench = Bench::new(
        rig,
        cell,
        options.victim_seconds(),
        options.segmentation_offload,
        options.made_by,
        options.trace.as_deref(),
    )?;
    let mut measured = Vec::new();
    for pair in 0..options.pairs {
        let mut turns = vec![
            (Role::Compute, Treatment::Vanilla),
            (Role::Traffic, Treatment::Vanilla),
        ];
        turns.extend(options.treatments.iter().map(|t| (Role::Traffic, *t)));
        rig.random.shuffle(&mut turns);
        for (position, (role, treatment)) in (0..).zip(turns) {
            measured.push(bench.sample(rig, role, treatment, pair, position)?);
        }
    }
    if !same_answers(&measured) {
        rig.warn(&format!(
            "{}: the victim's answer differed between samples: do not trust its times",
            cell.id
        ))?;
    }
    let context = Context {
        cell,
        victim_cpu: rig.victim_cpu,
        competitor_paths: bench.competitor_paths(),
        victim_path: bench.victim_path(),
        seed: rig.seed,
    };
    Ok(cell_result(&context, &measured))
}
