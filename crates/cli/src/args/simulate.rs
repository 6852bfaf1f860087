//! `cofferdam simulate`.

use clap::{Args, ValueEnum};
use cofferdam_simulate::Policy;
use cofferdam_types::quantity;
use std::path::PathBuf;
use std::time::Duration;

/// `cofferdam simulate`
#[derive(Clone, Debug, Args)]
#[command(after_help = "Example hosts and tenants are installed in \
                  share/doc/cofferdam/examples/simulate below the prefix: \
                  /usr/share/doc/cofferdam/examples/simulate of the package.")]
pub struct SimulateArgs {
    /// The simulated host, as JSON [default: this host]
    #[arg(long, value_name = "FILE")]
    pub host: Option<PathBuf>,
    /// The tenants and what their threads do, as JSON
    #[arg(long, value_name = "FILE", required_unless_present = "write_host")]
    pub tenants: Option<PathBuf>,
    /// Only these policies; may be repeated or separated by commas [default: all if a tenant has a
    /// reservation, otherwise standard]
    #[arg(long, value_name = "POLICY", value_delimiter = ',', value_enum)]
    pub policy: Vec<PolicyName>,
    /// Simulated time, with its unit, at most 1h
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = simulated)]
    pub duration: Duration,
    /// Seed of placements and bursts
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// CPUs that are never reserved
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub keep_cpus: u32,
    /// Print one JSON document instead of the tables
    #[arg(long)]
    pub json: bool,
    /// Simulate nothing; print this host as the JSON that --host reads
    #[arg(long, conflicts_with_all = ["host", "tenants", "policy", "json"])]
    pub write_host: bool,
}

/// Policy for reservations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PolicyName {
    // No documentation of each variant: the reference has it.
    Standard,
    Strict,
    StrictLending,
}

impl From<PolicyName> for Policy {
    fn from(name: PolicyName) -> Policy {
        match name {
            PolicyName::Standard => Policy::Standard,
            PolicyName::Strict => Policy::Strict,
            PolicyName::StrictLending => Policy::StrictLending,
        }
    }
}

fn simulated(text: &str) -> Result<Duration, String> {
    let value = quantity::interval(text)?;
    if value > Duration::from_secs(3600) {
        return Err("at most 1h is simulated".to_owned());
    }
    Ok(value)
}
