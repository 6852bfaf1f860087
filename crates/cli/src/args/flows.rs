//! Arguments of `cofferdam flows`, which prints the flows of a container that cost most network
//! CPU.

use super::SocketArgs;
use clap::Args;
use cofferdam_types::{Selector, quantity};
use std::time::Duration;

/// `cofferdam flows`
#[derive(Debug, Args)]
#[command(
    after_help = "A packet socket in the container's network namespace takes a random sample of \
                  the arriving packets while the command runs: it needs root, costs less than 1% \
                  of a CPU, and leaves nothing. The cost of a flow is its packets times the \
                  container's mean cost of a packet. A container in the host's network namespace \
                  cannot be sampled."
)]
pub struct FlowsArgs {
    /// The container: NAME, id:PREFIX, cgroup:PATH, netns:NAME or pid:N
    #[arg(value_name = "SELECTOR")]
    pub container: Selector,
    /// How long to sample, with its unit
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = quantity::interval)]
    pub duration: Duration,
    /// Show this many flows, the most expensive ones
    #[arg(long, value_name = "COUNT", default_value_t = 20, value_parser = parse_flow_count)]
    pub top: usize,
    /// Print one JSON document instead of the table
    #[arg(long)]
    pub json: bool,
    /// Agent to ask.
    #[command(flatten)]
    pub agent: SocketArgs,
}

/// Parses a count of flows, at most the number that a sample distinguishes.
fn parse_flow_count(text: &str) -> Result<usize, String> {
    let count = quantity::positive(text)?;
    let most = cofferdam_flows::MOST_FLOWS;
    match usize::try_from(count) {
        Ok(count) if count <= most => Ok(count),
        _ => Err(format!("at most {most} flows are distinguished")),
    }
}
