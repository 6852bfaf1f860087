//! `cofferdam agent` and the commands that ask it: `status`, `explain`, `rule`.

use clap::{Args, Subcommand, ValueEnum};
use cofferdam_agent::Matcher;
use cofferdam_types::{CpuAmount, quantity};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// `cofferdam agent`
#[derive(Debug, Args)]
pub struct AgentArgs {
    /// Configuration file [default: /etc/cofferdam/cofferdam.toml; if it does not exist the agent
    /// observes and changes nothing]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Print every problem of the configuration, and exit
    #[arg(long, group = "instead")]
    pub check_config: bool,
    /// Revert what a killed agent has changed on this host, and exit
    #[arg(long, group = "instead")]
    pub restore: bool,
    /// Make the running agent reload its configuration, and exit
    #[arg(long, group = "instead")]
    pub reload: bool,
    /// Make the running agent revert all changes and stop, and exit
    #[arg(long, group = "instead")]
    pub stop: bool,
    /// Agent for --reload, --restore and --stop.
    #[command(flatten)]
    pub agent: SocketArgs,
}

/// `cofferdam status`
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Print one JSON document instead of the tables
    #[arg(long)]
    pub json: bool,
    /// Agent to ask.
    #[command(flatten)]
    pub agent: SocketArgs,
}

/// `cofferdam explain`
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// Print one JSON document instead of the text
    #[arg(long)]
    pub json: bool,
    /// How long to measure, in three readings
    #[arg(long, value_name = "DURATION", default_value = "1500ms", value_parser = explained)]
    pub duration: Duration,
    /// Agent to ask.
    #[command(flatten)]
    pub agent: SocketArgs,
}

/// `cofferdam web`
#[derive(Debug, Args)]
pub struct WebArgs {
    /// Address of the page: IP:PORT, or unix:/PATH
    #[arg(long, value_name = "ADDRESS", default_value = cofferdam_web::DEFAULT_ADDRESS)]
    pub address: cofferdam_web::Address,
    /// Another host name of the page, such as that of a proxy; several are
    /// possible
    #[arg(long = "host", value_name = "NAME")]
    pub hosts: Vec<String>,
    /// Serve on an address that other hosts reach, although the page has no TLS
    #[arg(long)]
    pub remote: bool,
    /// Show the cores of the dataplane with this control socket; several are possible
    #[arg(long = "dataplane", value_name = "SOCKET")]
    pub dataplanes: Vec<PathBuf>,
    /// Agent to ask.
    #[command(flatten)]
    pub agent: SocketArgs,
}

/// Parses the length of a measurement to explain: three readings, each at least
/// [`quantity::SHORTEST_INTERVAL`].
fn explained(text: &str) -> Result<Duration, String> {
    let value = quantity::duration(text)?;
    if value < 3 * quantity::SHORTEST_INTERVAL {
        return Err("the shortest is 30ms, three readings of 10ms".to_owned());
    }
    Ok(value)
}

/// `cofferdam rule …`
#[derive(Debug, Subcommand)]
pub enum RuleCommand {
    /// Put a rule in force, before those of the configuration
    Set(RuleSetArgs),
    /// Clear a rule that was set
    Clear(RuleClearArgs),
}

/// `cofferdam rule set`
#[derive(Debug, Args)]
pub struct RuleSetArgs {
    /// Containers it applies to, as in the configuration: NAME, id:PREFIX, cgroup:PATH, netns:NAME,
    /// pid:N, label:KEY=VALUE, namespace:NAME or qos:CLASS
    #[arg(value_name = "MATCH")]
    pub matches: Matcher,
    /// Class of their network CPU
    #[arg(long, value_enum)]
    pub network_cpu: Option<NetworkClass>,
    /// Class of their CPU
    #[arg(long, value_enum)]
    pub cpu: Option<CpuClass>,
    /// CPUs to reserve, such as 1.5; with --cpu strict
    #[arg(long, value_name = "CPUS")]
    pub cpus: Option<CpuAmount>,
    /// Wait this long for an agent that is starting, such as 30s
    #[arg(long, value_name = "DURATION", value_parser = quantity::duration)]
    pub wait: Option<Duration>,
    /// Agent to ask.
    #[command(flatten)]
    pub agent: SocketArgs,
}

/// Classes of network CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum NetworkClass {
    // No documentation of each variant: clap would print it as help, and the words suffice.
    Observe,
    Enforce,
}

/// Classes of CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CpuClass {
    // No documentation of each variant: clap would print it as help, and the words suffice.
    Standard,
    Strict,
}

/// `cofferdam rule clear`
#[derive(Debug, Args)]
pub struct RuleClearArgs {
    /// The containers, as they were given to `rule set`
    #[arg(value_name = "MATCH")]
    pub matches: Matcher,
    /// Agent to ask.
    #[command(flatten)]
    pub agent: SocketArgs,
}

/// Socket on which the running agent listens.
#[derive(Clone, Debug, Default, Args)]
pub struct SocketArgs {
    /// Socket of the running agent [default: that of /etc/cofferdam/cofferdam.toml, or
    /// /run/cofferdam/agent.sock]
    #[arg(long, value_name = "PATH", overrides_with = "socket")]
    pub socket: Option<PathBuf>,
}

impl SocketArgs {
    /// Socket that the option names, or that of the default configuration.
    pub fn path(&self) -> PathBuf {
        self.path_by(None)
    }

    /// Socket that the option names, or that of the configuration `config`.
    pub fn path_by(&self, config: Option<&Path>) -> PathBuf {
        let named = self.socket.clone();
        named.unwrap_or_else(|| cofferdam_agent::config::socket_of(config))
    }
}
