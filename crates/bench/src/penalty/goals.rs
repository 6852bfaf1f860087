//! The goal of enforcement.

use crate::data::{Bound, CellResult, Judgement, Treatment};
use crate::evidence::{Figure, goal, mended};

/// The penalty that is still fair, as the goal of Iron has it.
pub const FAIR: f64 = 1.05;
/// The penalty that enforcement is to reach.
pub const GOAL: f64 = 1.03;

pub(crate) fn goals(cells: &[CellResult]) -> Vec<Judgement> {
    let enforced = cells.iter().filter_map(|cell| {
        let mut treated = cell.treated.iter();
        Some((cell, treated.find(|t| t.treatment == Treatment::Enforced)?))
    });
    let judged = enforced.map(|(cell, treated)| {
        let told = goal(
            "Penalty factor with Cofferdam enforcing",
            Some(cell.cell.id.clone()),
            Bound::AtMost(GOAL),
            Some(Figure::Sampled(&treated.penalty)),
        );
        mended(told, &cell.penalty)
    });
    judged.collect()
}
