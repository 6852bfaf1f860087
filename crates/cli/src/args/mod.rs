//! The command line. Scripts depend on it: names and meanings here stay.

mod agent;
mod bench;
mod dataplane;
pub mod values;

pub use crate::latency::args::LatencyCommand;
pub use agent::{AgentArgs, SocketArgs, StatusArgs};
pub use bench::{
    BenchAccountingArgs, BenchAgentArgs, BenchCommand, BenchDataplaneArgs, BenchIsolationArgs,
    BenchLatencyArgs, BenchReservationArgs, CompareArgs, HostArgs, PenaltyArgs, RunArgs,
};
pub use dataplane::{
    DataplaneCommand, DataplaneGroupsArgs, DataplaneMoveArgs, DataplaneRunArgs, DataplaneServeArgs,
    DataplaneTopArgs, Server,
};

use clap::{Args, Parser, Subcommand, ValueEnum};
use cofferdam_types::Selector;
use std::path::PathBuf;
use std::time::Duration;

/// Keeps containers on one host from taking each other's CPU, latency and network.
#[derive(Debug, Parser)]
#[command(
    name = "cofferdam",
    version = env!("COFFERDAM_VERSION"),
    subcommand_required = true,
    arg_required_else_help = false,
    after_help = "Exit codes: 0 done, 1 failed, 2 usage, 3 this host lacks something, \
                  130 interrupted after cleaning up."
)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Every command.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Say what this host can do, what is missing, and the remedy
    Doctor(DoctorArgs),
    /// Show live which container causes the kernel's network work, and who pays for it
    Top(TopArgs),
    /// Record the ledger of every container
    #[command(subcommand)]
    Accounting(AccountingCommand),
    /// Run the daemon that gives each container the classes of its rule
    Agent(AgentArgs),
    /// Say what the running agent does, and what is not as it should be
    Status(StatusArgs),
    /// Measure what a container's own network path adds to each packet
    #[command(subcommand)]
    Latency(LatencyCommand),
    /// Serve latency-critical traffic past the kernel, the application in a process of its own
    #[command(subcommand)]
    Dataplane(DataplaneCommand),
    /// Measure how well this host keeps containers apart
    #[command(subcommand)]
    Bench(BenchCommand),
    /// Render the report of a benchmark run again, from its data alone
    Report(ReportArgs),
    /// Show the main job on this host, in about a minute
    Demo(DemoArgs),
    /// Run one part of a benchmark (started by `cofferdam bench`)
    #[command(hide = true, disable_help_flag = true)]
    BenchWorker(WorkerArgs),
    /// Write what is made from this definition: manual pages, completions, schemas
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
    /// One JSON document instead of the table
    #[arg(long)]
    pub json: bool,
}

/// Which containers.
#[derive(Clone, Debug, Default, Args)]
pub struct ContainerArgs {
    /// Only this container: NAME, id:PREFIX, cgroup:PATH, netns:NAME or pid:N; names and
    /// paths take globs; may be repeated
    #[arg(long = "container", value_name = "SELECTOR")]
    pub containers: Vec<Selector>,
}

/// `cofferdam top`
#[derive(Debug, Args)]
pub struct TopArgs {
    /// Which containers.
    #[command(flatten)]
    pub containers: ContainerArgs,
    /// Which agent.
    #[command(flatten)]
    pub agent: SocketArgs,
    /// Measure one interval, print it as a table and end
    #[arg(long)]
    pub once: bool,
    /// Measure one interval, print it as one JSON document and end
    #[arg(long)]
    pub json: bool,
    /// Time between readings, with its unit
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = values::interval)]
    pub interval: Duration,
    /// Show CPU that containers were entitled to and did not get, and why
    #[arg(long, value_name = "on|off", value_enum, default_value_t = Switch::On)]
    pub diagnosis: Switch,
}

/// Something that can be switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    // No documentation of each: clap would show it as help, and the words say it.
    On,
    Off,
}

/// `cofferdam accounting record`
#[derive(Debug, Args)]
pub struct RecordArgs {
    /// Which containers.
    #[command(flatten)]
    pub containers: ContainerArgs,
    /// Which agent.
    #[command(flatten)]
    pub agent: SocketArgs,
    /// How long to record, with its unit
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = values::interval)]
    pub duration: Duration,
    /// Time between readings, with its unit
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = values::interval)]
    pub interval: Duration,
    /// A table for people, or JSON Lines (schema cofferdam.accounting/1)
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
    /// One JSON object a line.
    Jsonl,
}

/// `cofferdam report`
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Directory of a run, as `cofferdam bench … --output DIR` made it; several parts of one
    /// isolation experiment are merged into the one that --output names
    #[arg(value_name = "DIR", required = true)]
    pub dirs: Vec<PathBuf>,
    /// New directory for the parts together
    #[arg(long, value_name = "DIR")]
    pub output: Option<PathBuf>,
}

/// `cofferdam demo`
#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Directory for the run's data and report; it must not exist, or be empty
    #[arg(long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Where it runs.
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
    /// What to write
    #[arg(value_enum)]
    pub what: Generated,
    /// Directory to write to; made if it is not there
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
}

/// What `cofferdam generate` can write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Generated {
    /// Manual pages, section 1.
    Man,
    /// Completions for bash, zsh and fish.
    Completions,
    /// JSON Schemas of everything that `--json` and jsonl print.
    Schemas,
}

#[cfg(test)]
mod tests;
