//! Carries out what the planner of elastic cores decides: one flow group after the other, and
//! never so long that the control plane keeps anybody waiting.

use super::Control;
use super::cores::{LOOK, PATIENCE};
use crate::config::Elastic;
use crate::elastic::{Change, Move, Plan, Planner, Reading, Verdict};
use crate::run::Notice;
use cofferdam_netstack::FLOW_GROUPS;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Longest time that one turn of the control plane moves groups.
const BUDGET: Duration = Duration::from_millis(5);

/// The planner, and the plan that is carried out.
pub(super) struct Scaler {
    planner: Planner,
    start: Instant,
    /// What the moves are for, and those that have not begun.
    plan: Option<(Change, VecDeque<Move>)>,
    /// The move that has begun.
    current: Option<Move>,
    /// It takes too long, and its owner was told.
    is_stuck: bool,
    last: Option<(String, Instant)>,
    counts: Counts,
    settings: Elastic,
}

/// Changes since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Counts {
    /// Cores that came into use.
    pub cores_added: u64,
    /// Cores that went out of use.
    pub cores_removed: u64,
    /// Times that loads were evened out.
    pub balances: u64,
    /// Flow groups moved for all of these.
    pub groups_moved: u64,
    /// Moves that took longer than a second.
    pub moves_stuck: u64,
}

/// Elastic cores, as shown.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub(crate) struct Shown {
    /// Cores that always have flow groups.
    pub least_cores: u8,
    /// Cores that have flow groups at once, at most.
    pub most_cores: u8,
    #[serde(flatten)]
    pub counts: Counts,
    /// What was decided last, and why, in words; `None` before the first decision.
    pub last_decision: Option<String>,
    /// How long ago.
    pub last_decision_age_s: Option<f64>,
}

impl Scaler {
    /// For cores that take so many connections each.
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

    pub fn shown(&self) -> Shown {
        Shown {
            least_cores: self.settings.least_cores,
            most_cores: self.settings.most_cores,
            counts: self.counts,
            last_decision: self.last.as_ref().map(|(why, _)| why.clone()),
            last_decision_age_s: self.last.as_ref().map(|(_, at)| at.elapsed().as_secs_f64()),
        }
    }

    /// Whether moves wait to be made or seen to.
    pub fn is_at_work(&self) -> bool {
        self.plan.is_some()
    }

    /// A flow group was moved by hand: the plan leaves it where it is.
    pub fn moved_by_hand(&mut self, group: u8) {
        self.planner.moved(group, self.start.elapsed());
        if let Some((_, moves)) = &mut self.plan {
            moves.retain(|m| m.group != group);
        }
    }

    fn decide(&mut self, why: String) {
        // The same again is no news.
        if self.last.as_ref().is_none_or(|(last, _)| *last != why) {
            self.last = Some((why, Instant::now()));
        }
    }

    /// All moves are done.
    fn finish(&mut self, change: Change) {
        let count = match change {
            Change::Add(_) => &mut self.counts.cores_added,
            Change::Remove(_) => &mut self.counts.cores_removed,
            Change::Balance => &mut self.counts.balances,
        };
        *count += 1;
        self.plan = None;
        self.planner.settled(self.start.elapsed());
    }

    fn give_up(&mut self) {
        self.plan = None;
        self.planner.settled(self.start.elapsed());
    }
}

impl Control {
    /// Reads the cores when an interval is over, and goes on with a plan.
    pub(super) fn look_at_load(&mut self, say: impl Fn(Notice)) {
        if self.meter.left().is_zero() {
            let reading = self.meter.read(&self.hub.shown());
            self.consider(&reading);
        }
        self.carry_on(say);
    }

    fn consider(&mut self, reading: &Reading) {
        let mut owners = [0; FLOW_GROUPS as usize];
        for (owner, now) in owners.iter_mut().zip(self.hub.owners()) {
            *owner = now;
        }
        let is_moving = self.on_its_way().is_some();
        let Some(scaler) = &mut self.scaler else {
            return;
        };
        if is_moving || scaler.is_at_work() {
            return;
        }
        match scaler
            .planner
            .plan(scaler.start.elapsed(), &owners, reading)
        {
            Verdict::Go(plan) => self.begin_plan(plan),
            Verdict::Stay(Some(why)) => scaler.decide(why),
            Verdict::Stay(None) => {}
        }
    }

    /// Moves the groups of a plan from now on.
    pub(super) fn begin_plan(&mut self, plan: Plan) {
        if let Some(scaler) = &mut self.scaler {
            scaler.last = Some((plan.why, Instant::now()));
            scaler.plan = Some((plan.change, plan.moves.into()));
        }
    }

    /// Makes moves, one after the other, until the plan is done or this turn's time is over.
    fn carry_on(&mut self, say: impl Fn(Notice)) {
        let until = Instant::now() + BUDGET;
        while Instant::now() < until {
            let way = self.on_its_way();
            let Some(scaler) = &mut self.scaler else {
                return;
            };
            if let Some(way) = way {
                let is_late = way.since.elapsed() > PATIENCE;
                if is_late && !scaler.is_stuck && scaler.is_at_work() {
                    scaler.is_stuck = true;
                    scaler.counts.moves_stuck += 1;
                    let (group, core) = (way.group, way.to);
                    scaler.decide(format!(
                        "flow group {group} is stuck on its way to core {core}: no other flow group moves until it arrives"
                    ));
                    scaler.give_up();
                    say(Notice::Stuck { group, core });
                }
                if scaler.is_stuck || !scaler.is_at_work() {
                    return;
                }
                std::thread::sleep(LOOK);
                continue;
            }
            scaler.is_stuck = false;
            if let Some(done) = scaler.current.take() {
                scaler.counts.groups_moved += 1;
                scaler.planner.moved(done.group, scaler.start.elapsed());
            }
            let Some((change, moves)) = &mut scaler.plan else {
                return;
            };
            let change = *change;
            let Some(next) = moves.pop_front() else {
                return scaler.finish(change);
            };
            if self.hub.owner(next.group) == next.to {
                continue;
            }
            scaler.current = Some(next);
            if self.begin_move(next.group, next.to).is_err() {
                // It is ending.
                if let Some(scaler) = &mut self.scaler {
                    scaler.current = None;
                    scaler.give_up();
                }
            }
        }
    }
}
