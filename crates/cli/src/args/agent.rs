//! `cofferdam agent` and `cofferdam status`.

use clap::Args;
use std::path::PathBuf;

/// `cofferdam agent`
#[derive(Debug, Args)]
pub struct AgentArgs {
    /// The configuration [default: /etc/cofferdam/cofferdam.toml; without that file the agent
    /// observes and changes nothing]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Say all that is wrong with the configuration, and end
    #[arg(long, group = "instead")]
    pub check_config: bool,
    /// Take back what an agent that was killed has changed on this host, and end
    #[arg(long, group = "instead", conflicts_with = "config")]
    pub restore: bool,
    /// Have the running agent read its configuration again, and end
    #[arg(long, group = "instead", conflicts_with = "config")]
    pub reload: bool,
    /// Have the running agent take back all that it changed and stop, and end
    #[arg(long, group = "instead", conflicts_with = "config")]
    pub stop: bool,
    /// Which agent --reload and --stop mean.
    #[command(flatten)]
    pub agent: SocketArgs,
}

/// `cofferdam status`
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// One JSON document instead of the tables
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
