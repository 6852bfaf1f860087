//! `cofferdam bench history` on the command line.

use super::Options;
use crate::args::ShortRunArgs;
use crate::error::BenchError;
use crate::progress::Progress;
use crate::run::command::{Answer, Bench};
use clap::Args;
use cofferdam_types::quantity;

/// `cofferdam bench history`
#[derive(Clone, Debug, Args)]
pub struct HistoryArgs {
    /// Length, directory and seed.
    #[command(flatten)]
    pub run: ShortRunArgs,
    /// Containers in each interval, at most 10000
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = quantity::positive)]
    pub containers: u32,
}

impl From<HistoryArgs> for Options {
    fn from(args: HistoryArgs) -> Options {
        Options {
            quick: args.run.quick,
            output: args.run.output,
            containers: args.containers,
            seed: args.run.seed,
        }
    }
}

impl Bench for HistoryArgs {
    fn run(self, progress: &mut dyn Progress) -> Result<Answer, BenchError> {
        super::run(&self.into(), progress).map(Answer::run)
    }
}
