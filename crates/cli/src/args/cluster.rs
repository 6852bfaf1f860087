//! `cofferdam kubectl …`, which is `kubectl cofferdam …`, and the daemons of a cluster.

use super::SocketArgs;
use clap::{Args, Subcommand};
use cofferdam_types::quantity;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// `cofferdam kubectl …`
#[derive(Debug, Subcommand)]
pub enum KubectlCommand {
    /// Show the offenders and the victims among the pods of all nodes, by namespace
    Top(KubectlTopArgs),
    /// Show the agents of all nodes, and any problems
    Status(KubectlStatusArgs),
    /// Explain in words what is wrong with a pod now: who harms it, or whom it harms
    Explain(KubectlExplainArgs),
    /// Report what each node can do, what is missing, and the remedy
    Doctor(KubectlDoctorArgs),
}

/// Cluster to ask, and the way to ask it.
#[derive(Clone, Debug, Args)]
pub struct ClusterArgs {
    /// Namespace of the agents
    #[arg(long, value_name = "NAMESPACE", default_value = "cofferdam")]
    pub agents: String,
    /// Secret with the token of the agents
    #[arg(long, value_name = "NAME", default_value = "cofferdam-gateway")]
    pub token_secret: String,
    /// The context of the kubeconfig to use
    #[arg(long, value_name = "NAME")]
    pub context: Option<String>,
    /// The kubeconfig to use
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Ask through a kubectl proxy that runs already: IP:PORT, or the path of its socket
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["context", "kubeconfig"])]
    pub proxy: Option<String>,
    /// Agents asked at the same time
    #[arg(long, value_name = "N", default_value_t = cofferdam_cluster::ask::PARALLEL,
          value_parser = parallel)]
    pub parallel: usize,
    /// Time within which all must have answered
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = quantity::duration)]
    pub timeout: Duration,
    /// Print one JSON document instead of the text
    #[arg(long)]
    pub json: bool,
}

/// `cofferdam kubectl top`
#[derive(Debug, Args)]
pub struct KubectlTopArgs {
    /// Only pods of this namespace, on the side that harms or on the side that pays
    #[arg(long, short, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// Rows of each table, at most
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub rows: usize,
    /// Cluster to ask.
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// `cofferdam kubectl status`
#[derive(Debug, Args)]
pub struct KubectlStatusArgs {
    /// Cluster to ask.
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// `cofferdam kubectl explain`
#[derive(Debug, Args)]
pub struct KubectlExplainArgs {
    /// The pod, as NAME or NAMESPACE/NAME
    #[arg(value_name = "POD")]
    pub pod: String,
    /// Namespace of the pod [default: that of the context]
    #[arg(long, short, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// Cluster to ask.
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// `cofferdam kubectl doctor`
#[derive(Debug, Args)]
pub struct KubectlDoctorArgs {
    /// Only this node, with every capability
    #[arg(value_name = "NODE")]
    pub node: Option<String>,
    /// Cluster to ask.
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// `cofferdam gateway`
#[derive(Debug, Args)]
pub struct GatewayArgs {
    /// Address to serve on
    #[arg(long, value_name = "IP:PORT")]
    pub listen: SocketAddr,
    /// File with the token that clients must show, of at least 32 characters
    #[arg(long, value_name = "FILE")]
    pub token_file: PathBuf,
    /// File with the report of `cofferdam doctor --output`, which is served as well
    #[arg(long, value_name = "FILE")]
    pub doctor_file: Option<PathBuf>,
    /// Agent to ask.
    #[command(flatten)]
    pub agent: SocketArgs,
}

/// `cofferdam device-plugin`
#[derive(Debug, Args)]
pub struct DevicePluginArgs {
    /// CPUs of this node that no strict pod may have
    #[arg(long, value_name = "CPUS", default_value_t = 1)]
    pub keep: u32,
    /// The kubelet's folder of device plugins
    #[arg(
        long,
        value_name = "DIR",
        default_value = cofferdam_cluster::device_plugin::DEFAULT_FOLDER,
    )]
    pub folder: PathBuf,
}

/// `cofferdam events`
#[derive(Debug, Args)]
pub struct EventsArgs {
    /// A kubectl proxy that reaches the API server: IP:PORT, or the path of its socket
    #[arg(long, value_name = "ADDRESS")]
    pub proxy: String,
    /// Namespace of the agents
    #[arg(long, value_name = "NAMESPACE", default_value = "cofferdam")]
    pub agents: String,
    /// File with the token of the gateways
    #[arg(long, value_name = "FILE")]
    pub token_file: PathBuf,
    /// Interval between two rounds of questions to the nodes
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = quantity::interval)]
    pub every: Duration,
    /// Nodes asked at the same time
    #[arg(long, value_name = "N", default_value_t = cofferdam_cluster::ask::PARALLEL,
          value_parser = parallel)]
    pub parallel: usize,
}

fn parallel(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n @ 1..=512) => Ok(n),
        _ => Err("a number from 1 to 512".to_owned()),
    }
}
