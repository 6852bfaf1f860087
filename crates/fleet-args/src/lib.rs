//! Command line of `cofferdam-fleet`, and the errors of both programs as text.
//! `cofferdam report fleet` shows this command line as its own and passes it on.
#![forbid(unsafe_code)]

mod error;

pub use error::error_chain;

use clap::{Args, Parser, Subcommand};
use cofferdam_types::quantity;
use std::ffi::OsString;
use std::path::PathBuf;

/// Smallest memory limit of a report.
pub const LEAST_MEMORY_BYTES: u32 = 128 << 20;

/// Reports over the ledgers of many hosts.
#[derive(Debug, Parser)]
#[command(
    name = "cofferdam-fleet",
    version,
    about,
    disable_help_subcommand = true
)]
pub struct Cli {
    /// Command to run.
    #[command(subcommand)]
    pub command: Command,
}

/// Commands of `cofferdam-fleet`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Merges ledgers of many hosts into one page and Parquet: who caused whose harm, and a
    /// corrected bill
    Report(ReportArgs),
    /// Holds the model of what enforcement returns against runs of `bench penalty --with enforced`
    CheckModel(CheckArgs),
}

/// Options of the report.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct ReportArgs {
    /// Ledgers: JSON Lines of `accounting record` (plain or gzip), Parquet of `export`, histories
    /// of agents, or folders of them
    #[arg(required = true, value_name = "LEDGER")]
    pub ledgers: Vec<PathBuf>,
    /// Folder of the report; it is created
    #[arg(long, value_name = "DIR", default_value = "fleet-report")]
    pub output: PathBuf,
    /// Replaces a report that is there
    #[arg(long)]
    pub force: bool,
    /// Host that all the ledgers are of; otherwise each names its own, in its metadata or its
    /// file's name
    #[arg(long, value_name = "NAME")]
    pub host: Option<String>,
    /// Memory to keep within, with its unit, at least 128MiB; what does not fit goes to temporary
    /// files
    #[arg(long, value_name = "SIZE", default_value = "512MiB", value_parser = memory)]
    pub memory: u32,
    /// Threads of the query engine [default: one for each CPU, at most 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    pub threads: Option<u8>,
    /// Folder of temporary files [default: the system's]
    #[arg(long, value_name = "DIR")]
    pub temporary: Option<PathBuf>,
}

/// Options of the check.
#[derive(Clone, Debug, Args)]
pub struct CheckArgs {
    /// Run directories; without them the pairs that this version was checked against
    #[arg(value_name = "DIR")]
    pub runs: Vec<PathBuf>,
    /// Prints the pairs as JSON Lines
    #[arg(long)]
    pub json: bool,
}

impl ReportArgs {
    /// Formats the options as words of a command line.
    pub fn words(&self) -> Vec<OsString> {
        let mut words = Vec::new();
        let mut option = |name: &str, value: OsString| words.extend([name.into(), value]);
        option("--output", self.output.clone().into());
        option("--memory", format!("{}B", self.memory).into());
        if let Some(host) = &self.host {
            option("--host", host.into());
        }
        if let Some(threads) = self.threads {
            option("--threads", threads.to_string().into());
        }
        if let Some(temporary) = &self.temporary {
            option("--temporary", temporary.clone().into());
        }
        if self.force {
            words.push("--force".into());
        }
        words.push("--".into());
        words.extend(self.ledgers.iter().map(|path| path.clone().into()));
        words
    }
}

fn memory(text: &str) -> Result<u32, String> {
    let bytes = quantity::bytes(text)?;
    match bytes >= LEAST_MEMORY_BYTES {
        true => Ok(bytes),
        false => Err("at least 128MiB".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[OsString]) -> ReportArgs {
        let all = ["cofferdam-fleet", "report"].map(OsString::from);
        match Cli::try_parse_from(all.iter().chain(words))
            .expect("parsed")
            .command
        {
            Command::Report(args) => args,
            Command::CheckModel(_) => panic!("another command"),
        }
    }

    /// Promise 17.
    #[test]
    fn options_that_are_passed_on_mean_the_same() {
        for line in [
            "a.jsonl",
            "--force --host node-1 a b/c --memory 256MiB",
            "--threads 3 --temporary /var/tmp --output out -- --odd.parquet",
        ] {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let args = parsed(&words);
            assert_eq!(parsed(&args.words()), args, "{line}");
        }
    }

    #[test]
    fn too_little_memory_is_refused() {
        for memory in ["127MiB", "5", "1TiB", "4GiB"] {
            let words = ["cofferdam-fleet", "report", "--memory", memory, "a"];
            Cli::try_parse_from(words).unwrap_err();
        }
    }
}
