//! Dataplane experiment: the same servers on Linux sockets and on the dataplane, each on one veth
//! pair, in turns within one run.
//!
//! In each round every condition of an experiment is measured once, in random order, so that drift
//! of the host affects all alike. Server and client have one CPU each.
//!
//! In the unloaded, paced and size experiments a polling Linux client sends the requests. In the
//! others a load generator over AF_XDP does, because a Linux client on one CPU is slower than the
//! servers it should measure. Receive work is then steered to the receiver's CPU (RPS), as a NIC's
//! interrupts would be. Unmodified programs have their own clients, on the client's CPU.

mod analyse;
pub(crate) mod args;
mod cores;
pub mod data;
pub(crate) mod goals;
mod measure;
mod programs;
pub(crate) mod report;
mod servers;
mod testbed;

use crate::dataplane::data::{
    DataplaneCell, DataplaneExperiment, DataplaneResult, DataplaneSample, EchoServer,
};
use crate::error::BenchError;
use crate::experiment::{Rig, RigOptions, choose};
use crate::host_facts;
use crate::progress::Progress;
use crate::run::{Kind, RunResult};
use crate::rundir::RunDir;
use cofferdam_lab::LabError;
use std::collections::HashMap;
use std::path::PathBuf;

/// Most cores of one dataplane.
const MOST_CORES: u32 = 32;
/// Ratio of answers to requests below which higher rates are skipped.
const LEAST_SHARE: f64 = 0.8;

/// Options of `bench dataplane`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// Fewer and shorter samples; default no.
    pub quick: bool,
    /// The run directory; default `runs/<UTC time>-dataplane`.
    pub output: Option<PathBuf>,
    /// Rounds; default 7, 3 when `quick`.
    pub rounds: Option<u32>,
    /// Only these experiments; empty for all.
    pub experiments: Vec<DataplaneExperiment>,
    /// Seed of orders and bootstrap; default 1.
    pub seed: u64,
}

impl Options {
    fn rounds(&self) -> u32 {
        self.rounds.unwrap_or(if self.quick { 5 } else { 7 })
    }

    fn values(&self, experiment: DataplaneExperiment, cpus: u32) -> Vec<u32> {
        let fixed: &[u32] = match (experiment, self.quick) {
            (DataplaneExperiment::Cores, quick) => return cores::core_counts(cpus, quick),
            (DataplaneExperiment::OneCpu, true) => &[1, 2],
            (DataplaneExperiment::OneCpu, false) => &[1, 2, 4],
            (DataplaneExperiment::Unloaded, _) => &[0],
            (DataplaneExperiment::ShortConnections, true) => &[64],
            (DataplaneExperiment::ShortConnections, false) => &[1, 64],
            (DataplaneExperiment::Paced, true) => &[1000],
            (DataplaneExperiment::Paced, false) => &[1, 20, 100, 1000, 10_000],
            (DataplaneExperiment::Connections, true) => &[100],
            (DataplaneExperiment::Connections, false) => &[10, 100, 1000, 10_000],
            (DataplaneExperiment::Batch, true) => &[1, 64],
            (DataplaneExperiment::Batch, false) => &[1, 2, 8, 16, 64, 256],
            (DataplaneExperiment::Load, _) => &[50, 90],
            (DataplaneExperiment::Cost | DataplaneExperiment::SameRate, _) => &[50],
            (DataplaneExperiment::Usr | DataplaneExperiment::Etc, true) => &[20, 80, 160],
            (DataplaneExperiment::Usr | DataplaneExperiment::Etc, false) => {
                &[25, 50, 75, 100, 125, 150, 175, 200, 250, 300, 400]
            }
            (DataplaneExperiment::Idle, true) => &[1000],
            (DataplaneExperiment::Idle, false) => &[10_000, 100_000],
            (
                DataplaneExperiment::Redis
                | DataplaneExperiment::RedisPipelined
                | DataplaneExperiment::Memcached
                | DataplaneExperiment::Nginx,
                _,
            ) => &[50],
            (
                DataplaneExperiment::SizesSegmented
                | DataplaneExperiment::SizesJumbo
                | DataplaneExperiment::SizesLargest,
                quick,
            ) => match quick {
                true => &[16384, 262_144],
                false => &[4096, 16384, 262_144],
            },
            (DataplaneExperiment::Sizes, true) => &[64, 16384],
            (DataplaneExperiment::Sizes, false) => &[64, 512, 1448, 4096, 16384, 65536, 262_144],
        };
        fixed.to_vec()
    }

    /// Conditions of an experiment on a host with `cpus` CPUs for a server.
    fn cells(&self, experiment: DataplaneExperiment, cpus: u32) -> Vec<DataplaneCell> {
        let servers: &[EchoServer] = match experiment {
            DataplaneExperiment::Batch => &[EchoServer::Inline],
            DataplaneExperiment::OneCpu => &[EchoServer::Process],
            experiment if experiment.is_of_programs() => {
                &[EchoServer::Blocking, EchoServer::Preload]
            }
            _ => EchoServer::OWN,
        };
        let values = self.values(experiment, cpus);
        let cells = values.iter().flat_map(|at| {
            let cell = move |server: &EchoServer| DataplaneCell {
                experiment,
                at: *at,
                server: *server,
            };
            servers.iter().map(cell)
        });
        // A process may be limited to 20,000 descriptors, and a Linux server needs one a
        // connection. An application on the loop's thread has one loop.
        let fits = |c: &DataplaneCell| match (experiment, c.server) {
            (DataplaneExperiment::Idle, server) => !server.is_linux() || c.at <= 16_000,
            (DataplaneExperiment::Cores, EchoServer::Inline | EchoServer::Pkey) => false,
            (DataplaneExperiment::Cores, EchoServer::Process) => c.at <= MOST_CORES,
            _ => true,
        };
        cells.filter(fits).collect()
    }
}

/// Runs the experiments and returns the written directory. An interrupted or failed run leaves its
/// measurements there.
pub fn run(options: &Options, progress: &mut dyn Progress) -> Result<RunDir, BenchError> {
    let output = options.output.clone();
    let plain = RigOptions::plain(Kind::Dataplane, options.quick, output, options.seed);
    let mut rig = Rig::new(plain, progress)?;
    let mut result = DataplaneResult {
        congestion_control: "cubic".to_owned(),
        ..DataplaneResult::default()
    };
    let outcome = measure_all(&mut rig, options, &mut result);
    rig.close(Some(RunResult::Dataplane(result)), outcome)
}

/// Lowest offered rate that was too high, by experiment and server.
#[derive(Default)]
struct RateLimits(HashMap<(DataplaneExperiment, EchoServer), u32>);

impl RateLimits {
    fn note(&mut self, sample: &DataplaneSample) {
        let cell = &sample.cell;
        let offered = sample.offered_per_s.unwrap_or(0.0);
        if cell.experiment.is_mix() && sample.requests_per_s < LEAST_SHARE * offered {
            let least = self.0.entry((cell.experiment, cell.server));
            let least = least.or_insert(cell.at);
            *least = (*least).min(cell.at);
        }
    }

    /// Whether a cell offers more than a rate that was too high.
    fn is(&self, cell: &DataplaneCell) -> bool {
        let least = self.0.get(&(cell.experiment, cell.server));
        least.is_some_and(|least| cell.at > *least)
    }
}

fn measure_all(
    rig: &mut Rig<'_>,
    options: &Options,
    result: &mut DataplaneResult,
) -> Result<(), BenchError> {
    let mut samples = Vec::new();
    // Peak of each server, the reference of offered rates.
    let mut peaks = measure::Peaks::new();
    let mut rate_limits = RateLimits::default();
    let experiments = choose(DataplaneExperiment::ALL, &options.experiments);
    let online = host_facts::online_cpus();
    let cpus = cores::order(&online, rig.victim_cpu, rig.peer_cpu).len() as u32;
    let mut current: Option<testbed::DataplaneTestbed> = None;
    for experiment in &experiments {
        let same = current.take_if(|testbed| testbed.link() == experiment.link());
        // The devices of the other link go before new ones are made.
        drop(current.take());
        let testbed = match same {
            Some(testbed) => testbed,
            None => testbed::DataplaneTestbed::make(experiment.link())?,
        };
        let testbed = current.insert(testbed);
        for round in 0..options.rounds() {
            let mut cells = options.cells(*experiment, cpus);
            rig.random.shuffle(&mut cells);
            if experiment.is_mix() {
                // In rising order: rates that a server cannot carry need not be tried.
                cells.sort_by_key(|c| c.at);
            }
            for (i, cell) in cells.iter().enumerate() {
                rig.check()?;
                if rate_limits.is(cell) {
                    continue;
                }
                if let Some(why) = cell.server.missing() {
                    result.failed.insert(cell.id(), why);
                    continue;
                }
                let place = round as usize * cells.len() + i;
                let all = options.rounds() as usize * cells.len();
                rig.progress.step(place, all, &cell.id());
                match measure::sample(rig, testbed, options, cell, round, &mut peaks) {
                    Ok(sample) => {
                        rig.dir.sample(&sample)?;
                        rate_limits.note(&sample);
                        samples.push(sample);
                    }
                    Err(
                        e @ (BenchError::Worker { .. } | BenchError::Lab(LabError::Host { .. })),
                    ) => {
                        rig.warn(&format!("{}: {e}", cell.id()))?;
                        result.failed.insert(cell.id(), e.to_string());
                    }
                    Err(e) => return Err(e),
                }
            }
        }
        result.rows = analyse::rows(&samples, rig.seed);
        result.service = analyse::service(&samples, rig.seed);
        result.stage_cycles_per_packet = analyse::stages(&samples);
        rig.dir.result(&RunResult::Dataplane(result.clone()))?;
    }
    match result.failed.iter().next() {
        Some((cell, reason)) if samples.is_empty() => Err(BenchError::Worker {
            worker: cell.clone(),
            reason: reason.clone(),
        }),
        _ => Ok(()),
    }
}
