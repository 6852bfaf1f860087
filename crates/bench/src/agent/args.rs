//! `cofferdam bench agent` on the command line.

use super::Options;
use super::data::AgentExperiment;
use crate::args::{ShortRunArgs, one_of};
use crate::error::BenchError;
use crate::progress::Progress;
use crate::run::command::{Answer, Bench};
use clap::Args;
use cofferdam_types::quantity;

/// `cofferdam bench agent`
#[derive(Clone, Debug, Args)]
pub struct AgentArgs {
    /// Length, directory and seed.
    #[command(flatten)]
    pub run: ShortRunArgs,
    /// Rounds, each of which measures every duty of the agent once; the diagnosis has six off/on
    /// pairs per round [default: 10; 5 with --quick]
    #[arg(long, value_name = "N", value_parser = quantity::positive)]
    pub rounds: Option<u32>,
    /// Containers that the agent manages, at most 200 [default: 100]
    #[arg(long, value_name = "N", value_parser = quantity::positive)]
    pub containers: Option<u32>,
    /// Only these experiments; may be repeated or separated by commas
    #[arg(
        long,
        value_name = "EXPERIMENT",
        value_delimiter = ',',
        value_parser = one_of(AgentExperiment::ALL, AgentExperiment::label)
    )]
    pub experiment: Vec<AgentExperiment>,
}

impl From<AgentArgs> for Options {
    fn from(args: AgentArgs) -> Options {
        Options {
            quick: args.run.quick,
            output: args.run.output,
            experiments: args.experiment,
            containers: args.containers,
            rounds: args.rounds,
            period_seconds: None,
            seed: args.run.seed,
        }
    }
}

impl Bench for AgentArgs {
    fn run(self, progress: &mut dyn Progress) -> Result<Answer, BenchError> {
        super::run(&self.into(), progress).map(Answer::run)
    }
}
