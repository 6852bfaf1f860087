//! `cofferdam bench …`

use super::values;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use cofferdam_bench::data::{Direction, Interferer, Path, VictimKind};
use std::path::PathBuf;
use std::str::FromStr;

/// `cofferdam bench …`
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// How much longer a job takes beside traffic than beside an equally entitled compute job
    Penalty(Box<PenaltyArgs>),
    /// Whether the latency measurement tells the truth, and what it costs
    Latency(BenchAccountingArgs),
    /// What the accounting costs, and how exact it is
    Accounting(BenchAccountingArgs),
}

/// What every benchmark takes.
#[derive(Clone, Debug, Args)]
pub struct RunArgs {
    /// A short grid, a few minutes
    #[arg(long)]
    pub quick: bool,
    /// Directory for the run's data and report; it must not exist, or be empty
    #[arg(long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Measured pairs in each cell; at least 5 for an interval worth the name
    #[arg(long, value_name = "N", value_parser = values::positive)]
    pub pairs: Option<u32>,
    /// Where it runs.
    #[command(flatten)]
    pub host: HostArgs,
}

/// CPUs and chance.
#[derive(Clone, Debug, Args)]
pub struct HostArgs {
    /// CPU that victim, competitor and softirq share [default: the first one]
    #[arg(long, value_name = "CPU")]
    pub victim_cpu: Option<u32>,
    /// CPU of the other end [default: the next one on another core]
    #[arg(long, value_name = "CPU")]
    pub peer_cpu: Option<u32>,
    /// Seed of the order of runs, of the corpora and of the bootstrap
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// `cofferdam bench penalty`
#[derive(Clone, Debug, Args)]
pub struct PenaltyArgs {
    /// What every benchmark takes.
    #[command(flatten)]
    pub run: RunArgs,
    /// Only these victims; may be repeated or separated by commas
    #[arg(long, value_name = "VICTIM", value_delimiter = ',', value_parser = one_of(VictimKind::ALL, VictimKind::label))]
    pub victim: Vec<VictimKind>,
    /// Only this traffic; may be repeated or separated by commas
    #[arg(long, value_name = "TRAFFIC", value_delimiter = ',', value_parser = one_of(Interferer::ALL, Interferer::label))]
    pub interferer: Vec<Interferer>,
    /// Only the competitor as receiver, or as sender
    #[arg(long, value_name = "DIRECTION", value_delimiter = ',', value_parser = one_of(Direction::ALL, Direction::label))]
    pub direction: Vec<Direction>,
    /// Only these numbers of concurrent flows; may be repeated or separated by commas
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = values::positive)]
    pub flows: Vec<u32>,
    /// Only these paths between peer and container; may be repeated or separated by commas
    #[arg(long, value_name = "PATH", value_delimiter = ',', value_parser = one_of(Path::ALL, Path::label))]
    pub path: Vec<Path>,
    /// Only these datagram payloads (UDP) or write sizes (TCP), such as 200B or 16KiB
    #[arg(long, value_name = "SIZE", value_delimiter = ',', value_parser = values::bytes)]
    pub payload: Vec<u32>,
    /// Only these HTB rates on the sender's interface, such as 5Gbit
    #[arg(long, value_name = "RATE", value_delimiter = ',', value_parser = values::gbit)]
    pub htb: Vec<f64>,
    /// Only the cell with this id, such as cpu/flood/receiver/veth/3x200B; may be repeated
    #[arg(long, value_name = "ID")]
    pub cell: Vec<String>,
    /// Trace of the shuffle, as CSV start_ms,flow,bytes [default: the built-in one]
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Measure without the accounting beside it
    #[arg(long)]
    pub no_ledger: bool,
    /// Let TCP senders hand over segments larger than a packet: hides most of their cost
    #[arg(long)]
    pub segmentation_offload: bool,
}

/// `cofferdam bench accounting`
#[derive(Clone, Debug, Args)]
pub struct BenchAccountingArgs {
    /// What every benchmark takes.
    #[command(flatten)]
    pub run: RunArgs,
}

/// A word out of `all`, spelled by `label`.
fn one_of<T>(all: &'static [T], label: fn(T) -> &'static str) -> impl TypedValueParser<Value = T>
where
    T: Copy + FromStr<Err = String> + Send + Sync + 'static,
{
    PossibleValuesParser::new(all.iter().map(|value| PossibleValue::new(label(*value))))
        .try_map(|word| word.parse::<T>().map_err(std::io::Error::other))
}
