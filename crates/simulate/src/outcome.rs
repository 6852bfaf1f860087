//! What a simulation found: who got, wanted, was promised and lost what.

use crate::machine::{Counted, Counts, Machine};
use crate::promise::promises;
use crate::scenario::{Policy, Scenario};
use cofferdam_reserve::{Impossible, Plan};
use cofferdam_types::{CpuLoss, Entitlement};
use hdrhistogram::Histogram;

/// The outcome of one simulation.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Under which policy.
    pub policy: Policy,
    /// Accounted time, nanoseconds.
    pub duration_ns: u64,
    /// In the order of the scenario.
    pub tenants: Vec<TenantOutcome>,
    /// Idle time of each CPU, nanoseconds.
    pub idle_ns: Vec<u64>,
    /// Which CPUs are reserved for whom, by [`Outcome::id`].
    pub plan: Plan,
    /// Reservations that do not fit.
    pub impossible: Vec<Impossible>,
}

/// One tenant.
#[derive(Clone, Debug)]
pub struct TenantOutcome {
    /// What it was entitled to, got, and lost by cause.
    pub loss: CpuLoss,
    /// What its entitlement comes from.
    pub entitlement: Entitlement,
    /// What its threads wanted, nanoseconds: with a CPU for each of them, as far as it may use so
    /// many CPUs.
    pub demanded_ns: u64,
    /// Runs, or phases, that were done.
    pub rounds: u64,
    /// From waking up to running, nanoseconds.
    pub delays: Histogram<u32>,
    /// Times its CPUs were lent.
    pub lendings: u64,
}

impl Outcome {
    /// What the plan knows a tenant by.
    pub fn id(tenant: usize) -> cofferdam_types::CgroupId {
        crate::machine::id(tenant)
    }

    /// The part of the CPUs' time that was not idle, 0 to 1.
    pub fn utilisation(&self) -> f64 {
        let all = self.duration_ns as f64 * self.idle_ns.len() as f64;
        1.0 - self.idle_ns.iter().sum::<u64>() as f64 / all.max(1.0)
    }
}

/// Simulates a scenario. The same scenario gives the same outcome. Tenants and host have passed
/// [`crate::input::check`]. Cost: about a microsecond an event; CPUs × 250 ticks a second are the
/// least.
pub fn simulate(scenario: &Scenario<'_>) -> Outcome {
    simulate_while(scenario, &|| true).expect("nothing ends it early")
}

/// As [`simulate`], as long as `go_on` says so; it is asked every simulated tick.
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
    let outcome = |(i, (counted, promise)): (usize, (Counted, crate::promise::Promise))| {
        let wanted = scenario.tenants.tenants[i].demand_cpus();
        let most = idle_ns.len() as f64;
        TenantOutcome {
            loss: CpuLoss::split((promise.cpus * duration_ns as f64) as u64, &counted.time),
            entitlement: promise.by,
            demanded_ns: (wanted.min(most) * duration_ns as f64) as u64,
            rounds: counted.rounds,
            delays: counted.delays,
            lendings: counted.lendings,
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
