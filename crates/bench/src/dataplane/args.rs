//! `cofferdam bench dataplane` on the command line.

use super::Options;
use super::data::DataplaneExperiment;
use crate::args::{ShortRunArgs, one_of};
use crate::error::BenchError;
use crate::progress::Progress;
use crate::run::command::{Answer, Bench};
use clap::Args;
use cofferdam_types::quantity;

/// `cofferdam bench dataplane`
#[derive(Clone, Debug, Args)]
pub struct DataplaneArgs {
    /// Length, directory and seed.
    #[command(flatten)]
    pub run: ShortRunArgs,
    /// Rounds, each of which measures every condition once [default: 7; 5 with --quick]
    #[arg(long, value_name = "N", value_parser = quantity::positive)]
    pub rounds: Option<u32>,
    /// Only these experiments; may be repeated or separated by commas
    #[arg(
        long,
        value_name = "EXPERIMENT",
        value_delimiter = ',',
        value_parser = one_of(DataplaneExperiment::ALL, DataplaneExperiment::label)
    )]
    pub experiment: Vec<DataplaneExperiment>,
}

impl From<DataplaneArgs> for Options {
    fn from(args: DataplaneArgs) -> Options {
        Options {
            quick: args.run.quick,
            output: args.run.output,
            rounds: args.rounds,
            experiments: args.experiment,
            seed: args.run.seed,
        }
    }
}

impl Bench for DataplaneArgs {
    fn run(self, progress: &mut dyn Progress) -> Result<Answer, BenchError> {
        super::run(&self.into(), progress).map(Answer::run)
    }
}
