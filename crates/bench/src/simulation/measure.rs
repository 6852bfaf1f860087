//! One sample: runs the tenants of a case on this host.

use super::containers::Containers;
use crate::cpustat::{self, CpuStat};
use crate::data::SCHEMA;
use crate::error::BenchError;
use crate::experiment::{JournaledReservations, Rig};
use crate::host_facts;
use crate::rundir::now;
use crate::simulation::data::{ReservationMode, SimulationCase, SimulationSample};
use cofferdam_enforce::reservation::ReservationOptions;
use cofferdam_host::TICKS_PER_S;
use cofferdam_types::CpuAmount;
use std::time::{Duration, Instant};

/// Time between the start of the tenants and the measurement: the simulator's warm-up.
const SETTLE: Duration = cofferdam_simulate::WARM_UP;
/// Time between two steps of the reservations, as in the agent and in the simulation.
const STEP: Duration = Duration::from_millis(50);
/// Part of the host's CPU time taken by others above which a sample is measured again.
pub(super) const DISTURBING: f64 = 0.05;

/// Makes the case's reservations; `None` if it has none.
fn reserve(
    case: &SimulationCase,
    containers: &Containers,
) -> Result<Option<JournaledReservations>, BenchError> {
    if case.reservation == ReservationMode::Standard {
        return Ok(None);
    }
    let mut journaled = JournaledReservations::open(ReservationOptions {
        lending: case.reservation == ReservationMode::StrictLending,
        ..ReservationOptions::default()
    })?;
    let (mut strict, mut standard) = (Vec::new(), Vec::new());
    for (tenant, member) in case.tenants.iter().zip(&containers.members) {
        let amount = tenant.reserved_cpus.map(|cpus| cpus * 1000);
        match amount.and_then(CpuAmount::from_milli_cpus) {
            Some(amount) => strict.push((member.container()?, amount)),
            None => standard.push(member.container()?),
        }
    }
    journaled
        .reservations
        .set(&mut journaled.journal, &strict, &standard);
    let degraded = journaled
        .reservations
        .states()
        .flat_map(|(_, _, d)| d)
        .next();
    match degraded {
        Some(d) => Err(BenchError::Unsupported(d.text)),
        None => Ok(Some(journaled)),
    }
}

/// Measures a case for `seconds`. In the simulation the tenants leave the part `idle` of the host's
/// time idle; others may use it.
pub(super) fn sample(
    rig: &Rig<'_>,
    case: &SimulationCase,
    seconds: f64,
    idle: f64,
) -> Result<SimulationSample, BenchError> {
    let containers = Containers::build(case)?;
    let mut journaled = reserve(case, &containers)?;
    let mut workers = Vec::new();
    for (tenant, member) in case.tenants.iter().zip(&containers.members) {
        workers.push(member.start(tenant)?);
    }
    for worker in &mut workers {
        worker.go()?;
    }
    pass(rig, &mut journaled, SETTLE)?;
    let used = || -> Vec<f64> { containers.members.iter().map(|m| m.cpu_s()).collect() };
    let (begun, stat_before, before) = (Instant::now(), stat(), used());
    pass(rig, &mut journaled, Duration::from_secs_f64(seconds))?;
    let (elapsed, stat_after, after) = (begun.elapsed(), stat(), used());
    for worker in workers {
        worker.end()?;
    }
    let cpu_s: Vec<f64> = after.iter().zip(&before).map(|(a, b)| a - b).collect();
    let passed = stat_after.since(&stat_before);
    let idle_s = passed.idle / TICKS_PER_S;
    let all_s = elapsed.as_secs_f64() * f64::from(host_facts::online_cpus().len() as u32);
    let steal_s = passed.steal / TICKS_PER_S;
    let foreign_s = (all_s - idle_s - steal_s - cpu_s.iter().sum::<f64>()).max(0.0);
    let left_s = (idle * all_s - idle_s).max(0.0);
    let taken_s = steal_s + (foreign_s - left_s).max(0.0);
    Ok(SimulationSample {
        schema: SCHEMA,
        time: now(),
        case: case.id.clone(),
        round: 0,
        elapsed_s: elapsed.as_secs_f64(),
        cpu_s,
        idle_s,
        foreign_s,
        steal_s,
        taken_s,
        disturbed: taken_s > DISTURBING * all_s,
    })
}

/// Waits for `time`, while it serves the reservations and the signals.
fn pass(
    rig: &Rig<'_>,
    journaled: &mut Option<JournaledReservations>,
    time: Duration,
) -> Result<(), BenchError> {
    let start = Instant::now();
    loop {
        if let Some(journaled) = journaled {
            journaled
                .reservations
                .step(&mut journaled.journal, Instant::now());
        }
        rig.check()?;
        let left = time.saturating_sub(start.elapsed());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(STEP));
    }
}

/// Sum over all CPUs of the host.
fn stat() -> CpuStat {
    let all = host_facts::online_cpus().into_iter();
    all.filter_map(cpustat::read)
        .fold(CpuStat::default(), |sum, one| CpuStat {
            idle: sum.idle + one.idle,
            busy: sum.busy + one.busy,
            softirq: sum.softirq + one.softirq,
            steal: sum.steal + one.steal,
        })
}
