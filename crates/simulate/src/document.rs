//! Outcomes as the document of `simulate --json`.

use crate::outcome::{Outcome, TenantOutcome};
use crate::scenario::{Tenant, Tenants, WARM_UP};
use cofferdam_records::simulation::{
    DelayRecord, RefusedRecord, ReservedRecord, SIMULATION, SimulatedTenant, SimulationReport,
    SimulationRun,
};
use hdrhistogram::Histogram;

/// Document of the same tenants under one or several policies.
pub fn report(tenants: &Tenants, outcomes: &[Outcome], seed: u64) -> SimulationReport {
    let first = outcomes.first();
    SimulationReport {
        schema: SIMULATION.to_owned(),
        cpus: first.map_or(0, |o| o.idle_ns.len() as u64),
        duration_s: first.map_or(0.0, |o| o.duration_ns as f64 / 1e9),
        warm_up_s: WARM_UP.as_secs_f64(),
        seed,
        runs: outcomes.iter().map(|o| run(tenants, o)).collect(),
    }
}

fn run(tenants: &Tenants, outcome: &Outcome) -> SimulationRun {
    let all = tenants.tenants.iter().zip(&outcome.tenants).enumerate();
    let refused = outcome.impossible.iter().map(|one| RefusedRecord {
        name: tenants.tenants[one.id.0 as usize - 1].cgroup.name.clone(),
        asked_cpus: one.asked.into(),
        fits_cpus: one.fits.map(f64::from),
    });
    SimulationRun {
        policy: outcome.policy.label().to_owned(),
        utilisation: outcome.utilisation(),
        idle_ns: outcome.idle_ns.iter().sum(),
        tenants: all.map(|(i, (t, o))| tenant(i, t, o, outcome)).collect(),
        refused: refused.collect(),
    }
}

fn tenant(place: usize, tenant: &Tenant, one: &TenantOutcome, all: &Outcome) -> SimulatedTenant {
    let placement = all.plan.placements.get(&Outcome::id(place));
    SimulatedTenant {
        name: tenant.cgroup.name.clone(),
        threads: tenant.threads() as u64,
        demanded_ns: one.demanded_ns,
        entitled_ns: one.loss.entitled_ns,
        entitled_by: one.entitlement,
        got_ns: one.loss.got_ns,
        forced_sharing_ns: one.loss.forced_sharing_ns,
        phantom_ns: one.loss.phantom_ns,
        throttled_ns: one.loss.throttled_ns,
        lack_ns: one.loss.lack_ns,
        rounds: one.rounds,
        wakeup_delay: delays(&one.delays),
        reserved: placement.map(|place| ReservedRecord {
            cpus: f64::from(place.milli_cpus()) / 1000.0,
            own_cpus: place.own.iter().map(|c| c.0).collect(),
            slice_cpu: place.slice.map(|(cpu, _)| cpu.0),
            lendings: one.lendings,
        }),
    }
}

fn delays(delays: &Histogram<u32>) -> Option<DelayRecord> {
    let us = |q: f64| delays.value_at_quantile(q) as f64 / 1000.0;
    (!delays.is_empty()).then(|| DelayRecord {
        count: delays.len(),
        p50_us: us(0.5),
        p90_us: us(0.9),
        p99_us: us(0.99),
        p999_us: us(0.999),
        max_us: delays.max() as f64 / 1000.0,
    })
}
