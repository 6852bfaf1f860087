//! The largest harm of many cases: what a headline must name.

use super::judge;
use crate::data::{Bound, Estimate, Verdict};

/// The largest harm that is proved, and one that would be larger still and is not.
#[derive(Clone, Debug, PartialEq)]
pub struct Largest<'a, T> {
    /// Its whole interval is on the bad side.
    pub proved: Option<(T, &'a Estimate)>,
    /// Its median is worse than that of `proved`, or on the bad side without one.
    pub doubtful: Option<(T, &'a Estimate)>,
    /// The worst of those that are wholly on the good side; only where nothing is on the bad side.
    pub harmless: Option<(T, &'a Estimate)>,
}

/// The largest harm of `cases`, where `bound` is what does no harm. A median on the good side whose
/// interval is not wholly there counts as doubtful.
pub fn largest<'a, T: Clone>(cases: &[(T, &'a Estimate)], bound: Bound) -> Largest<'a, T> {
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
    Largest {
        harmless: worst(Verdict::Reached).filter(|_| is_harmless),
        proved,
        doubtful,
    }
}
