//! Search for the largest harm among many cases, which a headline must name.

use super::judge;
use crate::data::{Estimate, GoalBound, Verdict};

/// Largest harm that is proved, and a larger one that is in doubt.
#[derive(Clone, Debug, PartialEq)]
pub struct LargestHarm<'a, T> {
    /// Case whose whole interval is on the bad side.
    pub proved: Option<(T, &'a Estimate)>,
    /// Inconclusive case whose median is worse than that of `proved`. Without a proved case, any
    /// inconclusive case.
    pub doubtful: Option<(T, &'a Estimate)>,
    /// Worst of the cases whose whole interval is on the good side; only if no case is on the bad
    /// side.
    pub harmless: Option<(T, &'a Estimate)>,
}

/// Finds the largest harm of `cases`, where `bound` separates harm from no harm. A case is doubtful
/// if its median is on the good side and its interval is not wholly there.
pub fn largest<'a, T: Clone>(cases: &[(T, &'a Estimate)], bound: GoalBound) -> LargestHarm<'a, T> {
    let worst = |of: Verdict| {
        let own = cases
            .iter()
            .filter(|(_, e)| e.median.is_finite() && judge(bound, e) == of);
        let excess = |case: &(T, &Estimate)| bound.excess(case.1.median);
        own.max_by(|a, b| excess(a).total_cmp(&excess(b))).cloned()
    };
    let proved = worst(Verdict::Missed);
    let doubtful = worst(Verdict::Inconclusive).filter(|(_, e)| {
        proved
            .as_ref()
            .is_none_or(|(_, p)| bound.excess(e.median) > bound.excess(p.median))
    });
    let is_harmless = proved.is_none() && doubtful.is_none();
    LargestHarm {
        harmless: worst(Verdict::Reached).filter(|_| is_harmless),
        proved,
        doubtful,
    }
}
