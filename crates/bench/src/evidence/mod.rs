//! What a figure proves: the one rule by which every benchmark judges.
//!
//! - A figure of fewer than [`FEWEST_BLOCKS`] blocks, or whose blocks are all alike, has no interval
//!   ([`Estimate::interval`]) and proves nothing.
//! - A goal is *reached* when the whole interval is on the good side, *missed* when it is wholly on the
//!   bad side, else *inconclusive*; *not measured* without a figure.
//! - A count (bytes, packets out of order) is exact and has no interval.
//! - What was measured on a host that was busy before the run is inconclusive.
//! - Cofferdam has mended something only where the same cell without it missed the goal.
//!
//! Terminal, report, `result.json` and exit codes take their words from here. Pure: from results to
//! judgements.

mod harm;

pub use harm::{Largest, largest};

use crate::data::{Bound, Doubt, Estimate, FEWEST_BLOCKS, Interval, Judgement, Verdict};
use crate::run::{RunData, RunResult};
use crate::stats::mann_whitney;

/// A difference whose p-value is below this is told.
pub const SIGNIFICANT: f64 = 0.05;

impl Bound {
    /// Whether `value` is on the good side.
    pub fn admits(self, value: f64) -> bool {
        match self {
            Bound::AtMost(most) => value <= most,
            Bound::AtLeast(least) => value >= least,
            Bound::Within([least, most]) => (least..=most).contains(&value),
        }
    }

    /// By how much `value` is on the bad side; below 0 on the good one.
    pub fn excess(self, value: f64) -> f64 {
        match self {
            Bound::AtMost(most) => value - most,
            Bound::AtLeast(least) => least - value,
            Bound::Within([least, most]) => (value - most).max(least - value),
        }
    }

    /// What `interval` proves.
    fn judge(self, interval: Interval) -> Verdict {
        let (low, high) = (interval.low(), interval.high());
        let is_beyond = match self {
            Bound::AtMost(most) => low > most,
            Bound::AtLeast(least) => high < least,
            Bound::Within([least, most]) => low > most || high < least,
        };
        match is_beyond {
            true => Verdict::Missed,
            // The good side has no gap: what admits both ends admits all between.
            false if self.admits(low) && self.admits(high) => Verdict::Reached,
            false => Verdict::Inconclusive,
        }
    }
}

/// What is judged.
#[derive(Clone, Debug)]
pub(crate) enum Figure<'a> {
    /// A median over blocks.
    Sampled(&'a Estimate),
    /// A median whose blocks were not kept.
    Summed(f64, Option<Interval>),
    /// Exact.
    Count(f64),
    /// One figure of the whole run.
    Once(f64),
}

impl Figure<'_> {
    fn judge(&self, bound: Bound) -> (Verdict, Option<Doubt>) {
        let (interval, lacking) = match self {
            Figure::Count(value) if bound.admits(*value) => return (Verdict::Reached, None),
            Figure::Count(_) => return (Verdict::Missed, None),
            Figure::Once(_) => (None, Doubt::Once),
            Figure::Summed(_, interval) => (*interval, Doubt::FewBlocks),
            Figure::Sampled(e) => (e.interval(), doubt(e)),
        };
        match interval.map(|interval| bound.judge(interval)) {
            None => (Verdict::Inconclusive, Some(lacking)),
            Some(Verdict::Inconclusive) => (Verdict::Inconclusive, Some(Doubt::HoldsGoal)),
            Some(told) => (told, None),
        }
    }
}

/// Why `e` has no interval, if it has none.
fn doubt(e: &Estimate) -> Doubt {
    match e.blocks() < FEWEST_BLOCKS {
        true => Doubt::FewBlocks,
        false => Doubt::NoSpread,
    }
}

/// What `e` proves of `bound`.
pub fn judge(bound: Bound, e: &Estimate) -> Verdict {
    Figure::Sampled(e).judge(bound).0
}

/// One goal, judged on a calm host.
pub(crate) fn goal(
    what: impl Into<String>,
    case: Option<String>,
    bound: Bound,
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

/// The same goal where Cofferdam was to mend what `without` shows: where that did not miss the goal,
/// reaching it proves nothing of Cofferdam.
pub(crate) fn mended(goal: Judgement, without: &Estimate) -> Judgement {
    match (goal.verdict, judge(goal.bound, without)) {
        (Verdict::Reached, Verdict::Missed) | (Verdict::Missed | Verdict::Inconclusive, _) => goal,
        (Verdict::Reached, _) => Judgement {
            verdict: Verdict::NoHarm,
            ..goal
        },
        (Verdict::NoHarm | Verdict::NotMeasured, _) => goal,
    }
}

/// Every goal of `result`; `is_busy`: the host was busy with other things before the run.
pub fn goals(result: &RunResult, is_busy: bool) -> Vec<Judgement> {
    let mut goals = result.outcome().goals();
    if is_busy {
        goals.iter_mut().for_each(doubt_the_host);
    }
    goals
}

/// A count is the same on a busy host.
pub(crate) fn doubt_the_host(goal: &mut Judgement) {
    if goal.verdict != Verdict::NotMeasured && goal.blocks.is_some() {
        goal.verdict = Verdict::Inconclusive;
        goal.doubt = Some(Doubt::BusyHost);
    }
}

/// Every goal of `run`, by its data alone.
pub fn of(run: &RunData) -> Vec<Judgement> {
    let result = run.result.as_ref();
    result.map_or_else(Vec::new, |r| goals(r, run.manifest.is_busy))
}

/// Whether `result` holds a single figure.
pub fn is_measured(result: Option<&RunResult>) -> bool {
    result.is_some_and(|result| result.outcome().is_measured())
}

/// Whether two figures differ by the Mann-Whitney test; `None` where one has too few blocks to tell.
pub fn differ(one: &Estimate, other: &Estimate) -> Option<bool> {
    let fewest = one.blocks().min(other.blocks());
    (fewest >= FEWEST_BLOCKS).then(|| mann_whitney(&one.values, &other.values) < SIGNIFICANT)
}

#[cfg(test)]
mod tests;
