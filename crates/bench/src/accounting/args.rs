//! `cofferdam bench accounting` on the command line.

use super::Options;
use crate::args::RunArgs;
use crate::error::BenchError;
use crate::progress::Progress;
use crate::run::command::{Answer, Bench};
use clap::Args;

/// `cofferdam bench accounting`
#[derive(Clone, Debug, Args)]
pub struct AccountingArgs {
    /// Options that every benchmark has.
    #[command(flatten)]
    pub run: RunArgs,
}

impl From<AccountingArgs> for Options {
    fn from(args: AccountingArgs) -> Options {
        let (run, defaults) = (args.run, Options::default());
        Options {
            quick: run.quick,
            output: run.output,
            pairs: run.pairs.unwrap_or(defaults.pairs),
            victim_cpu: run.host.victim_cpu,
            peer_cpu: run.host.peer_cpu,
            seed: run.host.seed,
            ..defaults
        }
    }
}

impl Bench for AccountingArgs {
    fn run(self, progress: &mut dyn Progress) -> Result<Answer, BenchError> {
        super::run(&self.into(), progress).map(Answer::run)
    }
}
