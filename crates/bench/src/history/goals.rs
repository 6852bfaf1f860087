//! Goals of the history.

use crate::data::{GoalBound, Judgement};
use crate::evidence::{Figure, goal};
use crate::history::data::HistoryResult;

/// Largest store after 30 days of 100 containers, MiB.
pub const GOAL_MIB: f64 = 1024.0;
/// Number of containers that the goals assume.
const CONTAINERS: u32 = 100;
/// Most CPU time of an append, microseconds: 0.2% of a CPU at one append a second.
pub const GOAL_APPEND_US: f64 = 2_000.0;

pub(crate) fn goals(result: &HistoryResult) -> Vec<Judgement> {
    let judged = result.rows.iter().filter(|r| r.containers == CONTAINERS);
    let of = |row: &crate::history::data::HistoryRow| {
        let case = format!("{CONTAINERS} containers, {}", row.case);
        let mib = row.bytes as f64 / f64::from(1 << 20);
        let size = goal(
            "Size of the history after 30 days, MiB",
            Some(case.clone()),
            GoalBound::AtMost(GOAL_MIB),
            (row.days == 30).then_some(Figure::Count(mib)),
        );
        let append = goal(
            "CPU time of an append, µs",
            Some(case),
            GoalBound::AtMost(GOAL_APPEND_US),
            Some(Figure::Sampled(&row.append_cpu_us)),
        );
        [size, append]
    };
    judged.flat_map(of).collect()
}
