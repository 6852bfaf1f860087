//! Reservation experiment: does a container get its reserved CPUs next to neighbours that want all
//! they can get ("Mind the Gap", SoCC'21, at this host's size)?
//!
//! A target container requests half of the host's CPUs, and neighbours the other half, as
//! Kubernetes writes it: by weight and quota. Each round measures every policy once in a random
//! order, with `alone` among them, so that drift of the host affects all alike.
//!
//! The containers are cgroups of this program, or pods of a cluster's node ([`ground`]). A kubelet
//! has one CPU manager: pods under another one are measured by a later part of the same run
//! ([`earlier_run`]).

mod analyse;
pub(crate) mod args;
mod cells;
mod containers;
pub mod data;
mod earlier_run;
pub(crate) mod goals;
mod ground;
mod measure;
mod options;
mod pods;
pub(crate) mod report;
mod terminal;
mod watch;

pub use options::Options;

use crate::error::BenchError;
use crate::experiment::{Rig, RigOptions};
use crate::host_facts;
use crate::progress::Progress;
use crate::reservation::data::{
    ReservationCellResult, ReservationResult, ReservationRuntime, ReservationSample,
};
use crate::run::{Kind, RunResult};
use crate::rundir::RunDir;
use cofferdam_lab::LabError;
use earlier_run::EarlierRun;
use measure::Bench;

/// Runs the conditions and returns the written directory. An interrupted or failed run leaves its
/// samples there.
pub fn run(options: &Options, progress: &mut dyn Progress) -> Result<RunDir, BenchError> {
    let online = host_facts::online_cpus();
    let cells = cells::cells(options, online.len() as u32)?;
    let resumes = options.runtime == ReservationRuntime::Kubernetes;
    let earlier = match &options.output {
        Some(path) if resumes => EarlierRun::of(path, &cells)?,
        _ => EarlierRun::default(),
    };
    let rig_options = RigOptions {
        kind: Kind::Reservation,
        quick: options.quick,
        output: options.output.clone(),
        // The highest CPU is reserved first: the driver stays off it.
        victim_cpu: online.last().copied(),
        peer_cpu: online.first().copied(),
        placed_by: None,
        seed: options.seed,
        ledger: false,
        resumes,
    };
    let mut rig = Rig::new(rig_options, progress)?;
    let mut result = earlier.result;
    let outcome = measure_all(&mut rig, &cells, options, &earlier.samples, &mut result);
    rig.close(Some(RunResult::Reservation(result)), outcome)
}

/// Measures one condition within another experiment's run; `None` without a complete round.
pub(crate) fn one(
    rig: &mut Rig<'_>,
    options: &Options,
) -> Result<Option<ReservationCellResult>, BenchError> {
    let online = host_facts::online_cpus();
    let cells = cells::cells(options, online.len() as u32)?;
    let Some(cell) = cells.first() else {
        return Ok(None);
    };
    let mut samples = Vec::new();
    Bench::new(options, rig)?.cell(rig, cell, &mut samples)?;
    Ok(analyse::cell(cell, &samples, rig.seed))
}

/// Measures all cells. A cell that fails for its own reasons does not end the run, unless all do.
fn measure_all(
    rig: &mut Rig<'_>,
    cells: &[crate::reservation::data::ReservationCell],
    options: &Options,
    earlier: &[ReservationSample],
    result: &mut ReservationResult,
) -> Result<(), BenchError> {
    let mut bench = Bench::new(options, rig)?;
    let mut failure = None;
    for (i, cell) in cells.iter().enumerate() {
        rig.check()?;
        rig.progress.step(i, cells.len(), &cell.id);
        let mine = earlier.iter().filter(|s| s.cell == cell.id);
        let mut samples: Vec<_> = mine.cloned().collect();
        match bench.cell(rig, cell, &mut samples) {
            Ok(()) => {
                result.failed.remove(&cell.id);
            }
            Err(
                e @ (BenchError::Worker { .. }
                | BenchError::Lab(LabError::Host { .. })
                | BenchError::Unsupported(_)),
            ) => {
                rig.warn(&format!("{}: {e}", cell.id))?;
                result.failed.insert(cell.id.clone(), e.to_string());
                failure.get_or_insert(e);
            }
            Err(e) => return Err(e),
        }
        if !analyse::same_answers(&samples) {
            rig.warn(&format!(
                "{}: the work's answer differed between samples: do not trust its times",
                cell.id
            ))?;
        }
        if let Some(now) = analyse::cell(cell, &samples, rig.seed) {
            match result.cells.iter_mut().find(|c| c.cell.id == cell.id) {
                Some(before) => *before = now,
                None => result.cells.push(now),
            }
        }
        rig.dir.result(&RunResult::Reservation(result.clone()))?;
    }
    rig.progress.step(cells.len(), cells.len(), "done");
    match failure {
        Some(e) if result.cells.is_empty() => Err(e),
        _ => Ok(()),
    }
}
