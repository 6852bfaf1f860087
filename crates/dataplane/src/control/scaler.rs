//! Execution of the elastic cores' plans: one flow group after the other, for a bounded time in
//! each turn, so that no client of the control plane waits for it.

use super::moves::Moves;
use crate::config::Elastic;
use crate::elastic::{Change, Counts, GROUPS, Move, Plan, Planner, Reading, Status, Verdict};
use crate::notice::Notice;
use crate::tuning::control::{MOVE_BUDGET, MOVE_LOOK, MOVE_PATIENCE};
use std::collections::VecDeque;
use std::time::Instant;

/// The planner, and the plan in progress.
pub(super) struct Scaler {
    planner: Planner,
    start: Instant,
    /// Purpose of the plan, and its moves that have not begun.
    plan: Option<(Change, VecDeque<Move>)>,
    /// The move that has begun.
    current: Option<Move>,
    /// Whether the move takes too long and was reported.
    is_stuck: bool,
    last: Option<(String, Instant)>,
    counts: Counts,
    settings: Elastic,
}

impl Scaler {
    /// A scaler for cores of `connections` each.
    pub fn new(settings: Elastic, connections: u32) -> Scaler {
        Scaler {
            planner: Planner::new(settings, connections),
            start: Instant::now(),
            plan: None,
            current: None,
            is_stuck: false,
            last: None,
            counts: Counts::default(),
            settings,
        }
    }

    /// State for status and metrics.
    pub fn status(&self) -> Status {
        Status {
            least_cores: self.settings.least_cores,
            most_cores: self.settings.most_cores,
            counts: self.counts,
            last_decision: self.last.as_ref().map(|(why, _)| why.clone()),
            last_decision_age_s: self.last.as_ref().map(|(_, at)| at.elapsed().as_secs_f64()),
        }
    }

    /// Whether a plan is in progress.
    pub fn is_at_work(&self) -> bool {
        self.plan.is_some()
    }

    /// Records a move by request. The plan leaves the group where it is.
    pub fn moved_by_hand(&mut self, group: u8) {
        self.planner.moved(group, self.start.elapsed());
        if let Some((_, moves)) = &mut self.plan {
            moves.retain(|m| m.group != group);
        }
    }

    fn decide(&mut self, why: String) {
        // A repeated decision is not recorded again.
        if self.last.as_ref().is_none_or(|(last, _)| *last != why) {
            self.last = Some((why, Instant::now()));
        }
    }

    /// Records that all moves are done.
    fn finish(&mut self, change: Change) {
        let count = match change {
            Change::Add(_) => &mut self.counts.cores_added,
            Change::Remove(_) => &mut self.counts.cores_removed,
            Change::Balance => &mut self.counts.balances,
        };
        *count += 1;
        self.plan = None;
        self.planner.finish_plan(self.start.elapsed());
    }

    fn give_up(&mut self) {
        self.plan = None;
        self.planner.finish_plan(self.start.elapsed());
    }

    /// Decides by the last interval, unless a plan is in progress. `owners` has the core of each
    /// flow group.
    pub fn consider(&mut self, reading: &Reading, owners: &[u8; GROUPS]) {
        if self.is_at_work() {
            return;
        }
        match self.planner.plan(self.start.elapsed(), owners, reading) {
            Verdict::Go(plan) => self.begin(plan),
            Verdict::Stay(Some(why)) => self.decide(why),
            Verdict::Stay(None) => {}
        }
    }

    /// Starts a plan.
    pub fn begin(&mut self, plan: Plan) {
        self.last = Some((plan.why, Instant::now()));
        self.plan = Some((plan.change, plan.moves.into()));
    }

    /// Makes moves until the plan is done or this turn's time is over.
    pub fn resume_plan(&mut self, moves: &mut Moves, notify: impl Fn(Notice)) {
        let until = Instant::now() + MOVE_BUDGET;
        while Instant::now() < until {
            if let Some(way) = moves.on_its_way() {
                let is_late = way.since.elapsed() > MOVE_PATIENCE;
                if is_late && !self.is_stuck && self.is_at_work() {
                    self.is_stuck = true;
                    self.counts.moves_stuck += 1;
                    let (group, core) = (way.group, way.to);
                    self.decide(format!(
                        "flow group {group} is stuck on its way to core {core}: no other flow \
                            group moves until it arrives"
                    ));
                    self.give_up();
                    notify(Notice::Stuck { group, core });
                }
                if self.is_stuck || !self.is_at_work() {
                    return;
                }
                std::thread::sleep(MOVE_LOOK);
                continue;
            }
            self.is_stuck = false;
            if let Some(done) = self.current.take() {
                self.counts.groups_moved += 1;
                self.planner.moved(done.group, self.start.elapsed());
            }
            let Some((change, left)) = &mut self.plan else {
                return;
            };
            let change = *change;
            let Some(next) = left.pop_front() else {
                return self.finish(change);
            };
            if moves.owner(next.group) == next.to {
                continue;
            }
            self.current = Some(next);
            if moves.begin(next.group, next.to).is_err() {
                // The dataplane is ending.
                self.current = None;
                self.give_up();
            }
        }
    }
}
