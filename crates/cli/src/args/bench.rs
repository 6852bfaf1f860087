//! `cofferdam bench …`

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// `cofferdam bench …`
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// An experiment.
    #[command(flatten)]
    Experiment(cofferdam_bench::run::Command),
    /// The differences between two isolation runs, in environment and results
    Compare(CompareArgs),
}

/// `cofferdam bench compare`
#[derive(Clone, Debug, Args)]
pub struct CompareArgs {
    /// Directory of the first run
    #[arg(value_name = "RUN")]
    pub first: PathBuf,
    /// Directory of the second run
    #[arg(value_name = "RUN")]
    pub second: PathBuf,
}
