//! Resources that Cofferdam's agent uses on the host: CPU time and memory with many containers, the
//! cost of the diagnosis for the watched processes, and the time that a container runtime waits.

pub(crate) mod args;
mod cost;
pub mod data;
mod diagnosis;
pub(crate) mod goals;
pub(crate) mod process;
pub(crate) mod report;
mod runtime;
mod terminal;
mod viewer;

use crate::agent::data::{AgentExperiment, AgentResult, AgentSample};
use crate::data::SCHEMA;
use crate::error::BenchError;
use crate::experiment::{Rig, RigOptions, choose};
use crate::progress::Progress;
use crate::run::{Kind, RunResult};
use crate::rundir::{self, RunDir};
use std::path::PathBuf;
use std::time::Duration;

/// Most containers that have an address in the testbed.
const MOST_CONTAINERS: u32 = 200;

/// Options with their defaults.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Fewer and shorter periods; default no.
    pub quick: bool,
    /// The run directory; default `runs/<UTC time>-agent`.
    pub output: Option<PathBuf>,
    /// Only these experiments; empty for all.
    pub experiments: Vec<AgentExperiment>,
    /// Containers that the agent manages, 1 to 200; default 100.
    pub containers: Option<u32>,
    /// Rounds, each of which measures every duty once; default 10, 5 when `quick`. The diagnosis
    /// has six off/on pairs a round.
    pub rounds: Option<u32>,
    /// Length of one agent's period, seconds; default 15, the usual scrape interval of Prometheus;
    /// 5 when `quick`.
    pub period_seconds: Option<f64>,
    /// Seed of orders and bootstrap.
    pub seed: u64,
}

impl Options {
    fn containers(&self) -> u32 {
        self.containers.unwrap_or(100)
    }

    fn rounds(&self) -> u32 {
        self.rounds.unwrap_or(if self.quick { 5 } else { 10 })
    }

    fn pairs(&self) -> u32 {
        self.rounds().saturating_mul(6)
    }

    fn period(&self) -> Duration {
        let seconds = self.period_seconds;
        Duration::from_secs_f64(seconds.unwrap_or(if self.quick { 5.0 } else { 15.0 }))
    }
}

/// Runs the experiments.
///
/// # Errors
/// [`BenchError::Unsupported`] if this host can run none of them.
pub fn run(options: &Options, progress: &mut dyn Progress) -> Result<RunDir, BenchError> {
    if !(1..=MOST_CONTAINERS).contains(&options.containers()) {
        return Err(BenchError::Usage(format!(
            "--containers {}: the experiment can make 1 to {MOST_CONTAINERS}",
            options.containers()
        )));
    }
    if options.rounds() == 0 {
        return Err(BenchError::Usage(
            "--rounds 0 measures nothing: give at least 1".to_owned(),
        ));
    }
    let plain = RigOptions::plain(
        Kind::Agent,
        options.quick,
        options.output.clone(),
        options.seed,
    );
    let mut rig = Rig::new(plain, progress)?;
    // The agent inherits the driver's CPUs, and must be able to run on any.
    rig.use_all_cpus();
    let mut result = AgentResult::default();
    let outcome = measure(&mut rig, options, &mut result);
    rig.close(Some(RunResult::Agent(result)), outcome)
}

/// Runs the chosen experiments. One that this host cannot run does not end the others, unless it is
/// the only one.
fn measure(
    rig: &mut Rig<'_>,
    options: &Options,
    result: &mut AgentResult,
) -> Result<(), BenchError> {
    let wanted = choose(AgentExperiment::ALL, &options.experiments);
    for which in &wanted {
        let outcome = match which {
            AgentExperiment::Cost => cost::measure(rig, options, result),
            AgentExperiment::Diagnosis => diagnosis::measure(rig, options, result),
            AgentExperiment::Answers => runtime::measure(rig, options, result),
        };
        match outcome {
            Err(BenchError::Unsupported(why)) if wanted.len() > 1 => {
                rig.warn(&format!("{which}: {why}"))?;
                result.failed.insert(which.to_string(), why);
            }
            outcome => outcome?,
        }
        rig.dir.result(&RunResult::Agent(result.clone()))?;
    }
    match result.failed.first_key_value() {
        Some((_, why)) if result.failed.len() == wanted.len() => {
            Err(BenchError::Unsupported(why.clone()))
        }
        _ => Ok(()),
    }
}

/// Line of the samples without its figures.
fn sample(experiment: AgentExperiment, case: &str, round: u32) -> AgentSample {
    AgentSample {
        schema: SCHEMA,
        time: rundir::now(),
        experiment: experiment.to_string(),
        case: case.to_owned(),
        round,
        ..AgentSample::default()
    }
}
