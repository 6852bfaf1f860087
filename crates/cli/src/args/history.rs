//! Options for the history: `export`, and the options that `top` shares with it.

use super::{ContainerArgs, SocketArgs};
use crate::when;
use clap::{Args, ValueEnum};
use cofferdam_types::quantity;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// `cofferdam export`
#[derive(Debug, Args)]
pub struct ExportArgs {
    /// Begin: RFC 3339, "yesterday 03:00", "2h ago", "03:00"
    #[arg(long, value_name = "TIME", value_parser = when::parse)]
    pub from: SystemTime,
    /// End, in the same forms
    #[arg(long, value_name = "TIME", default_value = "now", value_parser = when::parse)]
    pub to: SystemTime,
    /// The ledger's documents, or a table with a row for each container and interval
    #[arg(long, value_enum, default_value_t = ExportFormat::Jsonl)]
    pub format: ExportFormat,
    /// Length of intervals, where the history has it: the next shorter one of 1s, 10s, 1m, 30m
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = quantity::duration)]
    pub resolution: Duration,
    /// Selected containers.
    #[command(flatten)]
    pub containers: ContainerArgs,
    /// Also cgroups of the host (services, sessions, the root) that cause network work or pay for
    /// it
    #[arg(long)]
    pub all: bool,
    /// Write to this file instead of standard output; the file appears when it is complete
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace the file of --output if it exists
    #[arg(long, requires = "output")]
    pub force: bool,
    /// The history to read.
    #[command(flatten)]
    pub source: HistoryArgs,
}

/// Form of an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportFormat {
    /// Columns (schema cofferdam.columns/1); needs --output.
    Parquet,
    /// Comma-separated values with a heading.
    Csv,
    /// JSON Lines, as of `accounting record`.
    Jsonl,
}

/// File of a history.
#[derive(Clone, Debug, Default, Args)]
pub struct HistoryArgs {
    /// File of the history [default: the running agent's, otherwise /var/lib/cofferdam/history]
    #[arg(long, value_name = "PATH")]
    pub history: Option<PathBuf>,
    /// Agent that is asked for the file.
    #[command(flatten)]
    pub agent: SocketArgs,
}
