//! Goals: the loss that a tenant may suffer from its neighbour.

use crate::data::{Estimate, GoalBound, Judgement};
use crate::evidence::{Figure, goal, judge_with_baseline};
use crate::isolation::data::{IsolationResult, IsolationRow, IsolationTable, Protection};

/// Tolerated loss of performance, percent.
pub const LOSS_TOLERATED_PCT: f64 = 5.0;
/// Tolerated growth of the 99th percentile.
pub const P99_FACTOR_TOLERATED: f64 = 1.10;

type Value = fn(&IsolationRow) -> Option<&Estimate>;

pub(crate) fn goals(result: &IsolationResult) -> Vec<Judgement> {
    let tables = result.tables.iter();
    tables.flat_map(|table| of(result, table)).collect()
}

fn of<'a>(
    result: &'a IsolationResult,
    table: &'a IsolationTable,
) -> impl Iterator<Item = Judgement> + 'a {
    let vanilla = result.tables.iter().find(|other| {
        table.protection == Protection::Cofferdam
            && other.protection == Protection::Vanilla
            && (other.runtime, other.resource) == (table.runtime, table.resource)
    });
    let contended = table.rows.iter().filter(|r| r.scenario.b.is_some());
    contended.flat_map(move |row| {
        let same = |t: &'a IsolationTable| t.rows.iter().find(|r| r.scenario == row.scenario);
        let without = vanilla.and_then(same);
        let protection = match table.protection {
            Protection::Vanilla => String::new(),
            protection => format!("+{protection}"),
        };
        let case = format!(
            "{}{protection}/{}/{}",
            table.runtime, table.resource, row.scenario
        );
        let judged = |what: &str, bound, value: Value| {
            let figure = value(row).map(Figure::Sampled);
            let judgement = goal(what, Some(case.clone()), bound, figure);
            match without.and_then(value) {
                Some(without) => judge_with_baseline(judgement, without),
                None => judgement,
            }
        };
        let loss = judged(
            "Performance lost to the neighbour, %",
            GoalBound::AtMost(LOSS_TOLERATED_PCT),
            |r| r.performance_loss_pct.as_ref(),
        );
        let slower = row.p99_factor.as_ref().map(|_| {
            judged(
                "99th percentile next to the neighbour ÷ alone",
                GoalBound::AtMost(P99_FACTOR_TOLERATED),
                |r| r.p99_factor.as_ref(),
            )
        });
        std::iter::once(loss).chain(slower).collect::<Vec<_>>()
    })
}
