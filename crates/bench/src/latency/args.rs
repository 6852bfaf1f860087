//! `cofferdam bench latency` on the command line.

use super::Options;
use super::data::LatencyExperiment;
use crate::args::{ShortRunArgs, one_of};
use crate::error::BenchError;
use crate::progress::Progress;
use crate::run::command::{Answer, Bench};
use clap::Args;
use cofferdam_types::quantity;

/// `cofferdam bench latency`
#[derive(Clone, Debug, Args)]
pub struct LatencyArgs {
    /// Length, directory and seed.
    #[command(flatten)]
    pub run: ShortRunArgs,
    /// Blocks of each case [default: 15; 7 with --quick]
    #[arg(long, value_name = "N", value_parser = quantity::positive)]
    pub pairs: Option<u32>,
    /// Only these experiments; may be repeated or separated by commas
    #[arg(
        long,
        value_name = "EXPERIMENT",
        value_delimiter = ',',
        value_parser = one_of(LatencyExperiment::ALL, LatencyExperiment::label)
    )]
    pub experiment: Vec<LatencyExperiment>,
}

impl From<LatencyArgs> for Options {
    fn from(args: LatencyArgs) -> Options {
        Options {
            quick: args.run.quick,
            output: args.run.output,
            rounds: args.pairs,
            experiments: args.experiment,
            seed: args.run.seed,
        }
    }
}

impl Bench for LatencyArgs {
    fn run(self, progress: &mut dyn Progress) -> Result<Answer, BenchError> {
        super::run(&self.into(), progress).map(Answer::run)
    }
}
