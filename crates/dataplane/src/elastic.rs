//! Planner of elastic cores. It decides from an interval of the cores' activity which flow groups
//! move, so that the number of cores follows the load. It is pure: the caller provides the time and
//! executes the plans.
//!
//! A core is added if packets wait too long, and removed if the others can carry its load, as in
//! IX's control plane (Prekas et al., "Energy proportionality and workload consolidation for
//! latency-critical applications", SoCC'15). At a constant load the plan becomes stable: a core is
//! removed only at a clearly lower load than that at which it was added, and between two such
//! changes no flow group moves twice to balance loads.

mod load;
mod reading;
mod status;

pub(crate) use reading::{CoreReading, GROUPS, Move, Reading};
pub(crate) use status::{Counts, Status};

use crate::config::Elastic;
use crate::tuning::MOST_CORES;
use crate::tuning::elastic::{FAR, FULL, LEAST_GAIN, LESS, LONGEST, TOO_EARLY};
use load::Load;
use std::time::Duration;

/// Purpose of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// The core gets flow groups.
    Add(u8),
    /// The core loses its flow groups.
    Remove(u8),
    /// Loads become more even.
    Balance,
}

/// Moves of flow groups, and their reason.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plan {
    pub change: Change,
    /// Moves in their order.
    pub moves: Vec<Move>,
    /// Reason, as text.
    pub why: String,
}

/// Decision after an interval.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verdict {
    Go(Plan),
    /// No change; with the reason if one would be useful.
    Stay(Option<String>),
}

/// Planner with the state of previous intervals.
#[derive(Debug)]
pub(crate) struct Planner {
    settings: Elastic,
    /// Connections that moves may bring to a core, at most.
    most_connections: u32,
    /// Consecutive readings that call for another core.
    slow: u32,
    uneven: u32,
    calm: u32,
    /// Time of the last change. The next field is the time of the last removal.
    changed: Option<Duration>,
    removed: Option<Duration>,
    /// Pauses before a core may be removed.
    patience: u32,
    /// Time of each group's last move.
    moved: [Option<Duration>; GROUPS],
    /// Groups moved to balance loads while the load was about `even_load`, as bits.
    evened: u128,
    even_load: f64,
    /// Load at which the last core was added, by number of cores in use.
    came_at: [Option<f64>; MOST_CORES + 1],
}

impl Planner {
    /// A planner for cores of `connections` each.
    pub fn new(settings: Elastic, connections: u32) -> Planner {
        Planner {
            settings,
            // Connections open while groups move.
            most_connections: (f64::from(connections) * FULL) as u32,
            slow: 0,
            uneven: 0,
            calm: 0,
            changed: None,
            removed: None,
            patience: 1,
            moved: [None; GROUPS],
            evened: 0,
            even_load: 0.0,
            came_at: [None; MOST_CORES + 1],
        }
    }

    /// Records a move of a flow group, by plan or by request. The group stays for a pause.
    pub fn moved(&mut self, group: u8, now: Duration) {
        if let Some(moved) = self.moved.get_mut(usize::from(group)) {
            *moved = Some(now);
        }
    }

    /// Records the end of a plan. Nothing changes for a pause.
    pub fn finish_plan(&mut self, now: Duration) {
        self.changed = Some(now);
        (self.slow, self.uneven, self.calm) = (0, 0, 0);
    }

    /// Decides after an interval that ends at `now`; `owners` has the core of each flow group.
    pub fn plan(&mut self, now: Duration, owners: &[u8; GROUPS], reading: &Reading) -> Verdict {
        let least = self.settings.least_cores;
        let load = Load::new(owners, reading, least, self.most_connections);
        let used = load.in_use();
        let (Some(slowest), Some(fullest), Some(idlest)) = (
            load.most(|core| load.delay(core).as_secs_f64()),
            load.most(|core| load.of(core)),
            load.most(|core| -load.of(core)),
        ) else {
            return Verdict::Stay(None);
        };
        if (load.total() - self.even_load).abs() > (1.0 - LESS) * self.even_load {
            self.even_load = load.total();
            self.evened = 0;
        }
        let is_slow = load.delay(slowest) > self.settings.queue_delay;
        let is_uneven = load.of(fullest) - load.of(idlest) > FAR
            && (is_slow || load.of(fullest) > self.settings.busy_share);
        let removal = if is_slow {
            None
        } else {
            self.removal(now, &load)
        };
        count(&mut self.slow, is_slow);
        count(&mut self.uneven, is_uneven);
        count(&mut self.calm, removal.is_some());
        let enough = self.settings.intervals;
        if self.is_paused(now, 1) {
            return Verdict::Stay(None);
        }
        if self.uneven >= enough
            && let Some(plan) = self.balance(now, &load, fullest, idlest)
        {
            return Verdict::Go(plan);
        }
        if self.slow >= enough {
            return match self.addition(now, &load, slowest) {
                Ok((core, plan)) => {
                    let is_early = self.removed.is_some_and(|at| {
                        now.saturating_sub(at) < self.settings.pause * TOO_EARLY * self.patience
                    });
                    let longer = (self.patience * 2).min(LONGEST);
                    self.patience = if is_early { longer } else { 1 };
                    debug_assert!(!used.contains(&core));
                    if let Some(place) = self.came_at.get_mut(used.len() + 1) {
                        *place = Some(load.total());
                    }
                    Verdict::Go(plan)
                }
                Err(why) => Verdict::Stay(Some(why)),
            };
        }
        match removal {
            Some(plan) if self.calm >= enough && !self.is_paused(now, self.patience) => {
                self.removed = Some(now);
                Verdict::Go(plan)
            }
            _ => Verdict::Stay(None),
        }
    }

    fn is_paused(&self, now: Duration, pauses: u32) -> bool {
        let pause = self.settings.pause * pauses;
        (self.changed).is_some_and(|at| now.saturating_sub(at) < pause)
    }

    /// Whether a group may move now.
    fn is_free(&self, group: u8, now: Duration) -> bool {
        let moved = self.moved.get(usize::from(group)).copied().flatten();
        moved.is_none_or(|at| now.saturating_sub(at) >= self.settings.pause)
    }

    /// Plans the use of the first unused core, with the busiest groups, until all cores have about
    /// the same load.
    fn addition(&self, now: Duration, load: &Load, slowest: u8) -> Result<(u8, Plan), String> {
        let waited = micros(load.delay(slowest));
        let bound = micros(self.settings.queue_delay);
        let seen = format!("a packet waited {waited} on core {slowest}, more than {bound}");
        let used = load.in_use();
        let mut all = 0..load.cores();
        let core = all.find(|core| !used.contains(core));
        let (Some(core), true) = (core, used.len() < usize::from(self.settings.most_cores)) else {
            let count = used.len();
            return Err(format!(
                "{seen}; no core is left to add to the {count} in use"
            ));
        };
        let mut after = load.clone();
        let share = load.total() / (used.len() + 1) as f64;
        let mut moves = after.fill(core, share, |_| true, |group| self.is_free(group, now));
        let busiest = used.iter().map(|core| load.of(*core)).fold(0.0, f64::max);
        if after.of(core) - load.of(core) < LEAST_GAIN * busiest {
            return Err(format!(
                "{seen}; no core is added: a few flow groups carry the load, and cannot be divided"
            ));
        }
        moves.extend(after.even_counts(core, used.len() + 1, |group| self.is_free(group, now)));
        let why = format!(
            "core {core} added, with {} flow groups: {seen}",
            moves.len()
        );
        let change = Change::Add(core);
        Ok((core, Plan { change, moves, why }))
    }

    /// Plans moves from the busiest core to the idlest until both have about the same load.
    fn balance(&mut self, now: Duration, load: &Load, from: u8, to: u8) -> Option<Plan> {
        let mut after = load.clone();
        let middle = (load.of(from) + load.of(to)) / 2.0;
        let may = |group| self.evened & (1_u128 << group) == 0 && self.is_free(group, now);
        let moves = after.fill(to, middle, |core| core == from, may);
        if after.of(to) - load.of(to) < LEAST_GAIN * load.of(from) {
            return None;
        }
        self.evened |= moves.iter().map(|m| 1_u128 << m.group).sum::<u128>();
        let (full, idle) = (percent(load.of(from)), percent(load.of(to)));
        let why = format!(
            "{} moved from core {from} to core {to}: they were busy {full} and {idle} of their \
                time",
            groups(moves.len()),
        );
        let change = Change::Balance;
        Some(Plan { change, moves, why })
    }

    /// Plans the removal of a core that the others do not need.
    fn removal(&self, now: Duration, load: &Load) -> Option<Plan> {
        let used = load.in_use();
        let least = self.settings.least_cores;
        if used.len() <= usize::from(least) {
            return None;
        }
        let came_at = self.came_at.get(used.len()).copied().flatten();
        if came_at.is_some_and(|came_at| load.total() > LESS * came_at) {
            return None;
        }
        let mut candidates: Vec<u8> = used.into_iter().filter(|core| *core >= least).collect();
        candidates.sort_by(|a, b| load.of(*a).total_cmp(&load.of(*b)).then(b.cmp(a)));
        candidates.into_iter().find_map(|core| {
            let mut after = load.clone();
            let moves = after.spread(core)?;
            let is_free = moves.iter().all(|m| self.is_free(m.group, now));
            let busiest = after
                .in_use()
                .iter()
                .map(|c| after.of(*c))
                .fold(0.0, f64::max);
            let why = format!(
                "core {core} removed, its {} spread: each other core will be busy for at most {} \
                    of its time",
                groups(moves.len()),
                percent(busiest),
            );
            let change = Change::Remove(core);
            (is_free && busiest <= self.settings.busy_share).then_some(Plan { change, moves, why })
        })
    }
}

fn count(streak: &mut u32, is_so: bool) {
    *streak = if is_so { streak.saturating_add(1) } else { 0 };
}

fn groups(count: usize) -> String {
    format!("{count} flow group{}", if count == 1 { "" } else { "s" })
}

fn percent(share: f64) -> String {
    format!("{:.0}%", share * 100.0)
}

fn micros(time: Duration) -> String {
    format!("{:.0} µs", time.as_secs_f64() * 1e6)
}

#[cfg(test)]
mod tests;
