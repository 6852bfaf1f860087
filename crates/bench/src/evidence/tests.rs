use super::*;
use crate::stats;
use proptest::prelude::*;

fn estimate(values: &[f64]) -> Estimate {
    stats::estimate(values, 1).unwrap()
}

/// Returns an estimate with exactly this interval.
fn between(low: f64, median: f64, high: f64) -> Estimate {
    Estimate::new(
        median,
        Interval::new(low, high),
        vec![median; FEWEST_BLOCKS],
    )
}

fn judged(bound: GoalBound, e: &Estimate) -> (Verdict, Option<Doubt>) {
    Figure::Sampled(e).judge(bound)
}

/// Promise 41.
#[test]
fn the_whole_interval_decides_whether_a_goal_is_reached() {
    let least = GoalBound::AtLeast(0.97);
    assert_eq!(
        judged(least, &between(0.97, 0.98, 1.0)),
        (Verdict::Reached, None)
    );
    assert_eq!(
        judged(least, &between(0.90, 0.93, 0.96)),
        (Verdict::Missed, None)
    );
    let holds = (Verdict::Inconclusive, Some(Doubt::HoldsGoal));
    assert_eq!(judged(least, &between(0.90, 0.99, 1.0)), holds);
    let most = GoalBound::AtMost(1.05);
    assert_eq!(
        judged(most, &between(0.9, 1.0, 1.05)),
        (Verdict::Reached, None)
    );
    assert_eq!(
        judged(most, &between(1.06, 1.2, 1.3)),
        (Verdict::Missed, None)
    );
    let within = GoalBound::Within([-5.0, 5.0]);
    assert_eq!(
        judged(within, &between(-4.0, 0.0, 4.0)),
        (Verdict::Reached, None)
    );
    assert_eq!(
        judged(within, &between(-9.0, -7.0, -6.0)),
        (Verdict::Missed, None)
    );
    assert_eq!(judged(within, &between(-9.0, 0.0, 9.0)), holds);
}

/// Promise 41.
#[test]
fn one_sample_four_blocks_and_blocks_all_alike_prove_nothing() {
    let least = GoalBound::AtLeast(1.0);
    let few = (Verdict::Inconclusive, Some(Doubt::FewBlocks));
    assert_eq!(judged(least, &estimate(&[32.8])), few);
    assert_eq!(judged(least, &estimate(&[5.0, 6.0, 7.0, 8.0])), few);
    let alike = (Verdict::Inconclusive, Some(Doubt::NoSpread));
    assert_eq!(judged(least, &estimate(&[32.8; 7])), alike);
    let once = Figure::Once(84.0).judge(GoalBound::AtMost(100.0));
    assert_eq!(once, (Verdict::Inconclusive, Some(Doubt::Once)));
    let count = |n| Figure::Count(n).judge(GoalBound::AtMost(0.0)).0;
    assert_eq!(
        (count(0.0), count(1.0)),
        (Verdict::Reached, Verdict::Missed)
    );
}

/// Promise 41.
#[test]
fn what_needed_no_mending_is_no_success() {
    let judged = |with: &Estimate, without: &Estimate| {
        let bound = GoalBound::AtMost(1.03);
        judge_with_baseline(goal("x", None, bound, Some(Figure::Sampled(with))), without).verdict
    };
    let fair = between(0.97, 1.0, 1.02);
    let harmed = between(4.1, 4.5, 4.9);
    let unclear = between(0.9, 1.1, 1.3);
    assert_eq!(judged(&fair, &harmed), Verdict::Reached);
    assert_eq!(judged(&fair, &fair), Verdict::NoHarm);
    assert_eq!(judged(&fair, &unclear), Verdict::NoHarm);
    assert_eq!(judged(&harmed, &fair), Verdict::Missed);
    assert_eq!(judged(&unclear, &fair), Verdict::Inconclusive);
}

/// Promise 41.
#[test]
fn a_busy_host_proves_nothing_but_counts() {
    let mut result = crate::agent::data::AgentResult::default();
    result.cost.push(crate::agent::data::AgentCostRow {
        duty: crate::agent::data::AgentDuty::Enforce,
        containers: 100,
        busy: 10,
        cpu_pct: between(0.4, 0.5, 0.6),
        resident_bytes: 18 << 20,
        step_ms: between(0.4, 0.5, 0.6),
    });
    let result = RunResult::Agent(result);
    let of = |is_busy| -> Vec<_> {
        let goals = goals(&result, is_busy).into_iter();
        goals.map(|g| (g.verdict, g.doubt)).collect()
    };
    let reached = (Verdict::Reached, None);
    assert_eq!(of(false), [reached, reached]);
    let busy = (Verdict::Inconclusive, Some(Doubt::BusyHost));
    assert_eq!(of(true), [busy, reached]);
}

/// Promise 41.
#[test]
fn the_largest_harm_is_found_even_if_unproved() {
    let lost = GoalBound::AtMost(5.0);
    let (proved, doubtful) = (between(20.0, 30.0, 40.0), between(-4.0, 57.0, 75.0));
    let (small, none) = (between(-3.0, 8.0, 9.0), between(-1.0, 0.5, 2.0));
    let cases = [
        ("a", &none),
        ("b", &small),
        ("c", &proved),
        ("d", &doubtful),
    ];
    let found = largest(&cases, lost);
    assert_eq!(found.proved, Some(("c", &proved)));
    assert_eq!(found.doubtful, Some(("d", &doubtful)));
    assert_eq!(found.harmless, None);
    // A doubtful case that is smaller than the proved one is left out.
    assert_eq!(largest(&cases[..3], lost).doubtful, None);
    // A median loss of 57% with the interval [-4, 75] is never "no loss".
    let found = largest(&cases[3..], lost);
    assert_eq!((found.proved, found.harmless), (None, None));
    assert_eq!(largest(&cases[..1], lost).harmless, Some(("a", &none)));
}

/// Promise 41.
#[test]
fn an_empty_result_is_not_measured() {
    assert!(!is_measured(None));
    for result in [
        RunResult::Isolation(Default::default()),
        RunResult::Penalty(Default::default()),
        RunResult::Accounting(Default::default()),
        RunResult::Latency(Default::default()),
        RunResult::Reservation(Default::default()),
        RunResult::Dataplane(Default::default()),
        RunResult::Agent(Default::default()),
        RunResult::Simulation(Default::default()),
    ] {
        assert!(!is_measured(Some(&result)), "{result:?}");
        let goals = goals(&result, false);
        assert!(goals.iter().all(|g| g.verdict == Verdict::NotMeasured));
    }
}

/// Promise 41.
#[test]
fn a_difference_needs_five_blocks_of_each() {
    let low: Vec<f64> = (0..9).map(f64::from).collect();
    let high: Vec<f64> = (20..29).map(f64::from).collect();
    assert_eq!(differ(&estimate(&low), &estimate(&high)), Some(true));
    assert_eq!(differ(&estimate(&low), &estimate(&low)), Some(false));
    assert_eq!(differ(&estimate(&low[..4]), &estimate(&high)), None);
}

fn bounds() -> impl Strategy<Value = GoalBound> {
    let at = -100.0..100.0_f64;
    prop_oneof![
        at.clone().prop_map(GoalBound::AtMost),
        at.clone().prop_map(GoalBound::AtLeast),
        (at.clone(), at).prop_map(|(a, b)| GoalBound::Within([a.min(b), a.max(b)])),
    ]
}

proptest! {
    // One bootstrap draws ten thousand resamples.
    #![proptest_config(ProptestConfig::with_cases(40))]

    /// A verdict of reached or missed always has an interval, and no value of it contradicts the
    /// verdict.
    /// Promise 41.
    #[test]
    fn no_verdict_without_evidence(
        bound in bounds(),
        values in proptest::collection::vec(-200.0..200.0_f64, 1..12),
    ) {
        let e = estimate(&values);
        let verdict = judge(bound, &e);
        match (e.interval(), verdict) {
            (None, verdict) => prop_assert_eq!(verdict, Verdict::Inconclusive),
            (Some(i), Verdict::Reached) => {
                prop_assert!(bound.admits(i.low()) && bound.admits(i.high()));
                prop_assert!(bound.admits(e.median));
            }
            (Some(i), Verdict::Missed) => {
                prop_assert!(!bound.admits(i.low()) && !bound.admits(i.high()));
                prop_assert!(!bound.admits(e.median));
            }
            (Some(_), other) => prop_assert_eq!(other, Verdict::Inconclusive),
        }
        if values.len() < FEWEST_BLOCKS {
            prop_assert_eq!(verdict, Verdict::Inconclusive);
        }
    }

    /// The headline always names the worst median.
    /// Promise 41.
    #[test]
    fn the_worst_median_is_always_named(
        cases in proptest::collection::vec(
            proptest::collection::vec(-50.0..150.0_f64, 1..8), 1..10),
    ) {
        let all: Vec<Estimate> = cases.iter().map(|v| estimate(v)).collect();
        let named: Vec<_> = all.iter().enumerate().collect();
        let bound = GoalBound::AtMost(5.0);
        let found = largest(&named, bound);
        let worst = all.iter().map(|e| e.median).fold(f64::MIN, f64::max);
        let named = [found.proved, found.doubtful, found.harmless];
        let headline = named.iter().flatten().map(|(_, e)| e.median).fold(f64::MIN, f64::max);
        prop_assert!(headline == worst || worst <= 5.0, "{headline} {worst}");
    }

    /// A stored estimate is read back unchanged, except for intervals without a width.
    #[test]
    fn an_estimate_survives_the_file(values in proptest::collection::vec(-4000..4000_i32, 1..9)) {
        let values: Vec<f64> = values.iter().map(|v| f64::from(*v) / 8.0).collect();
        let e = estimate(&values);
        let text = serde_json::to_string(&e).unwrap();
        prop_assert_eq!(serde_json::from_str::<Estimate>(&text).unwrap(), e);
    }
}
