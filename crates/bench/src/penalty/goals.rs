//! Goals of enforcement, cell by cell.

use crate::data::{
    CellResult, GoalBound, Interferer, Judgement, Limit, Metric, TreatedResult, Verdict,
};
use crate::evidence::{Figure, doubt_the_host, goal, judge_with_baseline};
use std::ops::RangeInclusive;

/// Largest fair penalty, as in the goal of Iron.
pub const FAIR: f64 = 1.05;
/// Range of the victim's time under enforcement ÷ its fair time. Above it the victim is charged for
/// others; below it the victim has more than its share.
pub const PENALTY_WITHIN: RangeInclusive<f64> = 0.97..=1.03;
/// Largest excess of the offender's corrected CPU use over its share, as a share of one CPU.
pub const SHARE_EXCEEDED: f64 = 0.02;
/// Lowest part of the vanilla goodput that an offender keeps while nothing else wants the CPU.
pub const IDLE_GOODPUT: f64 = 0.97;
/// Lowest part of the vanilla goodput that TCP keeps under a quota of [`SMALL_QUOTA_PCT`], where
/// flow control limits it.
pub const TCP_QUOTA_GOODPUT: f64 = 0.14;
/// Share of the competitor in that cell, percent.
const SMALL_QUOTA_PCT: f64 = 20.0;

/// Enforced cell and its goals.
pub(super) struct JudgedCell<'a> {
    pub cell: &'a CellResult,
    pub treated: &'a TreatedResult,
    pub goals: Vec<(&'static str, Judgement)>,
}

impl JudgedCell<'_> {
    /// Short names of the goals with this verdict.
    pub fn goals_that_are(&self, verdict: Verdict) -> Vec<&'static str> {
        let goals = self
            .goals
            .iter()
            .filter(|(_, goal)| goal.verdict == verdict);
        goals.map(|(name, _)| *name).collect()
    }

    /// Makes the goals inconclusive if the host was busy before the run.
    pub fn doubt(&mut self, is_busy: bool) {
        if is_busy {
            self.goals
                .iter_mut()
                .for_each(|(_, goal)| doubt_the_host(goal));
        }
    }
}

/// Judges every enforced cell: by the benchmark's loop, by the agent, or by each.
pub(super) fn judge_cells(cells: &[CellResult]) -> Vec<JudgedCell<'_>> {
    let enforced = cells.iter().flat_map(|cell| {
        let whole = cell.treated.iter().filter(|t| t.treatment.is_whole());
        whole.map(move |treated| JudgedCell {
            cell,
            treated,
            goals: of_cell(cell, treated),
        })
    });
    enforced.collect()
}

pub(crate) fn goals(cells: &[CellResult]) -> Vec<Judgement> {
    let all = judge_cells(cells)
        .into_iter()
        .flat_map(|judged| judged.goals);
    all.map(|(_, goal)| goal).collect()
}

fn of_cell(cell: &CellResult, treated: &TreatedResult) -> Vec<(&'static str, Judgement)> {
    let case = || Some(cell.cell.id.clone());
    let of = |e| Some(Figure::Sampled(e));
    let penalty = goal(
        "Penalty factor with Cofferdam enforcing",
        case(),
        bound(cell),
        of(&treated.penalty),
    );
    let mut goals = vec![("penalty", judge_with_baseline(penalty, &cell.penalty))];
    // A server that sleeps most of the time leaves the rest of the CPU to its competitors.
    let wants_its_share = cell.metric == Metric::ElapsedS;
    if let Some(corrected) = treated
        .offender_corrected
        .as_ref()
        .filter(|_| wants_its_share)
    {
        let what = "The competitors' CPU use with what they owe, CPUs";
        let share = f64::from(100 - cell.cell.victim_share_pct.min(100)) / 100.0;
        let most = GoalBound::AtMost(share + SHARE_EXCEEDED);
        goals.push(("share", goal(what, case(), most, of(corrected))));
    }
    let is_by_quota = cell.cell.limit == Limit::Quota;
    if let Some(goodput) = treated.idle_goodput_kept.as_ref().filter(|_| !is_by_quota) {
        let what = "Goodput kept while the CPU is otherwise idle";
        goals.push((
            "idle goodput",
            goal(what, case(), GoalBound::AtLeast(IDLE_GOODPUT), of(goodput)),
        ));
    }
    let is_small = cell.cell.competitor_share_pct() <= SMALL_QUOTA_PCT;
    let is_tcp_by_quota = is_by_quota && is_small && cell.cell.interferer == Interferer::Stream;
    if let Some(goodput) = treated.goodput_kept.as_ref().filter(|_| is_tcp_by_quota) {
        let what = "Goodput that TCP keeps under a small quota";
        let least = GoalBound::AtLeast(TCP_QUOTA_GOODPUT);
        goals.push(("quota goodput", goal(what, case(), least, of(goodput))));
    }
    goals
}

/// Range that the penalty must have. A server may answer sooner: that harms no one. A competitor
/// that wants less than its share (a sender with a slow link) leaves the rest to the victim.
/// Enforcement may not take more from the competitor, so the range then extends down to the vanilla
/// penalty.
fn bound(cell: &CellResult) -> GoalBound {
    let (least, most) = PENALTY_WITHIN.into_inner();
    match cell.metric {
        Metric::P99Us => GoalBound::AtMost(most),
        Metric::ElapsedS => {
            let left = cell.penalty.median - (most - 1.0);
            GoalBound::Within([least.min(left), most])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::Estimate;
    use crate::report::tests::sample;

    fn cell(vanilla: f64, enforced: f64) -> CellResult {
        let mut run = sample::penalty();
        let Some(crate::run::RunResult::Penalty(result)) = &mut run.result else {
            panic!("a penalty run");
        };
        let mut cell = sample::enforced(result.cells.remove(0), 1.0);
        cell.penalty = sample::five(vanilla);
        cell.treated[0].penalty = sample::five(enforced);
        cell
    }

    fn missed_goals(cell: &CellResult) -> Vec<&'static str> {
        judge_cells(std::slice::from_ref(cell))[0].goals_that_are(Verdict::Missed)
    }

    /// Promise 42.
    #[test]
    fn a_victim_with_too_little_or_too_much_misses_goals() {
        let (least, most) = PENALTY_WITHIN.into_inner();
        assert!(missed_goals(&cell(4.5, 1.0)).is_empty());
        assert_eq!(missed_goals(&cell(4.5, most * 1.1)), ["penalty"]);
        assert_eq!(missed_goals(&cell(4.5, least * 0.9)), ["penalty"]);
        // The competitor sleeps most of the time, with and without enforcement.
        assert!(missed_goals(&cell(0.5, 0.5)).is_empty());
        assert_eq!(missed_goals(&cell(0.5, 0.4)), ["penalty"]);
    }

    /// Promise 42.
    #[test]
    fn an_offender_is_judged_by_its_share_and_goodput() {
        let mut cell = cell(4.5, 1.0);
        let set = |values: f64| -> Option<Estimate> { Some(sample::five(values)) };
        // The offender's share is half of the CPU.
        cell.treated[0].offender_corrected = set(0.5 + 2.0 * SHARE_EXCEEDED);
        cell.treated[0].idle_goodput_kept = set(0.8);
        assert_eq!(missed_goals(&cell), ["share", "idle goodput"]);
        // A server that answers a request now and then does not want its share: the rest may be
        // used.
        let mut server = cell.clone();
        server.metric = Metric::P99Us;
        assert_eq!(missed_goals(&server), ["idle goodput"]);
        // A quota limits on an idle CPU too; TCP must keep the goodput that flow control allows.
        cell.cell.limit = Limit::Quota;
        cell.cell.victim_share_pct = 80;
        cell.cell.interferer = Interferer::Stream;
        cell.treated[0].offender_corrected = set(0.2);
        cell.treated[0].goodput_kept = set(0.05);
        assert_eq!(missed_goals(&cell), ["quota goodput"]);
    }
}
