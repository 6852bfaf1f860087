//! `cofferdam bench simulation` on the command line.

use super::Options;
use crate::args::ShortRunArgs;
use crate::error::BenchError;
use crate::progress::Progress;
use crate::run::command::{Answer, Bench};
use clap::Args;
use cofferdam_types::quantity;

/// `cofferdam bench simulation`
#[derive(Clone, Debug, Args)]
pub struct SimulationArgs {
    /// Length, directory and seed.
    #[command(flatten)]
    pub run: ShortRunArgs,
    /// Rounds, each of which measures every case once [default: 5]
    #[arg(long, value_name = "N", value_parser = quantity::positive)]
    pub rounds: Option<u32>,
    /// Only the cases whose names begin so, such as quota/; may be repeated or separated by commas
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub case: Vec<String>,
}

impl From<SimulationArgs> for Options {
    fn from(args: SimulationArgs) -> Options {
        let defaults = Options::default();
        Options {
            quick: args.run.quick,
            output: args.run.output,
            rounds: args.rounds.unwrap_or(defaults.rounds),
            seconds: None,
            cases: args.case,
            seed: args.run.seed,
        }
    }
}

impl Bench for SimulationArgs {
    fn run(self, progress: &mut dyn Progress) -> Result<Answer, BenchError> {
        super::run(&self.into(), progress).map(Answer::run)
    }
}
