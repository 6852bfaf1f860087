//! `cofferdam agent` and `cofferdam status`.

use clap::Args;
use std::path::PathBuf;

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
    #[arg(long, group = "instead", conflicts_with = "config")]
    pub restore: bool,
    /// Make the running agent reload its configuration, and exit
    #[arg(long, group = "instead", conflicts_with = "config")]
    pub reload: bool,
    /// Make the running agent revert all changes and stop, and exit
    #[arg(long, group = "instead", conflicts_with = "config")]
    pub stop: bool,
    /// The agent for --reload and --stop.
    #[command(flatten)]
    pub agent: SocketArgs,
}

/// `cofferdam status`
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Print one JSON document instead of the tables
    #[arg(long)]
    pub json: bool,
    /// Which agent.
    #[command(flatten)]
    pub agent: SocketArgs,
}

/// Where the running agent listens.
#[derive(Clone, Debug, Args)]
pub struct SocketArgs {
    /// Socket of the running agent
    #[arg(long, value_name = "PATH", default_value = cofferdam_agent::config::DEFAULT_SOCKET)]
    pub socket: PathBuf,
}

impl Default for SocketArgs {
    fn default() -> SocketArgs {
        SocketArgs {
            socket: cofferdam_agent::config::DEFAULT_SOCKET.into(),
        }
    }
}
