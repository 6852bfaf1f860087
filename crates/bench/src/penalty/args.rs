//! `cofferdam bench penalty` on the command line.

use super::{Filter, Options};
use crate::args::{HostArgs, one_of};
use crate::data::{Direction, Interferer, Limit, Path, Treatment, VictimIn, VictimKind};
use crate::error::BenchError;
use crate::progress::Progress;
use crate::run::command::{Answer, Bench};
use crate::topology::MadeBy;
use clap::Args;
use cofferdam_types::quantity;
use std::path::PathBuf;
use std::time::Duration;

/// `cofferdam bench penalty`
#[derive(Clone, Debug, Args)]
pub struct PenaltyArgs {
    /// A short grid, a few minutes
    #[arg(long)]
    pub quick: bool,
    /// Every cell, vanilla and enforced, five pairs each with a short victim, disturbed pairs up to
    /// three times: about two hours, in parts by --stop-after
    #[arg(long, conflicts_with = "quick")]
    pub grid: bool,
    /// Directory for the run's data and report; if it holds a run with the same options, that
    /// resumes
    #[arg(long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// End in order after this long; the next call with the same --output resumes
    #[arg(long, value_name = "DURATION", value_parser = quantity::duration)]
    pub stop_after: Option<Duration>,
    /// Measured pairs in each cell; at least 5 for a confidence interval
    #[arg(long, value_name = "N", value_parser = quantity::positive)]
    pub pairs: Option<u32>,
    /// CPUs and seed.
    #[command(flatten)]
    pub host: HostArgs,
    /// Only these victims; may be repeated or separated by commas
    #[arg(
        long,
        value_name = "VICTIM",
        value_delimiter = ',',
        value_parser = one_of(VictimKind::ALL, VictimKind::label)
    )]
    pub victim: Vec<VictimKind>,
    /// Only this traffic; may be repeated or separated by commas
    #[arg(
        long,
        value_name = "TRAFFIC",
        value_delimiter = ',',
        value_parser = one_of(Interferer::ALL, Interferer::label)
    )]
    pub interferer: Vec<Interferer>,
    /// Only the competitor as receiver, or as sender
    #[arg(
        long,
        value_name = "DIRECTION",
        value_delimiter = ',',
        value_parser = one_of(Direction::ALL, Direction::label)
    )]
    pub direction: Vec<Direction>,
    /// Only these numbers of concurrent flows; may be repeated or separated by commas
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = quantity::positive)]
    pub flows: Vec<u32>,
    /// Only these paths between peer and container; may be repeated or separated by commas
    #[arg(
        long,
        value_name = "PATH",
        value_delimiter = ',',
        value_parser = one_of(Path::ALL, Path::label)
    )]
    pub path: Vec<Path>,
    /// Only these datagram payloads (UDP) or write sizes (TCP), such as 200B or 16KiB
    #[arg(long, value_name = "SIZE", value_delimiter = ',', value_parser = quantity::bytes)]
    pub payload: Vec<u32>,
    /// Only these HTB rates on the sender's interface, such as 5Gbit
    #[arg(long, value_name = "RATE", value_delimiter = ',', value_parser = quantity::gbit)]
    pub htb: Vec<f64>,
    /// Creates the containers: this program (process), podman with runc (no path veth), or
    /// kubernetes: pods of the cluster's node that this runs on, by kubectl (path routed only)
    #[arg(
        long,
        value_name = "RUNTIME",
        default_value = "process",
        value_parser = one_of(MadeBy::ALL, MadeBy::label)
    )]
    pub runtime: MadeBy,
    /// Only the cell with this id, such as cpu/flood/receiver/veth/3x200B; may be repeated
    #[arg(long, value_name = "ID")]
    pub cell: Vec<String>,
    /// Time the victim's work takes alone, with its unit, 10ms to 60s [default: 2s; 500ms with
    /// --quick and --grid]
    #[arg(long, value_name = "DURATION", value_parser = quantity::interval)]
    pub victim_time: Option<Duration>,
    /// Trace of the shuffle, as CSV start_ms,flow,bytes [default: the built-in one]
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Only these shares of the CPU for the victim, percent; may be repeated or separated by
    /// commas
    #[arg(long, value_name = "PERCENT", value_delimiter = ',', value_parser = quantity::positive)]
    pub victim_share: Vec<u32>,
    /// Only cells whose shares are set by these means
    #[arg(
        long,
        value_name = "MEANS",
        value_delimiter = ',',
        value_parser = one_of(Limit::ALL, Limit::label)
    )]
    pub limit: Vec<Limit>,
    /// Only with these numbers of competing containers
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = quantity::positive)]
    pub offenders: Vec<u32>,
    /// Only with the victim in a container, or in a cgroup of the host that no rule names
    #[arg(
        long,
        value_name = "PLACE",
        value_delimiter = ',',
        value_parser = one_of(VictimIn::ALL, VictimIn::label)
    )]
    pub victim_in: Vec<VictimIn>,
    /// Also measure this treatment, in the same pairs as vanilla; may be repeated or separated by
    /// commas
    #[arg(
        long = "with",
        value_name = "TREATMENT",
        value_delimiter = ',',
        value_parser = one_of(treatments(), Treatment::label)
    )]
    pub treatments: Vec<Treatment>,
    /// Do not run the accounting during the measurement
    #[arg(long)]
    pub no_ledger: bool,
    /// Let TCP senders pass segments larger than a packet, which hides most of their cost
    #[arg(long)]
    pub segmentation_offload: bool,
}

/// Time of the victim's work without competitors, in the grid.
const GRID_VICTIM_SECONDS: f64 = 0.5;
/// Most attempts at a disturbed pair of the grid.
const GRID_ATTEMPTS: u32 = 3;

/// Treatments for `--with`: all but vanilla, which every pair has.
fn treatments() -> &'static [Treatment] {
    Treatment::ALL.split_first().map_or(&[], |(_, rest)| rest)
}

impl From<PenaltyArgs> for Options {
    fn from(args: PenaltyArgs) -> Options {
        let defaults = Options::default();
        let (mut treatments, mut victim_seconds) = (
            args.treatments,
            args.victim_time.map(|time| time.as_secs_f64()),
        );
        if args.grid {
            victim_seconds.get_or_insert(GRID_VICTIM_SECONDS);
            if treatments.is_empty() {
                treatments.push(Treatment::Enforced);
            }
        }
        Options {
            quick: args.quick,
            output: args.output,
            pairs: args.pairs.unwrap_or(defaults.pairs),
            attempts: if args.grid {
                GRID_ATTEMPTS
            } else {
                defaults.attempts
            },
            stop_after: args.stop_after,
            victim_seconds,
            victim_cpu: args.host.victim_cpu,
            peer_cpu: args.host.peer_cpu,
            seed: args.host.seed,
            ledger: !args.no_ledger,
            segmentation_offload: args.segmentation_offload,
            made_by: args.runtime,
            trace: args.trace,
            treatments,
            filter: Filter {
                ids: args.cell,
                victims: args.victim,
                interferers: args.interferer,
                directions: args.direction,
                paths: args.path,
                flows: args.flows,
                payloads_bytes: args.payload,
                htb_gbit_per_s: args.htb,
                victim_shares_pct: args.victim_share,
                limits: args.limit,
                offenders: args.offenders,
                victims_in: args.victim_in,
            },
        }
    }
}

impl Bench for PenaltyArgs {
    fn run(self, progress: &mut dyn Progress) -> Result<Answer, BenchError> {
        super::run(&self.into(), progress).map(Answer::run)
    }
}
