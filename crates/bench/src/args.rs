//! Options that benchmarks share on the command line.

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use cofferdam_types::quantity;
use std::path::PathBuf;
use std::str::FromStr;

/// Options that every benchmark has.
#[derive(Clone, Debug, Args)]
pub struct RunArgs {
    /// A short grid, a few minutes
    #[arg(long)]
    pub quick: bool,
    /// Directory for the run's data and report; it must be new or empty
    #[arg(long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Measured pairs in each cell; at least 5 for a confidence interval
    #[arg(long, value_name = "N", value_parser = quantity::positive)]
    pub pairs: Option<u32>,
    /// CPUs and seed.
    #[command(flatten)]
    pub host: HostArgs,
}

/// Options of a benchmark that chooses its CPUs itself.
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

/// CPUs and seed of a benchmark.
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

/// Parser of one word of `all`, as `label` spells it.
pub(crate) fn one_of<T>(
    all: &'static [T],
    label: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T>
where
    T: Copy + FromStr<Err = String> + Send + Sync + 'static,
{
    PossibleValuesParser::new(all.iter().map(|value| PossibleValue::new(label(*value))))
        .try_map(|word| word.parse::<T>().map_err(std::io::Error::other))
}
