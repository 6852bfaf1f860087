//! Medians with intervals, from samples.

use crate::data::Estimate;
use crate::reservation::data::{
    Entitlements, PolicyRow, ReservationCell, ReservationCellResult, ReservationPolicy,
    ReservationSample,
};
use crate::stats::estimate;

/// Judged figure of a sample: completion time, or p99.
fn judged_figure(sample: &ReservationSample) -> f64 {
    sample.latency.map_or(sample.elapsed_s, |l| l.p99_us)
}

/// Computes the result of `cell`; `None` without a sample. Ratios are within a round.
pub(super) fn cell(
    cell: &ReservationCell,
    samples: &[ReservationSample],
    seed: u64,
) -> Option<ReservationCellResult> {
    let rows: Vec<PolicyRow> = ReservationPolicy::ALL
        .iter()
        .filter_map(|policy| {
            let mine: Vec<&ReservationSample> =
                samples.iter().filter(|s| s.policy == *policy).collect();
            let all = |value: fn(&ReservationSample) -> f64| {
                let values: Vec<f64> = mine.iter().map(|s| value(s)).collect();
                estimate(&values, seed)
            };
            let ratios: Vec<f64> = mine
                .iter()
                .filter_map(|s| {
                    let alone = samples
                        .iter()
                        .find(|a| a.policy == ReservationPolicy::Alone && a.round == s.round)?;
                    Some(judged_figure(s) / judged_figure(alone))
                })
                .filter(|ratio| ratio.is_finite())
                .collect();
            let judged: Option<Estimate> = all(judged_figure);
            let (elapsed_s, p99_us) = match cell.target.is_interactive() {
                true => (None, judged),
                false => (judged, None),
            };
            Some(PolicyRow {
                policy: *policy,
                elapsed_s,
                p99_us,
                to_alone: estimate(&ratios, seed),
                cpu_got: all(|s| s.cpu_got)?,
                host_utilisation: all(|s| s.host_utilisation)?,
                entitled: entitlements(&mine, seed),
            })
        })
        .collect();
    (!rows.is_empty()).then(|| ReservationCellResult {
        cell: cell.clone(),
        rows,
    })
}

/// Entitlement and losses, from the samples with a diagnosis; `None` without one.
fn entitlements(samples: &[&ReservationSample], seed: u64) -> Option<Entitlements<Estimate>> {
    let all = |value: fn(&Entitlements<f64>) -> f64| {
        let diagnosed = samples.iter().filter_map(|s| s.entitled.as_ref());
        let values: Vec<f64> = diagnosed.map(value).collect();
        estimate(&values, seed)
    };
    Some(Entitlements {
        entitled_cpus: all(|e| e.entitled_cpus)?,
        forced_sharing_cpus: all(|e| e.forced_sharing_cpus)?,
        phantom_cpus: all(|e| e.phantom_cpus)?,
        throttled_cpus: all(|e| e.throttled_cpus)?,
        lack_cpus: all(|e| e.lack_cpus)?,
    })
}

/// Whether equal work gave equal answers.
pub(super) fn same_answers(samples: &[ReservationSample]) -> bool {
    let mut answers = samples.iter().filter_map(|s| s.checksum.as_ref());
    let first = answers.next();
    answers.all(|answer| Some(answer) == first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Latency, SCHEMA};
    use crate::reservation::data::{NeighbourLimit, Neighbours, ReservationRuntime, Target};

    fn sample(policy: ReservationPolicy, round: u32, value: f64) -> ReservationSample {
        ReservationSample {
            schema: SCHEMA,
            time: String::new(),
            cell: "c".to_owned(),
            policy,
            round,
            position: 0,
            elapsed_s: value,
            cpu_s: 1.0,
            cpu_got: 1.0 / value,
            latency: None,
            host_utilisation: 0.5,
            neighbour_cpu_s: 0.0,
            lendings: 0,
            entitled: (round == 0).then(|| Entitlements {
                entitled_cpus: 1.0,
                forced_sharing_cpus: value / 10.0,
                ..Entitlements::default()
            }),
            checksum: Some("1".to_owned()),
            phases: None,
        }
    }

    fn condition(target: Target) -> ReservationCell {
        ReservationCell {
            id: "c".to_owned(),
            target,
            neighbours: Neighbours::Cpu,
            limit: NeighbourLimit::Capped,
            reserved_cpus: 1.0,
            neighbour_cpus: 1.0,
            threads: 2,
            neighbour_count: 1,
            neighbour_threads: 3,
            runtime: ReservationRuntime::Process,
        }
    }

    /// Promise 41.
    #[test]
    fn ratios_are_taken_within_a_round() {
        use ReservationPolicy::{Alone, None as Nothing};
        let samples = [
            sample(Alone, 0, 1.0),
            sample(Nothing, 0, 2.0),
            sample(Nothing, 1, 9.0),
            sample(Alone, 1, 3.0),
        ];
        let result = cell(&condition(Target::Batch), &samples, 1).unwrap();
        assert_eq!(result.rows.len(), 2);
        assert_eq!(result.rows[1].to_alone.as_ref().unwrap().values, [2.0, 3.0]);
        assert_eq!(result.rows[0].elapsed_s.as_ref().unwrap().median, 2.0);
        assert!(result.rows[0].p99_us.is_none());
        let lost = result.rows[1].entitled.as_ref().unwrap();
        assert_eq!(
            lost.forced_sharing_cpus.values,
            [0.2],
            "round 1 was not diagnosed"
        );
        assert!(cell(&condition(Target::Batch), &[], 1).is_none());
    }

    #[test]
    fn an_interactive_target_is_judged_by_its_p99() {
        let mut one = sample(ReservationPolicy::Strict, 0, 1.0);
        one.latency = Some(Latency {
            p99_us: 77.0,
            ..Latency::default()
        });
        let result = cell(&condition(Target::Wakeups), &[one], 1).unwrap();
        assert_eq!(result.rows[0].p99_us.as_ref().unwrap().median, 77.0);
        assert!(result.rows[0].to_alone.is_none(), "alone was not measured");
    }

    #[test]
    fn an_answer_that_differs_is_seen() {
        let mut two = [
            sample(ReservationPolicy::Alone, 0, 1.0),
            sample(ReservationPolicy::Strict, 0, 1.0),
        ];
        assert!(same_answers(&two));
        two[1].checksum = Some("2".to_owned());
        assert!(!same_answers(&two));
    }
}
