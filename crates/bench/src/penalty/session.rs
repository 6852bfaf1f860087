//! Measurement of a plan's cells: pair by pair, with disturbed pairs repeated, from where an
//! earlier call stopped.

use super::Options;
use super::data::{PenaltyResult, PenaltySamples, attempts};
use super::export;
use super::plan::Plan;
use crate::data::{Cell, CellResult, Role, Sample, Treatment};
use crate::error::BenchError;
use crate::experiment::schedule::{self, Attempts};
use crate::experiment::{CellBench, Rig, Turn, cell_result, same_answers};
use crate::run::{RunResult, SampleSet};
use crate::topology::MadeBy;
use std::collections::{HashMap, HashSet};
use std::time::Instant;

pub(super) struct Session<'a, 'p> {
    rig: &'a mut Rig<'p>,
    options: &'a Options,
    plan: Plan,
    started: Instant,
    /// Every sample by its cell, with those of earlier calls and of repeated attempts.
    samples: HashMap<String, Vec<Sample>>,
    pub result: PenaltyResult,
}

impl<'a, 'p> Session<'a, 'p> {
    /// Opens the run's directory, with the samples of an earlier call of the same plan.
    pub fn open(
        rig: &'a mut Rig<'p>,
        cells: &[Cell],
        options: &'a Options,
    ) -> Result<Session<'a, 'p>, BenchError> {
        let mut plan = Plan::new(options, cells).resume(rig.dir.path())?;
        rig.calibrated = plan.work();
        plan.keep(&rig.calibrated, &rig.dir)?;
        let earlier: Vec<Sample> = Vec::read(rig.dir.path())
            .map_err(|e| BenchError::Usage(format!("{}: {e}", rig.dir.path().display())))?;
        let mut samples: HashMap<String, Vec<Sample>> = HashMap::new();
        for sample in earlier {
            samples.entry(sample.cell.clone()).or_default().push(sample);
        }
        Ok(Session {
            result: PenaltyResult {
                containers_by: (options.made_by != MadeBy::Ourselves)
                    .then(|| options.made_by.label().to_owned()),
                done: [0, cells.len() as u32],
                ..PenaltyResult::default()
            },
            rig,
            options,
            plan,
            started: Instant::now(),
            samples,
        })
    }

    /// Measures all cells. A cell that fails for its own reasons does not end the run, unless all
    /// do.
    pub fn measure(&mut self, cells: &[Cell]) -> Result<(), BenchError> {
        let mut failure = None;
        for (i, cell) in cells.iter().enumerate() {
            self.rig.check()?;
            self.rig.progress.step(i, cells.len(), &cell.id);
            let measured = self.cell(cell);
            self.summarise(cell)?;
            match measured {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(e) if concerns_one_cell(&e) => {
                    self.rig.warn(&format!("{}: {e}", cell.id))?;
                    self.result.failed.insert(cell.id.clone(), e.to_string());
                    failure.get_or_insert(e);
                }
                Err(e) => return Err(e),
            }
            self.keep()?;
        }
        self.rig.progress.step(cells.len(), cells.len(), "done");
        match failure {
            Some(e) if self.result.cells.is_empty() => Err(e),
            _ => Ok(()),
        }
    }

    /// Measures the rest of a cell. Returns false if the time is up.
    fn cell(&mut self, cell: &Cell) -> Result<bool, BenchError> {
        let pairs: Vec<u32> = (0..self.options.pairs).collect();
        let turns = self.turns();
        let next = |samples: &[Sample]| {
            let whole = whole_attempts(samples, turns.len());
            let next = schedule::next(&pairs, &whole, &HashSet::new(), self.options.attempts);
            next.map(|(pair, _)| (*pair, number_of_next(samples, *pair)))
        };
        let mut samples = self.samples.remove(&cell.id).unwrap_or_default();
        let mut bench = None;
        let mut is_in_time = true;
        let mut outcome = Ok(());
        while let Some((pair, attempt)) = next(&samples) {
            let limit = self.options.stop_after;
            is_in_time = limit.is_none_or(|limit| self.started.elapsed() < limit);
            if !is_in_time {
                break;
            }
            let bench = match &bench {
                Some(bench) => bench,
                None => bench.insert(self.bench(cell)?),
            };
            outcome = measure_pair(self.rig, bench, &turns, pair, attempt, &mut samples);
            if outcome.is_err() {
                break;
            }
        }
        self.samples.insert(cell.id.clone(), samples);
        outcome.map(|()| is_in_time)
    }

    fn bench(&mut self, cell: &Cell) -> Result<CellBench, BenchError> {
        let bench = CellBench::new(
            self.rig,
            cell,
            self.options.victim_seconds(),
            self.options.segmentation_offload,
            self.options.made_by,
            self.options.trace.as_deref(),
        )?;
        self.plan.keep(&self.rig.calibrated, &self.rig.dir)?;
        Ok(bench)
    }

    /// Turns of a pair, in no particular order.
    fn turns(&self) -> Vec<(Role, Treatment)> {
        let vanilla = [
            (Role::Compute, Treatment::Vanilla),
            (Role::Traffic, Treatment::Vanilla),
        ];
        let treated = self.options.treatments.iter();
        vanilla
            .into_iter()
            .chain(treated.map(|t| (Role::Traffic, *t)))
            .collect()
    }

    /// Adds the cell's result, if it has one.
    fn summarise(&mut self, cell: &Cell) -> Result<(), BenchError> {
        let samples = self.samples.get(&cell.id).cloned().unwrap_or_default();
        let split = PenaltySamples::from(samples);
        if !same_answers(&split.samples) {
            self.rig.warn(&format!(
                "{}: the victim's answer differed between samples: do not trust its times",
                cell.id
            ))?;
        }
        let mut repeated: Vec<(u32, u32)> =
            split.repeated.iter().map(|s| (s.pair, s.attempt)).collect();
        repeated.sort_unstable();
        repeated.dedup();
        self.result.repeated += repeated.len() as u32;
        let result: Option<CellResult> = cell_result(cell, &split.samples, self.rig.seed);
        self.result.done[0] += u32::from(result.is_some());
        self.result.cells.extend(result);
        Ok(())
    }

    fn keep(&self) -> Result<(), BenchError> {
        export::write(
            self.rig.dir.path(),
            &self.result,
            self.rig.dir.manifest().is_busy,
        )?;
        self.rig
            .dir
            .result(&RunResult::Penalty(self.result.clone()))
    }
}

/// Makes one attempt at a pair, with its turns in random order.
fn measure_pair(
    rig: &mut Rig<'_>,
    bench: &CellBench,
    turns: &[(Role, Treatment)],
    pair: u32,
    attempt: u32,
    samples: &mut Vec<Sample>,
) -> Result<(), BenchError> {
    let mut turns = turns.to_vec();
    rig.random.shuffle(&mut turns);
    for (position, (role, treatment)) in (0..).zip(turns) {
        let turn = Turn {
            role,
            treatment,
            pair,
            attempt,
            position,
        };
        samples.push(bench.sample(rig, turn)?.sample);
    }
    Ok(())
}

/// Steal fraction of each complete attempt at a pair of a cell, in the form of [`schedule::next`].
fn whole_attempts(samples: &[Sample], turns: usize) -> Attempts<u32> {
    let mut whole = Attempts::new();
    for ((_, pair, _), attempt) in attempts(samples) {
        if attempt.turns >= turns {
            let of: &mut Vec<f64> = whole.entry(pair).or_default();
            of.push(attempt.steal);
        }
    }
    whole
}

/// First number of an attempt at `pair` that no sample has.
fn number_of_next(samples: &[Sample], pair: u32) -> u32 {
    let of_pair = samples.iter().filter(|s| s.pair == pair);
    of_pair.map(|s| s.attempt + 1).max().unwrap_or(0)
}

fn concerns_one_cell(error: &BenchError) -> bool {
    matches!(error, BenchError::Worker { .. } | BenchError::Lab(_))
}
