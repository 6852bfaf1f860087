//! Accuracy, coverage and cost of the latency measurement.
//!
//! A tun device takes the place of the NIC, and a thread of this process that of the wire. The
//! thread stamps each packet after it reads it and before it writes one. All stamps are of
//! CLOCK_MONOTONIC, like those of the reports.

pub(crate) mod args;
mod bias;
mod coverage;
pub mod data;
pub(crate) mod goals;
mod perturbation;
pub(crate) mod report;
mod testbed;
mod truth;
mod wire;

use crate::data::SCHEMA;
use crate::error::BenchError;
use crate::experiment::{Rig, RigOptions, choose};
use crate::latency::data::{LatencyExperiment, LatencyResult, LatencySample};
use crate::progress::Progress;
use crate::run::{Kind, RunResult};
use crate::rundir::RunDir;
use std::path::PathBuf;
use std::time::SystemTime;

/// Options of `bench latency`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// Fewer and shorter blocks; default no.
    pub quick: bool,
    /// The run directory; default `runs/<UTC time>-latency`.
    pub output: Option<PathBuf>,
    /// Blocks of each case; default 15, 7 when `quick`.
    pub rounds: Option<u32>,
    /// Only these experiments; empty for all.
    pub experiments: Vec<LatencyExperiment>,
    /// Seed of orders and bootstrap; default 1.
    pub seed: u64,
}

impl Options {
    fn rounds(&self) -> u32 {
        self.rounds.unwrap_or(if self.quick { 7 } else { 15 })
    }

    /// Round trips in a block.
    fn block(&self) -> u32 {
        if self.quick { 500 } else { 1000 }
    }
}

/// Runs all experiments.
///
/// # Errors
/// [`BenchError::Unsupported`] if this host cannot run the measurement.
pub fn run(options: &Options, progress: &mut dyn Progress) -> Result<RunDir, BenchError> {
    if options.rounds() == 0 {
        return Err(BenchError::Usage(
            "--pairs 0 measures nothing: give at least 1".to_owned(),
        ));
    }
    let output = options.output.clone();
    let plain = RigOptions::plain(Kind::Latency, options.quick, output, options.seed);
    let mut rig = Rig::new(plain, progress)?;
    let mut result = LatencyResult::default();
    let outcome = measure(&mut rig, options, &mut result);
    rig.close(Some(RunResult::Latency(result)), outcome)
}

fn measure(
    rig: &mut Rig<'_>,
    options: &Options,
    result: &mut LatencyResult,
) -> Result<(), BenchError> {
    type Experiment = fn(
        &mut Rig<'_>,
        &Options,
        &testbed::LatencyTestbed,
        &mut LatencyResult,
    ) -> Result<(), BenchError>;
    let experiment = |which: &LatencyExperiment| -> Experiment {
        match which {
            LatencyExperiment::Truth => truth::stamps,
            LatencyExperiment::Injection => truth::injection,
            LatencyExperiment::Bias => bias::measure,
            LatencyExperiment::Coverage => coverage::measure,
            LatencyExperiment::Perturbation => perturbation::measure,
        }
    };
    let wanted = choose(LatencyExperiment::ALL, &options.experiments);
    for (i, which) in wanted.iter().enumerate() {
        rig.progress.step(i, wanted.len(), which.label());
        let testbed = testbed::LatencyTestbed::make()?;
        experiment(which)(rig, options, &testbed, result)?;
        drop(testbed);
        rig.dir.result(&RunResult::Latency(result.clone()))?;
    }
    Ok(())
}

/// Writes the raw values of a block to the samples.
fn keep(
    rig: &mut Rig<'_>,
    experiment: &str,
    case: &str,
    round: u32,
    values_us: &[f64],
) -> Result<(), BenchError> {
    rig.dir.sample(&LatencySample {
        schema: SCHEMA,
        time: humantime::format_rfc3339_millis(SystemTime::now()).to_string(),
        experiment: experiment.to_owned(),
        case: case.to_owned(),
        round,
        values_us: values_us.to_vec(),
    })
}

fn failed(what: &str) -> impl FnOnce(std::io::Error) -> BenchError {
    let what = what.to_owned();
    move |e| BenchError::Latency(format!("{what}: {e}"))
}

fn us(ns: u64) -> f64 {
    ns as f64 / 1000.0
}

/// Loads the measurement.
///
/// # Errors
/// [`BenchError::Unsupported`] if this host cannot run it.
fn load(start: cofferdam_latency::Start) -> Result<cofferdam_latency::Meter, BenchError> {
    let sizes = cofferdam_latency::LatencySizes::default();
    cofferdam_latency::Meter::load(sizes, start).map_err(measure_error)
}

fn measure_error(error: cofferdam_latency::MeasureError) -> BenchError {
    match error {
        cofferdam_latency::MeasureError::Unsupported(text) => BenchError::Unsupported(text),
        other => BenchError::Latency(other.to_string()),
    }
}
