//! `cofferdam dataplane …`

use clap::{Args, Subcommand, ValueEnum};
use cofferdam_types::quantity;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// `cofferdam dataplane …`
#[derive(Debug, Subcommand)]
pub enum DataplaneCommand {
    /// Run a dataplane: device, loop and control plane of one configuration
    Run(DataplaneRunArgs),
    /// Show the activity of a running dataplane, live or once
    Top(DataplaneTopArgs),
    /// Show how a running dataplane's connections and segments are spread over its flow groups
    Groups(DataplaneGroupsArgs),
    /// Move a flow group of a running dataplane to another core
    Move(DataplaneMoveArgs),
    /// Run an unmodified program with its TCP sockets on a running dataplane
    ///
    /// The program's TCP sockets at the dataplane's addresses, and the connections that it opens
    /// to the dataplane's networks, are served by the dataplane; everything else stays with the
    /// kernel. The command refuses programs that the library cannot enter or that make their own
    /// system calls: statically linked, set-uid and set-gid ones, those with file capabilities, Go
    /// programs. io_uring is refused to the program (ENOSYS), and set-uid programs that it starts
    /// gain no rights.
    #[command(after_help = EXEC_HELP)]
    Exec(DataplaneExecArgs),
    /// Run a small server on a running dataplane, to try it
    Serve(DataplaneServeArgs),
    /// Try the protection of domain = "pkey" on this host, by attacks
    ///
    /// Starts a dataplane without a network in a process of its own for each attack, lets an
    /// application behind protection keys try it, and shows what stopped it. Changes nothing on the
    /// host.
    #[command(after_help = ATTACK_HELP)]
    Attack(DataplaneAttackArgs),
}

const ATTACK_HELP: &str = "\
Exit code: 0 when every attack was stopped, 1 when one succeeded, 3 where there are no protection \
keys.";

/// `cofferdam dataplane attack`
#[derive(Debug, Args)]
pub struct DataplaneAttackArgs {
    /// Print one JSON document (schema cofferdam.dataplane-attack/1)
    #[arg(long)]
    pub json: bool,
    /// Try this attack alone, in this process, and print one line
    #[arg(long, value_name = "NAME")]
    pub one: Option<String>,
}

const EXEC_HELP: &str = "\
Options of this command come before the program; all that follows is the program's, with or without
`--` before it.

Exit code: the program's own once it runs; before, 1 when it is refused or no dataplane answers, 2
for a wrong command line, 3 when the library is missing.";

/// User, waiting time and socket with which an application attaches.
#[derive(Debug, Args)]
pub struct DataplaneAttachArgs {
    /// Switch to this user before attaching; it must be the application's user in the configuration
    #[arg(long, value_name = "NAME|UID")]
    pub user: Option<String>,
    /// How long to wait for the dataplane to listen; 0s does not wait
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = quantity::wait)]
    pub wait: Duration,
    /// Socket of the running dataplane
    #[arg(long, value_name = "PATH", default_value = cofferdam_dataplane::config::DEFAULT_SOCKET)]
    pub socket: PathBuf,
}

/// `cofferdam dataplane exec`
#[derive(Debug, Args)]
pub struct DataplaneExecArgs {
    /// Name of the application in the dataplane's configuration [default: the program's name]
    #[arg(long)]
    pub name: Option<String>,
    #[command(flatten)]
    pub attach: DataplaneAttachArgs,
    /// The program and its arguments
    #[arg(trailing_var_arg = true, required = true, value_name = "PROGRAM")]
    pub command: Vec<OsString>,
}

/// `cofferdam dataplane serve`
#[derive(Debug, Args)]
pub struct DataplaneServeArgs {
    /// The server
    #[arg(value_enum)]
    pub server: Server,
    /// Address and port to serve, which the configuration must allow for this name
    #[arg(value_name = "ADDRESS:PORT")]
    pub address: SocketAddr,
    /// Name of the application in the dataplane's configuration
    #[arg(long)]
    pub name: String,
    #[command(flatten)]
    pub attach: DataplaneAttachArgs,
}

/// A small server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Server {
    /// Returns what it receives, over TCP and UDP
    Echo,
    /// HTTP/1.1: `/`, `/bytes/N`
    Http,
    /// memcached's text protocol: get, set, delete, stats; 64 MiB
    Memcached,
}

/// `cofferdam dataplane run`
#[derive(Debug, Args)]
pub struct DataplaneRunArgs {
    /// Configuration file
    #[arg(long, value_name = "FILE")]
    pub config: PathBuf,
    /// Print every mistake in the configuration, and exit
    #[arg(long)]
    pub check_config: bool,
}

/// `cofferdam dataplane top`
#[derive(Debug, Args)]
pub struct DataplaneTopArgs {
    /// Socket of the running dataplane
    #[arg(long, value_name = "PATH", default_value = cofferdam_dataplane::config::DEFAULT_SOCKET)]
    pub socket: PathBuf,
    /// Measure one interval, print it, and exit
    #[arg(long)]
    pub once: bool,
    /// Print all counters since the start as one JSON document (schema cofferdam.dataplane/1), and
    /// exit
    #[arg(long)]
    pub json: bool,
    /// Time between readings, with its unit
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = quantity::interval)]
    pub interval: Duration,
}

/// `cofferdam dataplane move`
#[derive(Debug, Args)]
pub struct DataplaneMoveArgs {
    /// The flow group, 0 to 127 (see `cofferdam dataplane groups`)
    pub group: u8,
    /// Number of the core, from 0, in the order of the configuration
    pub core: u8,
    /// Socket of the running dataplane
    #[arg(long, value_name = "PATH", default_value = cofferdam_dataplane::config::DEFAULT_SOCKET)]
    pub socket: PathBuf,
}

/// `cofferdam dataplane groups`
#[derive(Debug, Args)]
pub struct DataplaneGroupsArgs {
    /// Socket of the running dataplane
    #[arg(long, value_name = "PATH", default_value = cofferdam_dataplane::config::DEFAULT_SOCKET)]
    pub socket: PathBuf,
    /// Print one JSON document (schema cofferdam.dataplane-groups/1)
    #[arg(long)]
    pub json: bool,
}
