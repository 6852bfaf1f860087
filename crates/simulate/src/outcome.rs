//! A simulation and its results: each tenant's CPU time, demand, promise and loss.

use crate::machine::{Counts, Machine, TenantCounts};
use crate::promise::promises;
use crate::scenario::{Policy, Scenario};
use cofferdam_reserve::{Impossible, Plan};
use cofferdam_types::{CpuLoss, Entitlement};
use hdrhistogram::Histogram;

/// Outcome of one simulation.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Simulated policy.
    pub policy: Policy,
    /// Accounted time, nanoseconds.
    pub duration_ns: u64,
    /// Outcomes in the order of the scenario.
    pub tenants: Vec<TenantOutcome>,
    /// Idle time of each CPU, nanoseconds.
    pub idle_ns: Vec<u64>,
    /// Reserved CPUs by [`Outcome::id`].
    pub plan: Plan,
    /// Reservations that do not fit.
    pub impossible: Vec<Impossible>,
}

/// Outcome of one tenant.
#[derive(Clone, Debug)]
pub struct TenantOutcome {
    /// CPU time that it was entitled to, got, and lost by cause.
    pub loss: CpuLoss,
    /// Origin of its entitlement.
    pub entitlement: Entitlement,
    /// Demand of its threads, nanoseconds: one CPU for each, as far as it may use that many.
    pub demanded_ns: u64,
    /// Completed runs or phases.
    pub rounds: u64,
    /// Delays between wake-up and run, nanoseconds.
    pub delays: Histogram<u32>,
    /// Number of times that its CPUs were lent.
    pub lendings: u64,
}

impl Outcome {
    /// Cgroup id by which [`Outcome::plan`] names the tenant with this index.
    pub fn id(tenant: usize) -> cofferdam_types::CgroupId {
        crate::machine::id(tenant)
    }

    /// Part (0..=1) of the CPUs' time that was not idle.
    pub fn utilisation(&self) -> f64 {
        let all = self.duration_ns as f64 * self.idle_ns.len() as f64;
        1.0 - self.idle_ns.iter().sum::<u64>() as f64 / all.max(1.0)
    }
}

/// Simulates a scenario; the same scenario gives the same outcome. Tenants and host must have
/// passed [`crate::input::check`]. Cost: about a microsecond per event, and at least 250 events per
/// CPU and second.
pub fn simulate(scenario: &Scenario<'_>) -> Outcome {
    simulate_while(scenario, &|| true).expect("nothing ends it early")
}

/// Simulates as [`simulate`] does, while `go_on` returns true; it is called every simulated tick.
pub fn simulate_while(scenario: &Scenario<'_>, go_on: &dyn Fn() -> bool) -> Option<Outcome> {
    let duration_ns = u64::try_from(scenario.duration.as_nanos()).unwrap_or(u64::MAX / 4);
    let Counts {
        tenants,
        idle_ns,
        plan,
        impossible,
    } = Machine::new(scenario).run(duration_ns, go_on)?;
    let promises = promises(scenario, &tenants, duration_ns, idle_ns.len());
    let all = tenants.into_iter().zip(promises).enumerate();
    let outcome = |(i, (counts, promise)): (usize, (TenantCounts, crate::promise::Promise))| {
        let wanted = scenario.tenants.tenants[i].demand_cpus();
        let most = idle_ns.len() as f64;
        TenantOutcome {
            loss: CpuLoss::split((promise.cpus * duration_ns as f64) as u64, &counts.time),
            entitlement: promise.by,
            demanded_ns: (wanted.min(most) * duration_ns as f64) as u64,
            rounds: counts.rounds,
            delays: counts.delays,
            lendings: counts.lendings,
        }
    };
    let tenants = all.map(outcome).collect();
    Some(Outcome {
        policy: scenario.policy,
        duration_ns,
        tenants,
        idle_ns,
        plan,
        impossible,
    })
}
