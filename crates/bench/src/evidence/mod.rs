//! Rule by which every benchmark judges its figures.
//!
//! - A figure from fewer than [`FEWEST_BLOCKS`] blocks, or from blocks with equal values, has no
//!   interval ([`Estimate::interval`]) and proves nothing.
//! - A goal is *reached* if the whole interval is on the good side, and *missed* if the whole
//!   interval is on the bad side. Any other interval is *inconclusive*; a goal without a figure is
//!   *not measured*.
//! - A count (bytes, packets out of order) is exact and has no interval.
//! - A figure from a host that was busy before the run is inconclusive.
//! - Cofferdam gets credit for a reached goal only if the same cell without Cofferdam missed it.
//!
//! The terminal, the report, `result.json` and the exit codes take their words from here. The
//! module is pure: results in, judgements out.

mod harm;

pub use harm::{LargestHarm, largest};

use crate::data::{Doubt, Estimate, FEWEST_BLOCKS, GoalBound, Interval, Judgement, Verdict};
use crate::run::{RunData, RunResult};
use crate::stats::mann_whitney;

/// Largest p-value at which a difference is reported.
pub const SIGNIFICANT: f64 = 0.05;

impl GoalBound {
    /// Whether `value` is on the good side.
    pub fn admits(self, value: f64) -> bool {
        match self {
            GoalBound::AtMost(most) => value <= most,
            GoalBound::AtLeast(least) => value >= least,
            GoalBound::Within([least, most]) => (least..=most).contains(&value),
        }
    }

    /// Distance of `value` from the bound: positive on the bad side, negative on the good side.
    pub fn excess(self, value: f64) -> f64 {
        match self {
            GoalBound::AtMost(most) => value - most,
            GoalBound::AtLeast(least) => least - value,
            GoalBound::Within([least, most]) => (value - most).max(least - value),
        }
    }

    /// Verdict that `interval` proves.
    fn judge(self, interval: Interval) -> Verdict {
        let (low, high) = (interval.low(), interval.high());
        let is_beyond = match self {
            GoalBound::AtMost(most) => low > most,
            GoalBound::AtLeast(least) => high < least,
            GoalBound::Within([least, most]) => low > most || high < least,
        };
        match is_beyond {
            true => Verdict::Missed,
            // The good side has no gap: if it has both ends, it has every value between them.
            false if self.admits(low) && self.admits(high) => Verdict::Reached,
            false => Verdict::Inconclusive,
        }
    }
}

/// Figure to judge.
#[derive(Clone, Debug)]
pub(crate) enum Figure<'a> {
    /// Median over blocks, with the blocks' values.
    Sampled(&'a Estimate),
    /// Median over blocks whose values were not stored.
    Summed(f64, Option<Interval>),
    /// Exact count.
    Count(f64),
    /// Single figure of the whole run.
    Once(f64),
}

impl Figure<'_> {
    fn judge(&self, bound: GoalBound) -> (Verdict, Option<Doubt>) {
        let (interval, default_doubt) = match self {
            Figure::Count(value) if bound.admits(*value) => return (Verdict::Reached, None),
            Figure::Count(_) => return (Verdict::Missed, None),
            Figure::Once(_) => (None, Doubt::Once),
            Figure::Summed(_, interval) => (*interval, Doubt::FewBlocks),
            Figure::Sampled(e) => (e.interval(), doubt(e)),
        };
        match interval.map(|interval| bound.judge(interval)) {
            None => (Verdict::Inconclusive, Some(default_doubt)),
            Some(Verdict::Inconclusive) => (Verdict::Inconclusive, Some(Doubt::HoldsGoal)),
            Some(verdict) => (verdict, None),
        }
    }
}

/// Reason why `e` has no interval.
fn doubt(e: &Estimate) -> Doubt {
    match e.blocks() < FEWEST_BLOCKS {
        true => Doubt::FewBlocks,
        false => Doubt::NoSpread,
    }
}

/// Returns the verdict on `bound` that `e` proves.
pub fn judge(bound: GoalBound, e: &Estimate) -> Verdict {
    Figure::Sampled(e).judge(bound).0
}

/// Judges one goal, on a calm host.
pub(crate) fn goal(
    what: impl Into<String>,
    case: Option<String>,
    bound: GoalBound,
    figure: Option<Figure<'_>>,
) -> Judgement {
    let (median, interval, blocks) = match &figure {
        None => (None, None, None),
        Some(Figure::Sampled(e)) => (Some(e.median), e.interval(), Some(e.blocks())),
        Some(Figure::Summed(median, interval)) => (Some(*median), *interval, None),
        Some(Figure::Count(value)) => (Some(*value), None, None),
        Some(Figure::Once(value)) => (Some(*value), None, Some(1)),
    };
    let (verdict, doubt) = figure.map_or((Verdict::NotMeasured, None), |f| f.judge(bound));
    Judgement {
        what: what.into(),
        case,
        bound,
        median,
        low: interval.map(Interval::low),
        high: interval.map(Interval::high),
        blocks,
        verdict,
        doubt,
    }
}

/// Judges a goal that Cofferdam was to reach, where `without` is the figure without Cofferdam. If
/// `without` did not miss the goal, reaching it proves nothing about Cofferdam.
pub(crate) fn judge_with_baseline(goal: Judgement, without: &Estimate) -> Judgement {
    match (goal.verdict, judge(goal.bound, without)) {
        (Verdict::Reached, Verdict::Missed) | (Verdict::Missed | Verdict::Inconclusive, _) => goal,
        (Verdict::Reached, _) => Judgement {
            verdict: Verdict::NoHarm,
            ..goal
        },
        (Verdict::NoHarm | Verdict::NotMeasured, _) => goal,
    }
}

/// Returns the judgements of all goals of `result`. `is_busy`: the host did other work before the
/// run.
pub fn goals(result: &RunResult, is_busy: bool) -> Vec<Judgement> {
    let mut goals = result.outcome().goals();
    if is_busy {
        goals.iter_mut().for_each(doubt_the_host);
    }
    goals
}

/// Makes a goal inconclusive because the host was busy. A count is the same on a busy host.
pub(crate) fn doubt_the_host(goal: &mut Judgement) {
    if goal.verdict != Verdict::NotMeasured && goal.blocks.is_some() {
        goal.verdict = Verdict::Inconclusive;
        goal.doubt = Some(Doubt::BusyHost);
    }
}

/// Returns the judgements of all goals of `run`, from its data alone.
pub fn of(run: &RunData) -> Vec<Judgement> {
    let result = run.result.as_ref();
    result.map_or_else(Vec::new, |r| goals(r, run.manifest.is_busy))
}

/// Whether `result` has at least one figure.
pub fn is_measured(result: Option<&RunResult>) -> bool {
    result.is_some_and(|result| result.outcome().is_measured())
}

/// Whether two figures differ by the Mann-Whitney test; `None` if one has too few blocks.
pub fn differ(one: &Estimate, other: &Estimate) -> Option<bool> {
    let fewest = one.blocks().min(other.blocks());
    (fewest >= FEWEST_BLOCKS).then(|| mann_whitney(&one.values, &other.values) < SIGNIFICANT)
}

#[cfg(test)]
mod tests;
