//! Goals of the accounting.

use crate::accounting::data::AccountingResult;
use crate::data::{GoalBound, Interval, Judgement};
use crate::evidence::{Figure, goal};

/// Largest BPF time of a received packet, nanoseconds.
const GOAL_NS_PER_PACKET: f64 = 100.0;
/// Largest part of the measured time that is missing from the ledgers, percent.
const GOAL_CONSERVATION_PCT: f64 = 1.0;
/// Largest error of attribution, percent.
const GOAL_ACCURACY_PCT: f64 = 5.0;

pub(crate) fn goals(result: &AccountingResult) -> Vec<Judgement> {
    let overhead = result.overhead.iter().flat_map(|row| {
        let case = Some(row.label());
        let what = format!("With the accounting on ÷ off, {}", row.unit);
        let ratio = row.goal.map(|least| {
            goal(
                what,
                case.clone(),
                GoalBound::AtLeast(least),
                Some(Figure::Sampled(&row.ratio)),
            )
        });
        let cost = row.bpf_ns_per_packet.map(|ns| {
            goal(
                "BPF time a received packet, ns",
                case,
                GoalBound::AtMost(GOAL_NS_PER_PACKET),
                Some(Figure::Once(ns)),
            )
        });
        ratio.into_iter().chain(cost)
    });
    let conservation = result.conservation.iter().map(|row| {
        goal(
            "Measured time that the ledgers miss on the worst CPU, %",
            Some(row.load.clone()),
            GoalBound::AtMost(GOAL_CONSERVATION_PCT),
            Some(Figure::Count(row.worst_cpu_error_pct)),
        )
    });
    let accuracy = result.accuracy.iter().map(|row| {
        let ends = row.error_interval_pct;
        let interval = ends.and_then(|[low, high]| Interval::new(low, high));
        goal(
            format!("Error of attribution, {}, %", row.quantity),
            Some(row.case.clone()),
            GoalBound::Within([-GOAL_ACCURACY_PCT, GOAL_ACCURACY_PCT]),
            Some(Figure::Summed(row.error_pct, interval)),
        )
    });
    overhead.chain(conservation).chain(accuracy).collect()
}
