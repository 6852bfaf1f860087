//! The command line. Scripts depend on it: names and meanings here do not change.

mod agent;
mod bench;
mod cluster;
mod dataplane;
pub mod examples;
mod flows;
mod history;
mod simulate;

pub use crate::latency::args::LatencyCommand;
pub use agent::{
    AgentArgs, CpuClass, ExplainArgs, NetworkClass, RuleClearArgs, RuleCommand, RuleSetArgs,
    SocketArgs, StatusArgs, WebArgs,
};
pub use bench::{BenchCommand, CompareArgs};
pub use cluster::{
    ClusterArgs, DevicePluginArgs, EventsArgs, GatewayArgs, KubectlCommand, KubectlDoctorArgs,
    KubectlExplainArgs, KubectlStatusArgs, KubectlTopArgs,
};
pub use dataplane::{
    DataplaneAttackArgs, DataplaneCommand, DataplaneExecArgs, DataplaneGroupsArgs,
    DataplaneMoveArgs, DataplaneRunArgs, DataplaneServeArgs, DataplaneTopArgs, Server,
};
pub use flows::FlowsArgs;
pub use history::{ExportArgs, ExportFormat, HistoryArgs};
pub use simulate::SimulateArgs;

use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use cofferdam_bench::args::HostArgs;
use cofferdam_types::{Selector, quantity};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

/// Isolates the CPU, latency and network of containers that share a host.
#[derive(Debug, Parser)]
#[command(
    name = "cofferdam",
    version = env!("COFFERDAM_VERSION"),
    subcommand_required = false,
    args_conflicts_with_subcommands = true,
    arg_required_else_help = false,
    after_help = "Without a command: whether the agent runs, who pays for whom now, and what to do \
                  next.\n\n\
                  Exit codes: 0 success, 1 failure, 2 usage error, 3 the host lacks a requirement, \
                  130 interrupted, after cleaning up."
)]
pub struct Cli {
    /// Command; without one the state of this host is printed.
    #[command(subcommand)]
    pub command: Option<Command>,
    /// Agent to ask.
    #[command(flatten)]
    pub agent: SocketArgs,
}

impl Cli {
    /// Definition with the examples in its help, which is wrapped to `width` columns.
    pub fn definition(width: u16) -> clap::Command {
        examples::add(Cli::command(), "").term_width(usize::from(width))
    }
}

/// Command of the program.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Report what this host can do, what is missing, and the remedy
    Doctor(DoctorArgs),
    /// Watch live which containers cause network work and which pay for it
    Top(TopArgs),
    /// Show the flows to a container, by 5-tuple and cost
    Flows(FlowsArgs),
    /// Record the ledger of every container
    #[command(subcommand)]
    Accounting(AccountingCommand),
    /// Run the daemon that applies rules to containers
    Agent(AgentArgs),
    /// Show what the running agent does, and any problems
    Status(StatusArgs),
    /// Write a part of the history that the agent keeps to a file
    Export(ExportArgs),
    /// Explain in words what is wrong now, since when, how sure, and the command that helps
    Explain(ExplainArgs),
    /// Serve a live page of the running agent for a browser, until interrupted
    Web(WebArgs),
    /// Assign another class to containers until the agent ends
    #[command(subcommand)]
    Rule(RuleCommand),
    /// Show who harms whom in a Kubernetes cluster, as `kubectl cofferdam`
    #[command(subcommand)]
    Kubectl(KubectlCommand),
    /// Serve the answers of this node's agent to clients in the cluster that have the token
    Gateway(GatewayArgs),
    /// Have the scheduler count the CPUs of this node that strict pods may have
    DevicePlugin(DevicePluginArgs),
    /// Write the conditions of pods as events of a Kubernetes cluster
    Events(EventsArgs),
    /// Measure what a container's own network path adds to each packet
    #[command(subcommand)]
    Latency(LatencyCommand),
    /// Serve addresses without the kernel's network stack, for applications in separate processes
    #[command(subcommand)]
    Dataplane(DataplaneCommand),
    /// Measure how well this host isolates containers
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Simulate the CPU time of tenants on a host of any size, with and without
    /// reservations
    Simulate(SimulateArgs),
    /// Render the report of a benchmark run again from its data, or report on a fleet
    Report(ReportArgs),
    /// Demonstrate isolation on this host, in about a minute
    Demo(DemoArgs),
    /// Run one part of a benchmark (started by `cofferdam bench`)
    #[command(hide = true, disable_help_flag = true)]
    BenchWorker(WorkerArgs),
    /// Generate manual pages, completions or schemas from this definition
    #[command(hide = true)]
    Generate(GenerateArgs),
}

/// `cofferdam accounting …`
#[derive(Debug, Subcommand)]
pub enum AccountingCommand {
    /// Write the ledger of every container, interval by interval
    Record(RecordArgs),
}

/// `cofferdam doctor`
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Print one JSON document instead of the table
    #[arg(long)]
    pub json: bool,
    /// Write to this file instead of to standard output
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace a file that exists
    #[arg(long, requires = "output")]
    pub force: bool,
}

/// Selection of containers.
#[derive(Clone, Debug, Default, Args)]
pub struct ContainerArgs {
    /// Only this container: NAME, id:PREFIX, cgroup:PATH, netns:NAME or pid:N; names and
    /// paths accept globs; may be repeated
    #[arg(long = "container", value_name = "SELECTOR")]
    pub containers: Vec<Selector>,
}

/// `cofferdam top`
#[derive(Debug, Args)]
pub struct TopArgs {
    /// Selected containers.
    #[command(flatten)]
    pub containers: ContainerArgs,
    /// Also list cgroups of the host (services, sessions, the root) that cause network work or
    /// pay for it
    #[arg(long)]
    pub all: bool,
    /// Agent to ask.
    #[command(flatten)]
    pub agent: SocketArgs,
    /// Measure one interval, print it as a table, and exit
    #[arg(long)]
    pub once: bool,
    /// Measure one interval, print it as one JSON document, and exit
    #[arg(long)]
    pub json: bool,
    /// Print a table an interval, for a pipe or a file; with --json, a JSON document a line
    #[arg(long, conflicts_with_all = ["once", "replay"])]
    pub batch: bool,
    /// End a batch after this many intervals
    #[arg(long, value_name = "COUNT", requires = "batch", value_parser = quantity::positive)]
    pub iterations: Option<u32>,
    /// Click rows and headings, and turn the wheel; off, the terminal selects text by the mouse.
    /// Key m changes it
    #[arg(long, value_name = "on|off", value_enum, default_value_t = Switch::On)]
    pub mouse: Switch,
    /// Time between readings, with its unit
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = quantity::interval)]
    pub interval: Duration,
    /// Show CPU time that containers were entitled to but did not get, and why
    #[arg(long, value_name = "on|off", value_enum, default_value_t = Switch::On)]
    pub diagnosis: Switch,
    /// Show what the agent recorded at this time: RFC 3339, "yesterday 03:00", "2h ago", "03:00"
    #[arg(
        long,
        value_name = "TIME",
        value_parser = crate::when::parse,
        conflicts_with = "interval",
    )]
    pub replay: Option<SystemTime>,
    /// File of the history for --replay [default: the running agent's, otherwise
    /// /var/lib/cofferdam/history]
    #[arg(long, value_name = "PATH", requires = "replay")]
    pub history: Option<PathBuf>,
}

/// Setting that can be switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    // No documentation of each variant: clap would print it as help, and the words suffice.
    On,
    Off,
}

/// `cofferdam accounting record`
#[derive(Debug, Args)]
pub struct RecordArgs {
    /// Selected containers.
    #[command(flatten)]
    pub containers: ContainerArgs,
    /// Also list cgroups of the host (services, sessions, the root) that cause network work or
    /// pay for it
    #[arg(long)]
    pub all: bool,
    /// Agent to ask.
    #[command(flatten)]
    pub agent: SocketArgs,
    /// How long to record, with its unit
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = quantity::interval)]
    pub duration: Duration,
    /// Time between readings, with its unit
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = quantity::interval)]
    pub interval: Duration,
    /// Tables for people, or JSON Lines (schema cofferdam.accounting/2)
    #[arg(long, value_enum, default_value_t = RecordFormat::Table)]
    pub format: RecordFormat,
    /// Write to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace the file of --output if it exists
    #[arg(long, requires = "output")]
    pub force: bool,
}

/// Form of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RecordFormat {
    /// Tables for people.
    Table,
    /// One JSON object per line.
    Jsonl,
}

/// `cofferdam report`
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct ReportArgs {
    /// Report on something other than a run.
    #[command(subcommand)]
    pub of: Option<ReportCommand>,
    /// Run directory of `cofferdam bench … --output DIR`; several parts of one isolation experiment
    /// are merged into the directory given by --output
    #[arg(value_name = "DIR", required = true)]
    pub dirs: Vec<PathBuf>,
    /// New directory for the merged parts
    #[arg(long, value_name = "DIR")]
    pub output: Option<PathBuf>,
}

/// `cofferdam report …`
#[derive(Debug, Subcommand)]
pub enum ReportCommand {
    /// Merge ledgers of many hosts into one page and Parquet: offenders, victims, and a corrected
    /// bill (needs the program cofferdam-fleet)
    Fleet(cofferdam_fleet_args::ReportArgs),
}

/// `cofferdam demo`
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Directory for the run's data and report; it must be new or empty
    #[arg(long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// CPUs and seed.
    #[command(flatten)]
    pub host: HostArgs,
}

/// `cofferdam bench-worker`
#[derive(Debug, Args)]
pub struct WorkerArgs {
    /// Words for the worker.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub words: Vec<std::ffi::OsString>,
}

/// `cofferdam generate`
#[derive(Debug, Args)]
pub struct GenerateArgs {
    /// Kind of files to write
    #[arg(value_enum)]
    pub what: GeneratedFiles,
    /// Directory to write to; created if missing
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
}

/// Files that `cofferdam generate` can write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum GeneratedFiles {
    /// Manual pages, section 1.
    Man,
    /// Completions for bash, zsh and fish.
    Completions,
    /// JSON Schemas of everything that `--json` and jsonl print.
    Schemas,
}

#[cfg(test)]
mod tests;
