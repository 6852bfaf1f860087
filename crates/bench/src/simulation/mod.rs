//! Simulation experiment: does the simulator of run queues give each tenant the share that this
//! host gives it?
//!
//! Tenants with given threads, weights, quotas and cpusets run on this host, and the same tenants
//! in the simulator. Each round measures every case once, in random order. A sample is measured
//! again, up to two times, if other processes or the hypervisor took more than 5% of the host.
//! Shares are those of the available CPU time: others that run while the tenants leave CPUs idle
//! take nothing from them.

mod analyse;
pub(crate) mod args;
mod cases;
mod containers;
pub mod data;
pub(crate) mod goals;
mod host;
mod measure;
mod model;
mod options;
pub(crate) mod report;
mod terminal;

pub use host::this_host;
pub use options::Options;

use crate::error::BenchError;
use crate::experiment::{Rig, RigOptions};
use crate::progress::Progress;
use crate::run::{Kind, RunResult};
use crate::rundir::RunDir;
use crate::simulation::data::{SimulationCase, SimulationResult, SimulationSample};
use cofferdam_lab::LabError;
use cofferdam_simulate::Host;
use std::collections::BTreeMap;

/// Attempts at one sample; the last one counts in any case.
const ATTEMPTS: u32 = 3;

/// Runs the cases and returns the written directory. An interrupted or failed run leaves its
/// samples there.
pub fn run(options: &Options, progress: &mut dyn Progress) -> Result<RunDir, BenchError> {
    let host = this_host()?;
    let cases = choose_cases(options, &host)?;
    let rig_options = RigOptions::plain(
        Kind::Simulation,
        options.quick,
        options.output.clone(),
        options.seed,
    );
    let mut rig = Rig::new(rig_options, progress)?;
    rig.use_all_cpus();
    let mut result = SimulationResult::default();
    let outcome = measure_all(&mut rig, &host, &cases, options, &mut result);
    rig.close(Some(RunResult::Simulation(result)), outcome)
}

fn choose_cases(options: &Options, host: &Host) -> Result<Vec<SimulationCase>, BenchError> {
    let usage = |text: &str| Err(BenchError::Usage(text.to_owned()));
    if options.rounds == 0 {
        return usage("--rounds 0 measures nothing: give at least 1");
    }
    let cpus = host.topology.cpus.len() as u32;
    if cpus < 2 {
        return Err(BenchError::Unsupported(
            "the cases need two CPUs, this host has one: use a larger machine".to_owned(),
        ));
    }
    let mut cases = cases::cases(cpus, options.quick);
    cases.retain(|case| {
        let named = |name: &String| case.id.starts_with(name.as_str());
        options.cases.is_empty() || options.cases.iter().any(named)
    });
    if cases.is_empty() {
        return usage("no case has such a name: run without --case to see all, or without --quick");
    }
    Ok(cases)
}

/// Measures all cases. A case that fails for its own reasons does not end the run, unless all do.
fn measure_all(
    rig: &mut Rig<'_>,
    host: &Host,
    cases: &[SimulationCase],
    options: &Options,
    result: &mut SimulationResult,
) -> Result<(), BenchError> {
    let seconds = options.seconds();
    let mut simulated: BTreeMap<&str, Vec<Vec<f64>>> = BTreeMap::new();
    let mut samples: Vec<SimulationSample> = Vec::new();
    let mut failure = None;
    let total = cases.len() * options.rounds as usize;
    for round in 0..options.rounds {
        let mut order: Vec<&SimulationCase> = cases.iter().collect();
        rig.random.shuffle(&mut order);
        for (i, case) in order.into_iter().enumerate() {
            if result.failed.contains_key(&case.id) {
                continue;
            }
            rig.progress
                .step(round as usize * cases.len() + i, total, &case.id);
            let seed = options.seed.wrapping_add(u64::from(round));
            let shares = model::shares(case, host, seconds, seed)?;
            let idle = 1.0 - shares.iter().sum::<f64>();
            simulated.entry(&case.id).or_default().push(shares);
            match measure_case(rig, case, (seconds, idle), round, &mut samples) {
                Ok(()) => {}
                Err(
                    e @ (BenchError::Worker { .. }
                    | BenchError::Lab(LabError::Host { .. })
                    | BenchError::Unsupported(_)),
                ) => {
                    rig.warn(&format!("{}: {e}", case.id))?;
                    result.failed.insert(case.id.clone(), e.to_string());
                    failure.get_or_insert(e);
                }
                Err(e) => return Err(e),
            }
        }
        let outcome = |case: &SimulationCase| {
            let simulated = simulated.get(case.id.as_str())?;
            analyse::case(case, &samples, simulated, options.seed)
        };
        result.cases = cases.iter().filter_map(outcome).collect();
        rig.dir.result(&RunResult::Simulation(result.clone()))?;
    }
    rig.progress.step(total, total, "done");
    match failure {
        Some(e) if result.cases.is_empty() => Err(e),
        _ => Ok(()),
    }
}

/// Measures one case in one round, again while it is disturbed.
fn measure_case(
    rig: &mut Rig<'_>,
    case: &SimulationCase,
    (seconds, idle): (f64, f64),
    round: u32,
    samples: &mut Vec<SimulationSample>,
) -> Result<(), BenchError> {
    for _ in 0..ATTEMPTS {
        let mut sample = measure::sample(rig, case, seconds, idle)?;
        sample.round = round;
        rig.dir.sample(&sample)?;
        let disturbed = sample.disturbed;
        samples.push(sample);
        if !disturbed {
            break;
        }
    }
    Ok(())
}
