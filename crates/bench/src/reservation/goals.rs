//! Goals of CPU reservations, with lending.

use crate::data::{Estimate, GoalBound, Judgement};
use crate::evidence::{Figure, goal, judge_with_baseline};
use crate::reservation::data::{
    NeighbourLimit, PolicyRow, ReservationCellResult, ReservationPolicy,
};

/// Lowest CPU got ÷ reserved of a strict batch target.
const GOAL_CPU_GOT: f64 = 0.97;
/// Lowest host utilisation with lending, next to neighbours that may use it.
const GOAL_UTILISATION: f64 = 0.97;
/// Highest p99 of a strict interactive target ÷ its p99 without neighbours.
const GOAL_P99: f64 = 1.10;

pub(crate) fn goals(cells: &[ReservationCellResult]) -> Vec<Judgement> {
    cells.iter().flat_map(of).collect()
}

fn of(cell: &ReservationCellResult) -> Vec<Judgement> {
    let lending = cell.row(ReservationPolicy::Lending);
    let without = cell.without();
    let judged = |what: &str, bound, value: fn(&PolicyRow) -> Option<&Estimate>| {
        let figure = lending.and_then(value).map(Figure::Sampled);
        let judgement = goal(what, Some(cell.cell.id.clone()), bound, figure);
        match without.and_then(value) {
            Some(without) => judge_with_baseline(judgement, without),
            None => judgement,
        }
    };
    let mut goals = vec![match cell.cell.target.is_interactive() {
        true => judged(
            "With lending, the owner's p99 ÷ alone",
            GoalBound::AtMost(GOAL_P99),
            |r| r.to_alone.as_ref(),
        ),
        false => judged(
            "With lending, the owner's CPU ÷ its reservation",
            GoalBound::AtLeast(GOAL_CPU_GOT),
            |r| Some(&r.cpu_got),
        ),
    }];
    if cell.cell.limit == NeighbourLimit::Burstable {
        // The possible cost of a reservation, not a harm that it must mend.
        goals.push(goal(
            "With lending, host utilisation",
            Some(cell.cell.id.clone()),
            GoalBound::AtLeast(GOAL_UTILISATION),
            lending.map(|r| Figure::Sampled(&r.host_utilisation)),
        ));
    }
    goals
}
