//! `cofferdam bench …`

use super::values;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use cofferdam_bench::agent::data::AgentExperiment;
use cofferdam_bench::data::{Direction, Interferer, Limit, Path, Treatment, VictimKind};
use cofferdam_bench::dataplane::data::DataplaneExperiment;
use cofferdam_bench::isolation::data::{Resource, RuntimeKind, Scenario};
use cofferdam_bench::latency::data::LatencyExperiment;
use cofferdam_bench::reservation::data::{NeighbourLimit, Neighbours, ReservationPolicy, Target};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// `cofferdam bench …`
#[derive(Debug, Subcommand)]
pub enum BenchCommand {
    /// How much longer a job takes next to traffic than next to an equally entitled compute job
    Penalty(Box<PenaltyArgs>),
    /// The accuracy and the cost of the latency measurement
    Latency(BenchLatencyArgs),
    /// The cost and the accuracy of the accounting
    Accounting(BenchAccountingArgs),
    /// What a CPU reservation is worth next to neighbours, for each policy
    Reservation(BenchReservationArgs),
    /// The cost of the agent, and of its diagnosis
    Agent(BenchAgentArgs),
    /// The dataplane compared with Linux sockets: latency, throughput, connections, batch bound
    Dataplane(BenchDataplaneArgs),
    /// How well a runtime isolates two tenants: CPU, memory, disk, network
    Isolation(Box<BenchIsolationArgs>),
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

/// What every benchmark takes.
#[derive(Clone, Debug, Args)]
pub struct RunArgs {
    /// A short grid, a few minutes
    #[arg(long)]
    pub quick: bool,
    /// Directory for the run's data and report; it must be new or empty
    #[arg(long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Measured pairs in each cell; at least 5 for a confidence interval
    #[arg(long, value_name = "N", value_parser = values::positive)]
    pub pairs: Option<u32>,
    /// Where it runs.
    #[command(flatten)]
    pub host: HostArgs,
}

/// What a benchmark takes that finds its CPUs itself.
#[derive(Clone, Debug, Args)]
pub struct ShortRunArgs {
    /// Fewer conditions and shorter samples, a few minutes
    #[arg(long)]
    pub quick: bool,
    /// Directory for the run's data and report; it must be new or empty
    #[arg(long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Seed of the order of samples and of the bootstrap
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
}

/// CPUs and chance.
#[derive(Clone, Debug, Args)]
pub struct HostArgs {
    /// CPU shared by victim, competitor and softirq [default: the first one]
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
    /// Creates the containers: this program (process), or podman with runc; podman's have no path
    /// veth
    #[arg(long, value_name = "RUNTIME", default_value = "process", value_parser = one_of(&[RuntimeKind::Process, RuntimeKind::Podman], RuntimeKind::label))]
    pub runtime: RuntimeKind,
    /// Only the cell with this id, such as cpu/flood/receiver/veth/3x200B; may be repeated
    #[arg(long, value_name = "ID")]
    pub cell: Vec<String>,
    /// Time the victim's work takes alone, with its unit, 10ms to 60s [default: 2s; 500ms with
    /// --quick]
    #[arg(long, value_name = "DURATION", value_parser = values::interval)]
    pub victim_time: Option<Duration>,
    /// Trace of the shuffle, as CSV start_ms,flow,bytes [default: the built-in one]
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Only these shares of the CPU for the victim, percent; may be repeated or separated by
    /// commas
    #[arg(long, value_name = "PERCENT", value_delimiter = ',', value_parser = values::positive)]
    pub victim_share: Vec<u32>,
    /// Only cells whose shares are set by these means
    #[arg(long, value_name = "MEANS", value_delimiter = ',', value_parser = one_of(Limit::ALL, Limit::label))]
    pub limit: Vec<Limit>,
    /// Only with these numbers of competing containers
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = values::positive)]
    pub offenders: Vec<u32>,
    /// Also measure this treatment, in the same pairs as vanilla; may be repeated or separated by commas
    #[arg(long = "with", value_name = "TREATMENT", value_delimiter = ',', value_parser = one_of(treatments(), Treatment::label))]
    pub treatments: Vec<Treatment>,
    /// Do not run the accounting during the measurement
    #[arg(long)]
    pub no_ledger: bool,
    /// Let TCP senders pass segments larger than a packet, which hides most of their cost
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

/// `cofferdam bench reservation`
#[derive(Clone, Debug, Args)]
pub struct BenchReservationArgs {
    /// Length, place and chance.
    #[command(flatten)]
    pub run: ShortRunArgs,
    /// Rounds, each of which measures every policy once [default: 5]
    #[arg(long, value_name = "N", value_parser = values::positive)]
    pub rounds: Option<u32>,
    /// CPUs that the target requests [default: half of the host's]
    #[arg(long, value_name = "N", value_parser = values::positive)]
    pub cpus: Option<u32>,
    /// Threads of a batch target [default: two for each CPU that it requests]
    #[arg(long, value_name = "N", value_parser = values::positive)]
    pub threads: Option<u32>,
    /// Only these targets; may be repeated or separated by commas
    #[arg(long, value_name = "TARGET", value_delimiter = ',', value_parser = one_of(Target::ALL, Target::label))]
    pub target: Vec<Target>,
    /// Only these neighbours; may be repeated or separated by commas
    #[arg(long, value_name = "KIND", value_delimiter = ',', value_parser = one_of(Neighbours::ALL, Neighbours::label))]
    pub neighbours: Vec<Neighbours>,
    /// Only capped or only burstable neighbours
    #[arg(long, value_name = "LIMIT", value_delimiter = ',', value_parser = one_of(NeighbourLimit::ALL, NeighbourLimit::label))]
    pub limit: Vec<NeighbourLimit>,
    /// Only these policies, and `alone`; may be repeated or separated by commas
    #[arg(long, value_name = "POLICY", value_delimiter = ',', value_parser = one_of(ReservationPolicy::ALL, ReservationPolicy::label))]
    pub policy: Vec<ReservationPolicy>,
}

/// `cofferdam bench latency`
#[derive(Clone, Debug, Args)]
pub struct BenchLatencyArgs {
    /// Length, place and chance.
    #[command(flatten)]
    pub run: ShortRunArgs,
    /// Blocks of each case [default: 15; 7 with --quick]
    #[arg(long, value_name = "N", value_parser = values::positive)]
    pub pairs: Option<u32>,
    /// Only these experiments; may be repeated or separated by commas
    #[arg(long, value_name = "EXPERIMENT", value_delimiter = ',', value_parser = one_of(LatencyExperiment::ALL, LatencyExperiment::label))]
    pub experiment: Vec<LatencyExperiment>,
}

/// `cofferdam bench agent`
#[derive(Clone, Debug, Args)]
pub struct BenchAgentArgs {
    /// Length, place and chance.
    #[command(flatten)]
    pub run: ShortRunArgs,
    /// Rounds, each of which measures every duty of the agent once; the diagnosis has six off/on
    /// pairs per round [default: 10; 5 with --quick]
    #[arg(long, value_name = "N", value_parser = values::positive)]
    pub rounds: Option<u32>,
    /// Containers that the agent manages, at most 200 [default: 100]
    #[arg(long, value_name = "N", value_parser = values::positive)]
    pub containers: Option<u32>,
    /// Only these experiments; may be repeated or separated by commas
    #[arg(long, value_name = "EXPERIMENT", value_delimiter = ',', value_parser = one_of(AgentExperiment::ALL, AgentExperiment::label))]
    pub experiment: Vec<AgentExperiment>,
}

/// `cofferdam bench dataplane`
#[derive(Clone, Debug, Args)]
pub struct BenchDataplaneArgs {
    /// Length, place and chance.
    #[command(flatten)]
    pub run: ShortRunArgs,
    /// Rounds, each of which measures every condition once [default: 7; 5 with --quick]
    #[arg(long, value_name = "N", value_parser = values::positive)]
    pub rounds: Option<u32>,
    /// Only these experiments; may be repeated or separated by commas
    #[arg(long, value_name = "EXPERIMENT", value_delimiter = ',', value_parser = one_of(DataplaneExperiment::ALL, DataplaneExperiment::label))]
    pub experiment: Vec<DataplaneExperiment>,
}

/// `cofferdam bench isolation`
#[derive(Clone, Debug, Args)]
pub struct BenchIsolationArgs {
    /// The experiment, as YAML
    #[arg(long, value_name = "FILE", conflicts_with_all = ["quick", "paper"])]
    pub experiment: Option<PathBuf>,
    /// The whole matrix in about 10 minutes a runtime [the default]
    #[arg(long)]
    pub quick: bool,
    /// As in the paper: scenarios of 30 minutes, ten times
    #[arg(long, conflicts_with = "quick")]
    pub paper: bool,
    /// Directory for the run's data and report; if it holds the same experiment, the run resumes
    #[arg(long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Only these runtimes; may be repeated or separated by commas
    #[arg(long, value_name = "RUNTIME", value_delimiter = ',', value_parser = one_of(RuntimeKind::ALL, RuntimeKind::label))]
    pub runtime: Vec<RuntimeKind>,
    /// Only these resources; may be repeated or separated by commas
    #[arg(long, value_name = "RESOURCE", value_delimiter = ',', value_parser = one_of(Resource::ALL, Resource::label))]
    pub resource: Vec<Resource>,
    /// Only these scenarios, such as a_s_b_f, with their baselines; may be repeated or separated
    /// by commas
    #[arg(long, value_name = "SCENARIO", value_delimiter = ',')]
    pub scenario: Vec<Scenario>,
    /// Measured blocks; at least 5 for a confidence interval
    #[arg(long, value_name = "N", value_parser = values::positive)]
    pub repetitions: Option<u32>,
    /// Seed of the orders and of the bootstrap
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// End in order after this long; the next call with the same --output resumes
    #[arg(long, value_name = "DURATION", value_parser = values::duration)]
    pub stop_after: Option<Duration>,
    /// Repeat every measurement with Cofferdam's agent managing the tenants
    #[arg(long)]
    pub cofferdam: bool,
    /// Measure nothing; print the experiment as a workflow for a cluster
    #[arg(long, value_name = "FORMAT", value_parser = ["argo"])]
    pub emit: Option<String>,
    /// Container image of the workflow
    #[arg(
        long,
        value_name = "IMAGE",
        requires = "emit",
        default_value = "localhost/cofferdam"
    )]
    pub image: String,
}

/// All but vanilla, which every pair has.
fn treatments() -> &'static [Treatment] {
    Treatment::ALL.split_first().map_or(&[], |(_, rest)| rest)
}

/// A word out of `all`, spelled by `label`.
fn one_of<T>(all: &'static [T], label: fn(T) -> &'static str) -> impl TypedValueParser<Value = T>
where
    T: Copy + FromStr<Err = String> + Send + Sync + 'static,
{
    PossibleValuesParser::new(all.iter().map(|value| PossibleValue::new(label(*value))))
        .try_map(|word| word.parse::<T>().map_err(std::io::Error::other))
}
