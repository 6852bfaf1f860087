//! Goals of the latency measurement.

use crate::data::{GoalBound, Judgement};
use crate::evidence::{Figure, goal};
use crate::latency::data::LatencyResult;

/// Longest time that the measurement may add to a round trip, microseconds.
pub const GOAL_ADDED_US: f64 = 1.0;
/// Largest difference between a corrected ping and the host's, microseconds (MACE's bound).
pub const BIAS_US: f64 = 20.0;

pub(crate) fn goals(result: &LatencyResult) -> Vec<Judgement> {
    let truth = result.truth.iter().map(|row| {
        goal(
            "Reports whose timestamps are out of order",
            Some(format!("{} {}", row.protocol, row.direction)),
            GoalBound::AtMost(0.0),
            Some(Figure::Count(row.violations as f64)),
        )
    });
    let injection = result.injection.iter().map(|row| {
        let expected = match row.place.as_str() {
            "inside" => row.injected_us,
            _ => 0.0,
        };
        goal(
            "Injected delay in the reports, µs",
            Some(format!("{} the path", row.place)),
            GoalBound::Within([expected - row.goal_us, expected + row.goal_us]),
            Some(Figure::Sampled(&row.seen_us)),
        )
    });
    let bias = result.bias.iter().map(|row| {
        goal(
            "Corrected ping of a container − the host's, µs",
            Some(format!("{} neighbours", row.load)),
            GoalBound::Within([-BIAS_US, BIAS_US]),
            Some(Figure::Sampled(&row.bias_us)),
        )
    });
    // The states without measurement, and ftrace, are only for comparison.
    let on = result
        .perturbation
        .iter()
        .filter(|r| r.state.starts_with("on"));
    let added = on.map(|row| {
        goal(
            "Added to a round trip, µs",
            Some(row.state.clone()),
            GoalBound::AtMost(GOAL_ADDED_US),
            Some(Figure::Sampled(&row.added_us)),
        )
    });
    truth.chain(injection).chain(bias).chain(added).collect()
}
