//! Goal of the simulator: the shares that tenants have on this host.

use crate::data::{GoalBound, Judgement};
use crate::evidence::{Figure, goal};
use crate::simulation::data::SimulationCaseResult;

/// Largest difference between a simulated and a measured share, percent of the host.
pub(crate) const GOAL_DIFFERENCE_PCT: f64 = 5.0;

pub(crate) fn goals(cases: &[SimulationCaseResult]) -> Vec<Judgement> {
    let of = |one: &SimulationCaseResult| {
        goal(
            "Largest difference of a tenant's simulated share, % of the host",
            Some(one.case.id.clone()),
            GoalBound::AtMost(GOAL_DIFFERENCE_PCT),
            Some(Figure::Sampled(&one.difference_pct)),
        )
    };
    cases.iter().map(of).collect()
}
