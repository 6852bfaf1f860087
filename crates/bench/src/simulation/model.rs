//! Case in the simulator.

use crate::error::BenchError;
use crate::simulation::data::{CaseTenant, ReservationMode, SimulationCase, Work};
use cofferdam_simulate::{
    Behaviour, Cgroup, Host, Load, Policy, Quota, Scenario, Tenant, Tenants, input, simulate,
};
use cofferdam_types::CpuAmount;
use std::time::Duration;

/// Period of the quotas, the kernel's default, microseconds.
pub(super) const PERIOD_US: u64 = 100_000;

/// Tenants of `case`.
pub(super) fn tenants(case: &SimulationCase, host: &Host) -> Result<Tenants, BenchError> {
    let tenants = Tenants {
        groups: Vec::new(),
        tenants: case.tenants.iter().map(tenant).collect(),
    };
    input::check(&tenants, host).map_err(|(_, what)| BenchError::Usage(what))?;
    Ok(tenants)
}

/// Share of each tenant in the host's CPU time, 0 to 1.
pub(super) fn shares(
    case: &SimulationCase,
    host: &Host,
    seconds: f64,
    seed: u64,
) -> Result<Vec<f64>, BenchError> {
    let tenants = tenants(case, host)?;
    let outcome = simulate(&Scenario {
        host,
        tenants: &tenants,
        policy: match case.reservation {
            ReservationMode::Standard => Policy::Standard,
            ReservationMode::Strict => Policy::Strict,
            ReservationMode::StrictLending => Policy::StrictLending,
        },
        duration: Duration::from_secs_f64(seconds),
        seed,
        keep_cpus: 1,
    });
    let all = outcome.duration_ns as f64 * outcome.idle_ns.len() as f64;
    let share = |t: &cofferdam_simulate::TenantOutcome| t.loss.got_ns as f64 / all;
    Ok(outcome.tenants.iter().map(share).collect())
}

fn tenant(one: &CaseTenant) -> Tenant {
    let quota = |cpus: f64| Quota {
        quota_ns: (cpus * PERIOD_US as f64) as u64 * 1000,
        period_ns: PERIOD_US * 1000,
    };
    Tenant {
        cgroup: Cgroup {
            name: one.name.clone(),
            parent: None,
            weight: one.weight,
            quota: one.quota_cpus.map(quota),
            cpus: one.pinned.map(|cpu| vec![cpu]),
        },
        reserved: one
            .reserved_cpus
            .and_then(|cpus| CpuAmount::from_milli_cpus(cpus * 1000)),
        loads: vec![Load {
            threads: one.threads,
            behaviour: match one.work {
                Work::Spin => Behaviour::CpuBound,
                Work::Periodic { run_us, sleep_us } => Behaviour::Periodic {
                    run_ns: u64::from(run_us) * 1000,
                    sleep_ns: u64::from(sleep_us) * 1000,
                },
            },
        }],
    }
}
