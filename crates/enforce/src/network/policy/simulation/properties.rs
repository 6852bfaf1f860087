//! Properties that hold in every history, whatever the traffic, the weights and the delay of the
//! means.

use super::history::{History, Plan};
use super::tenant::{Cost, TenantKind};
use cofferdam_types::Means;
use std::time::Duration;

/// Histories per property. With other seeds a few in a thousand leave a bound: streams whose
/// sawtooth is longer than [`WINDOW`], and floods whose cost to others stays near [`VICTIM_CPUS`].
///
/// [`VICTIM_CPUS`]: crate::tuning::network::PAID_CPUS
const HISTORIES: u64 = 1_000;
/// Median use of the victim, as a part of its fair share.
const FAIR: std::ops::RangeInclusive<f64> = 0.97..=1.03;
/// Deviation, in CPUs, that is fair as well.
const COARSE_CPUS: f64 = 0.012;
/// Time after which the means are in place and the first debt is repaid.
const STEADY_AFTER: Duration = Duration::from_millis(1_500);
const WINDOW: Duration = Duration::from_millis(500);
/// Smallest change of direction that counts, as a part of a weight, or in CPUs.
const TURN: f64 = 0.05;
const STEP: Duration = Duration::from_millis(20);

const OFFENDER: usize = 0;
const VICTIM: usize = 1;

/// Checks `property` on all histories; the error names the plan, its seed included.
fn in_every_history(
    plan: impl Fn(u64) -> Plan,
    property: impl Fn(&Plan, History) -> Result<(), String>,
) {
    let broken: Vec<String> = (0..HISTORIES)
        .filter_map(|seed| {
            let plan = plan(seed);
            let outcome = property(&plan, plan.begin());
            outcome.err().map(|why| format!("{why}: {plan:?}"))
        })
        .collect();
    let few: Vec<&str> = broken.iter().map(String::as_str).take(5).collect();
    assert!(
        broken.is_empty(),
        "{} histories\n{}",
        broken.len(),
        few.join("\n")
    );
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// Weights are written in steps, and a credit is spent slowly. Both matter more to a small share.
fn is_fair(part: f64, plan: &Plan) -> bool {
    FAIR.contains(&part) || (part - 1.0).abs() * plan.fair() < COARSE_CPUS
}

fn ensure(holds: bool, why: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(why()) }
}

/// Promise 28.
#[test]
fn a_victim_has_its_share() {
    in_every_history(Plan::from_seed, |plan, mut history| {
        if !plan.can_be_bounded() {
            return Ok(());
        }
        history.pass(STEADY_AFTER);
        let windows = (0..7).map(|_| history.works(VICTIM, WINDOW) / plan.fair());
        let part = median(windows.collect());
        ensure(is_fair(part, plan), || format!("median {part:.3}"))
    });
}

/// The victim has no rule: a cgroup, or threads of the root.
/// Promise 30.
#[test]
fn a_victim_without_rule_has_its_share() {
    in_every_history(Plan::with_unruled_victim, |plan, mut history| {
        if !plan.can_be_bounded() {
            return Ok(());
        }
        history.pass(STEADY_AFTER);
        let windows = (0..7).map(|_| history.works(VICTIM, WINDOW) / plan.fair());
        let part = median(windows.collect());
        ensure(is_fair(part, plan), || format!("median {part:.3}"))
    });
}

/// Next to host tasks that run for a moment now and then, an offender has the CPU to itself.
/// Promise 30.
#[test]
fn a_momentary_host_task_enforces_no_container() {
    let plan = |seed| Plan {
        victim: [TenantKind::Observed, TenantKind::Unknown][seed as usize % 2],
        victim_computes: 0.02,
        ..Plan::from_seed(seed & !3)
    };
    in_every_history(plan, |_, mut history| {
        for _ in 0..100 {
            history.pass(STEP);
            let is_enforced = history.account().is_enforced();
            ensure(!is_enforced, || "it is held".to_owned())?;
        }
        Ok(())
    });
}

/// The NAPI thread takes over all of the offender's work, and no work runs in others' time any
/// more. A low weight would withhold the offender's share, and a limit would cost it time.
/// Promise 29.
#[test]
fn a_napi_thread_replaces_weight_and_limit() {
    let plan = Plan {
        stream: false,
        packets: 500.0,
        cost: Cost {
            host: 0.0,
            receive: 2_000.0,
            application: 2_000.0,
            dropping: 100.0,
        },
        napi_lag: Some(Duration::from_millis(100)),
        offender_computes: 0.0,
        ..Plan::from_seed(1)
    };
    let mut history = plan.begin();
    history.pass(Duration::from_millis(100));
    let offender = &history.host.tenants[OFFENDER];
    assert!(offender.weight_now() < 0.9 * offender.base_weight);
    assert!(offender.bucket.spending.is_some());
    history.pass(Duration::from_secs(1));
    let offender = &history.host.tenants[OFFENDER];
    assert_eq!(offender.weight_now(), offender.base_weight);
    history.pass(Duration::from_secs(2));
    assert!(history.host.tenants[OFFENDER].bucket.spending.is_none());
}

/// Promise 34.
#[test]
fn debt_stays_within_its_bound() {
    in_every_history(Plan::from_seed, |_, mut history| {
        let bound_ns = history.policy.rules.debt_bound.as_nanos() as u64;
        let mut forgiven_ns = 0;
        for _ in 0..150 {
            history.pass(STEP);
            let account = history.account();
            ensure(account.debt_ns() <= bound_ns, || {
                format!("debt {}", account.debt_ns())
            })?;
            let before = std::mem::replace(&mut forgiven_ns, account.forgiven_ns());
            ensure(forgiven_ns >= before, || "debt is un-forgiven".to_owned())?;
        }
        Ok(())
    });
}

/// While a CPU has idle time, an offender's packets take nothing that others want.
/// Promise 29.
#[test]
fn nothing_is_dropped_while_the_cpu_has_idle_time() {
    let plan = |seed| Plan {
        victim: [
            TenantKind::Enforced,
            TenantKind::Observed,
            TenantKind::Unknown,
        ][seed as usize % 3],
        ..Plan::with_idle_time(seed)
    };
    in_every_history(plan, |plan, mut history| {
        let time = Duration::from_secs(3);
        history.pass(time);
        let mut free = plan.begin();
        free.policy.rules.means.retain(|m| *m == Means::NapiThread);
        free.pass(time);
        let offender = &history.host.tenants[OFFENDER];
        let dropped = offender.bucket.dropped_in_all;
        ensure(dropped == 0.0, || format!("{dropped} dropped"))?;
        let (done, may) = (offender.done, free.host.tenants[OFFENDER].done);
        ensure(done > 0.98 * may, || {
            format!("{done:.0} packets, {may:.0} without limits")
        })
    });
}

/// Work beyond its share while a sibling pauses is no debt: the requests of its shuffle are not
/// dropped for it.
/// Promise 34.
#[test]
fn a_communicating_job_loses_no_packets_to_a_flood() {
    in_every_history(Plan::with_job, |_, mut history| {
        history.pass(Duration::from_secs(5));
        let dropped = history.host.tenants[VICTIM].bucket.dropped_in_all;
        ensure(dropped == 0.0, || format!("{dropped} dropped"))
    });
}

/// Promise 28.
#[test]
fn weights_are_respected() {
    let plan = |seed| {
        let mut plan = Plan::from_seed(seed);
        // Both want all that they can get, at all relevant ratios of weights.
        plan.offender_computes = 1.0;
        plan.weights.0 = [25.0, 50.0, 100.0, 300.0, 800.0][seed as usize % 5];
        plan.weights.1 = [100.0, 200.0][seed as usize % 2];
        plan
    };
    in_every_history(plan, |plan, mut history| {
        if !plan.can_be_bounded() {
            return Ok(());
        }
        history.pass(STEADY_AFTER);
        let part = history.works(VICTIM, Duration::from_secs(2)) / plan.fair();
        ensure(is_fair(part, plan), || format!("{part:.3}"))
    });
}

/// Under a steady load weight and budget do not oscillate.
/// Promise 29.
#[test]
fn weight_and_budget_do_not_oscillate() {
    let plan = |seed| Plan {
        stream: false,
        ..Plan::from_seed(seed)
    };
    in_every_history(plan, |plan, mut history| {
        if !plan.can_be_bounded() {
            return Ok(());
        }
        history.pass(STEADY_AFTER);
        let (mut weights, mut rates) = (Vec::new(), Vec::new());
        for _ in 0..100 {
            history.pass(STEP);
            let offender = &history.host.tenants[OFFENDER];
            weights.push(offender.weight_now() / offender.base_weight);
            let spending = offender.bucket.spending;
            rates.extend(spending.and_then(|s| s.cpus));
        }
        let (weight, rate) = (turns(&weights), turns(&rates));
        ensure(weight <= 1, || format!("weight turns {weight} times"))?;
        ensure(rate <= 1, || format!("budget turns {rate} times"))
    });
}

/// Number of changes of direction by more than [`TURN`]. One on the way to another value is no
/// oscillation.
fn turns(values: &[f64]) -> u32 {
    let (mut turns, mut rising) = (0, None);
    let mut extreme = values.first().copied().unwrap_or(0.0);
    for value in values {
        let on = match rising {
            None => (value - extreme).abs() < TURN,
            Some(true) => *value >= extreme,
            Some(false) => *value <= extreme,
        };
        if on && rising.is_some() {
            extreme = *value;
        } else if (value - extreme).abs() > TURN {
            turns += u32::from(rising.is_some());
            rising = Some(*value > extreme);
            extreme = *value;
        }
    }
    turns
}

/// Under a quota, tasks and packets together stay within it, and packets continue to pass.
/// Promise 33.
#[test]
fn a_quota_holds_and_silences_no_container() {
    in_every_history(Plan::under_quota, |plan, mut history| {
        if plan.dropping_cpus() > 0.8 {
            return Ok(());
        }
        let quota = plan.quota_cpus.unwrap_or(1.0);
        history.pass(STEADY_AFTER);
        let before = history.host.tenants[OFFENDER].clone();
        history.pass(Duration::from_secs(3));
        let after = &history.host.tenants[OFFENDER];
        let used = (after.uses_ns() - before.uses_ns()) / 3e9;
        let dropping = (after.dropping_ns - before.dropping_ns) / 3e9;
        let packets = (after.caused_ns - before.caused_ns) / 3e9 - dropping;
        ensure(used - dropping < 1.1 * quota + 0.01, || {
            format!("{used:.3} of {quota:.3} CPUs, {dropping:.3} for dropping")
        })?;
        ensure(packets > 0.15 * quota, || {
            format!("{packets:.3} of {quota:.3} CPUs for packets that pass")
        })
    });
}
