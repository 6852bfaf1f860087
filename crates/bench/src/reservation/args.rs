//! `cofferdam bench reservation` on the command line.

use super::Options;
use super::data::{NeighbourLimit, Neighbours, ReservationPolicy, ReservationRuntime, Target};
use crate::args::{ShortRunArgs, one_of};
use crate::error::BenchError;
use crate::progress::Progress;
use crate::run::command::{Answer, Bench};
use clap::Args;
use cofferdam_types::quantity;

/// `cofferdam bench reservation`
#[derive(Clone, Debug, Args)]
pub struct ReservationArgs {
    /// Length, directory and seed.
    #[command(flatten)]
    pub run: ShortRunArgs,
    /// Rounds, each of which measures every policy once [default: 5]
    #[arg(long, value_name = "N", value_parser = quantity::positive)]
    pub rounds: Option<u32>,
    /// CPUs that the target requests [default: half of the host's]
    #[arg(long, value_name = "N", value_parser = quantity::positive)]
    pub cpus: Option<u32>,
    /// Threads of a batch target, each number a condition; may be repeated or separated by commas
    /// [default: two for each CPU that it requests]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = quantity::positive)]
    pub threads: Vec<u32>,
    /// Neighbours, which have requested the same each and have three threads for two of the host's
    /// CPUs, each number a condition; may be repeated or separated by commas [default: 1]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = quantity::positive)]
    pub neighbour_count: Vec<u32>,
    /// Makes target and neighbours: this program (process), or kubernetes: pods of the cluster's
    /// node that this runs on, by kubectl; with the same --output, policies of another
    /// configuration of the kubelet are added to the run
    #[arg(
        long,
        value_name = "RUNTIME",
        default_value = "process",
        value_parser = one_of(ReservationRuntime::ALL, ReservationRuntime::label)
    )]
    pub runtime: ReservationRuntime,
    /// Only these targets; may be repeated or separated by commas
    #[arg(
        long,
        value_name = "TARGET",
        value_delimiter = ',',
        value_parser = one_of(Target::ALL, Target::label)
    )]
    pub target: Vec<Target>,
    /// Only these neighbours; may be repeated or separated by commas
    #[arg(
        long,
        value_name = "KIND",
        value_delimiter = ',',
        value_parser = one_of(Neighbours::ALL, Neighbours::label)
    )]
    pub neighbours: Vec<Neighbours>,
    /// Only capped or only burstable neighbours
    #[arg(
        long,
        value_name = "LIMIT",
        value_delimiter = ',',
        value_parser = one_of(NeighbourLimit::ALL, NeighbourLimit::label)
    )]
    pub limit: Vec<NeighbourLimit>,
    /// Only these policies, and `alone`; may be repeated or separated by commas
    #[arg(
        long,
        value_name = "POLICY",
        value_delimiter = ',',
        value_parser = one_of(ReservationPolicy::ALL, ReservationPolicy::label)
    )]
    pub policy: Vec<ReservationPolicy>,
}

impl From<ReservationArgs> for Options {
    fn from(args: ReservationArgs) -> Options {
        let defaults = Options::default();
        Options {
            quick: args.run.quick,
            output: args.run.output,
            rounds: args.rounds.unwrap_or(defaults.rounds),
            seconds: None,
            cpus: args.cpus,
            threads: args.threads,
            neighbour_counts: args.neighbour_count,
            seed: args.run.seed,
            runtime: args.runtime,
            targets: args.target,
            neighbours: args.neighbours,
            limits: args.limit,
            policies: args.policy,
        }
    }
}

impl Bench for ReservationArgs {
    fn run(self, progress: &mut dyn Progress) -> Result<Answer, BenchError> {
        super::run(&self.into(), progress).map(Answer::run)
    }
}
