//! `cofferdam bench isolation` on the command line.

use super::data::{Resource, RuntimeKind, Scenario};
use super::{Experiment, Options, argo};
use crate::args::one_of;
use crate::error::BenchError;
use crate::progress::Progress;
use crate::run::command::{Answer, Bench};
use clap::Args;
use cofferdam_types::quantity;
use std::path::PathBuf;
use std::time::Duration;

/// `cofferdam bench isolation`
#[derive(Clone, Debug, Args)]
pub struct IsolationArgs {
    /// The experiment, as YAML
    #[arg(long, value_name = "FILE", conflicts_with_all = ["quick", "paper"])]
    pub experiment: Option<PathBuf>,
    /// The whole matrix in about 10 minutes a runtime [the default]
    #[arg(long)]
    pub quick: bool,
    /// The paper's experiment: scenarios of 30 minutes, ten times
    #[arg(long, conflicts_with = "quick")]
    pub paper: bool,
    /// Directory for the run's data and report; if it holds the same experiment, the run resumes
    #[arg(long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Only these runtimes; may be repeated or separated by commas
    #[arg(
        long,
        value_name = "RUNTIME",
        value_delimiter = ',',
        value_parser = one_of(RuntimeKind::ALL, RuntimeKind::label)
    )]
    pub runtime: Vec<RuntimeKind>,
    /// Only these resources; may be repeated or separated by commas
    #[arg(
        long,
        value_name = "RESOURCE",
        value_delimiter = ',',
        value_parser = one_of(Resource::ALL, Resource::label)
    )]
    pub resource: Vec<Resource>,
    /// Only these scenarios, such as a_s_b_f, with their baselines; may be repeated or separated
    /// by commas
    #[arg(long, value_name = "SCENARIO", value_delimiter = ',')]
    pub scenario: Vec<Scenario>,
    /// Measured blocks; at least 5 for a confidence interval
    #[arg(long, value_name = "N", value_parser = quantity::positive)]
    pub repetitions: Option<u32>,
    /// Seed of the orders and of the bootstrap
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// End in order after this long; the next call with the same --output resumes
    #[arg(long, value_name = "DURATION", value_parser = quantity::duration)]
    pub stop_after: Option<Duration>,
    /// Repeat every measurement with Cofferdam's agent managing the tenants
    #[arg(long)]
    pub cofferdam: bool,
    /// Measure nothing; print the experiment as a workflow for a cluster
    #[arg(long, value_name = "FORMAT", value_parser = ["argo"])]
    pub emit: Option<String>,
    /// Container image of the workflow
    #[arg(
        long,
        value_name = "IMAGE",
        requires = "emit",
        default_value = "localhost/cofferdam"
    )]
    pub image: String,
}

impl Bench for IsolationArgs {
    fn run(self, progress: &mut dyn Progress) -> Result<Answer, BenchError> {
        let emitted = self.emit.is_some().then(|| self.image.clone());
        let options = Options::try_from(self)?;
        let Some(image) = emitted else {
            return super::run(&options, progress).map(Answer::run);
        };
        options.experiment.check().map_err(BenchError::Usage)?;
        let recipe: String = argo::RECIPE.lines().map(|l| format!("# {l}\n")).collect();
        let workflow = argo::workflow(&options.experiment, &image);
        Ok(Answer::Text(format!("{recipe}{workflow:#}\n")))
    }
}

impl TryFrom<IsolationArgs> for Options {
    type Error = BenchError;

    /// Combines the experiment with the options that narrow it.
    fn try_from(args: IsolationArgs) -> Result<Options, BenchError> {
        let mut experiment = match (&args.experiment, args.paper) {
            (Some(path), _) => Experiment::read(path)?,
            (None, true) => Experiment::paper(),
            (None, false) => Experiment::quick(),
        };
        let quick = args.experiment.is_none() && !args.paper;
        if !args.runtime.is_empty() {
            experiment.runtimes = args.runtime;
        }
        if !args.resource.is_empty() {
            experiment.resources = args.resource;
        }
        if !args.scenario.is_empty() {
            experiment.scenarios = args.scenario;
        }
        experiment.cofferdam |= args.cofferdam;
        experiment.complete();
        experiment.repetitions = args.repetitions.unwrap_or(experiment.repetitions);
        experiment.seed = args.seed.unwrap_or(experiment.seed);
        Ok(Options {
            experiment,
            quick,
            output: args.output,
            stop_after: args.stop_after,
        })
    }
}
