//! Decisions about network CPU, apart from their execution: observations of an interval in, a
//! [`Decision`] out. No file, no clock, no journal.
//!
//! A step has three parts, so that idle containers cause no reads. [`Policy::attention`] names the
//! containers that need a decision. [`Policy::weights_wanted`] names the cgroups whose weights
//! determine the shares. [`Policy::decide`] decides.

mod account;
mod causers;
mod correction;
mod debt;
mod decision;
mod divided;
mod facts;
mod idle;
mod packets;
mod payers;
mod placement;
mod pressed;
mod quota;
mod rates;
mod rivals;
mod share;
#[cfg(test)]
pub(super) mod simulation;
mod slack;
mod unseen;

pub(super) use account::Account;
pub(super) use correction::{Standing, Written};
pub(super) use decision::{Action, Decision, Hold, NapiPlace, PacketLimit, Packets, Spending};
pub(super) use facts::{
    Active, Billed, ContainerFacts, Facts, IdleParts, InterruptionCosts, Limiting, OwnQuota,
};
pub(super) use payers::Unpaid;

use causers::Causers;
use cofferdam_types::{CgroupId, Container, ContainerLedger, Interval, Means};
use idle::IdleTime;
use payers::Payers;
use rivals::Rivals;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Permitted means and bounds.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    /// Means that may be used.
    pub means: Vec<Means>,
    /// Whether NAPI threads run in the containers' cgroups.
    pub napi_in_container: bool,
    /// Largest debt of a container, in CPU time.
    pub debt_bound: Duration,
    /// Time that the means stay in place without victims.
    pub linger: Duration,
}

impl Rules {
    pub fn may(&self, means: Means) -> bool {
        self.means.contains(&means)
    }
}

/// State of the enforced containers, and the decisions. All times count from one arbitrary moment.
#[derive(Debug)]
pub(super) struct Policy {
    pub rules: Rules,
    accounts: BTreeMap<CgroupId, Account>,
    idle: IdleTime,
    rivals: Rivals,
    payers: Payers,
    /// Time returned in this step to containers without a rule, nanoseconds.
    to_others: HashMap<CgroupId, f64>,
}

impl Policy {
    pub fn new(rules: Rules) -> Policy {
        Policy {
            rules,
            accounts: BTreeMap::new(),
            idle: IdleTime::default(),
            rivals: Rivals::default(),
            payers: Payers::default(),
            to_others: HashMap::new(),
        }
    }

    /// Replaces the list of enforced containers. The CPU reservations own the weights of the
    /// containers in `reserved`.
    pub fn set(&mut self, wanted: &[Arc<Container>], reserved: &HashSet<CgroupId>) {
        let keep: HashSet<CgroupId> = wanted.iter().map(|c| c.cgroup).collect();
        self.accounts.retain(|id, _| keep.contains(id));
        for container in wanted {
            let known = self.accounts.entry(container.cgroup);
            let account = known.or_insert_with(|| Account::new(container.clone()));
            account.container = container.clone();
            account.weight_reserved = reserved.contains(&container.cgroup);
        }
    }

    pub fn account(&self, cgroup: CgroupId) -> Option<&Account> {
        self.accounts.get(&cgroup)
    }

    /// Network CPU of others that the container is charged for and has not been repaid.
    pub fn unpaid(&self, cgroup: CgroupId) -> Option<Unpaid> {
        self.payers.unpaid(cgroup)
    }

    /// Victims that no rule enforces, by name; the worst first.
    pub fn others_unpaid(&self) -> Vec<(&str, Unpaid)> {
        self.payers.others(&self.accounts)
    }

    /// Whether the next step should read CPU use; see [`Rivals::wants_reading`].
    pub fn wants_reading(&self) -> bool {
        self.rivals.wants_reading()
    }

    /// Containers that need a decision. All others cost only this comparison. The CPU that a thread
    /// of ours has just `looked_at` is ignored: our thread would count as a competitor.
    pub fn attention(
        &mut self,
        now: Duration,
        interval: &Interval,
        looked_at: Option<u32>,
    ) -> Vec<Active> {
        if self.accounts.is_empty() {
            return Vec::new();
        }
        self.rivals.note(now, interval, looked_at);
        let rows = rows_by_cgroup(interval);
        let charged = pressed::Charged::of(interval, &self.rivals, &self.idle);
        let mut active = Vec::new();
        for (id, account) in &mut self.accounts {
            let row = rows.get(id).copied();
            let pressed_now = row.map_or_else(Vec::new, |row| {
                let is_under_quota = account.is_under_quota();
                pressed::pressed_cpus(row, &charged, is_under_quota, &self.rivals, interval)
            });
            let counts = row.is_some_and(|row| pressed::counts(row, interval));
            if account.is_held() || !pressed_now.is_empty() || counts {
                account.pressed.note(&pressed_now, now);
                active.push(Active {
                    cgroup: *id,
                    pressed: account.pressed.cpus(),
                    pressed_now: pressed_now.into_iter().map(|(cpu, _)| cpu).collect(),
                });
            }
        }
        active
    }

    /// Adds the idle parts of the CPUs. Returns the cgroups whose weights, without corrections,
    /// [`Policy::decide`] needs for `active`.
    pub fn weights_wanted(&mut self, idle: &IdleParts, active: &[Active]) -> BTreeSet<PathBuf> {
        self.idle.update(idle);
        let (mut wanted, mut divided) = (BTreeSet::new(), BTreeMap::new());
        let mut want = |path: &Path| {
            wanted.insert(path.to_owned());
            1.0
        };
        for one in active {
            let Some(account) = self.accounts.get(&one.cgroup) else {
                continue;
            };
            // Needed even without competitors: a stream of unknown weight would count as one that
            // no weight can bound, and get a NAPI thread.
            want(&account.container.cgroup_path);
            for cpu in self.idle.full(&one.pressed) {
                let known = divided.entry(cpu);
                let there = known.or_insert_with(|| {
                    let is_held = |id| self.is_held_back(id);
                    self.rivals.divide(cpu, is_held, &mut want)
                });
                there.share(&account.container.cgroup_path, &mut want);
            }
        }
        wanted
    }

    /// Decides about the containers in `facts`.
    pub fn decide(&mut self, facts: &Facts) -> Decision {
        let rows = rows_by_cgroup(facts.interval);
        let mut decision = Decision::default();
        let mut withheld = Vec::new();
        let shares = self.shares(facts);
        let mut causers = Causers::default();
        for (one, shares) in facts.containers.iter().zip(&shares) {
            let account = self.accounts.get(&one.active.cgroup);
            if account.is_some_and(Account::causes_work) {
                causers.add(one.active.cgroup, shares);
            }
        }
        for (one, shares) in facts.containers.iter().zip(&shares) {
            let Some(account) = self.accounts.get_mut(&one.active.cgroup) else {
                continue;
            };
            let contest = account.pressed.worst(shares);
            let contest = contest.map(|(cpu, share)| account::Contest {
                cpu,
                share,
                shares,
                causers: &causers,
            });
            let row = rows.get(&one.active.cgroup).copied();
            let (action, withheld_ns) = account.step(&self.rules, facts, one, row, contest);
            withheld.push(payers::Withheld {
                cgroup: one.active.cgroup,
                cpus: &one.active.pressed_now,
                ns: withheld_ns,
            });
            decision.containers.push((one.active.cgroup, action));
        }
        self.to_others = payers::note_returned(&mut self.accounts, &withheld, facts.interval);
        decision
    }

    /// Share of each container on each fully used CPU where its packets have victims and
    /// competitors want to run.
    fn shares(&self, facts: &Facts) -> Vec<Vec<(u32, f64)>> {
        let weight = |path: &Path| {
            let known = facts.weights.get(path).copied();
            known.unwrap_or(share::EQUAL_WEIGHT)
        };
        let mut divided = BTreeMap::new();
        let mut shares = |of: &ContainerFacts| {
            let Some(account) = self.accounts.get(&of.active.cgroup) else {
                return Vec::new();
            };
            let full = self.idle.full(&of.active.pressed);
            let wanted = full.into_iter();
            let wanted = wanted.filter(|cpu| self.rivals.has_other(*cpu, of.active.cgroup));
            let shares = wanted.map(|cpu| {
                let known = divided.entry(cpu);
                let there = known.or_insert_with(|| {
                    let is_held = |id| self.is_held_back(id);
                    self.rivals.divide(cpu, is_held, weight)
                });
                (cpu, there.share(&account.container.cgroup_path, weight))
            });
            shares.collect()
        };
        facts.containers.iter().map(&mut shares).collect()
    }

    /// Whether the means may keep the container below what it would use.
    fn is_held_back(&self, cgroup: CgroupId) -> bool {
        let account = self.accounts.get(&cgroup);
        account.is_some_and(|account| account.is_held() && account.causes_work())
    }

    /// Ends a step: records the victims' uncompensated time.
    pub fn note_payers(&mut self, interval: &Interval) {
        let to_others = std::mem::take(&mut self.to_others);
        self.payers.note(&self.accounts, &to_others, interval);
    }
}

fn rows_by_cgroup(interval: &Interval) -> HashMap<CgroupId, &ContainerLedger> {
    let rows = interval.containers.iter();
    rows.map(|row| (row.container.cgroup, row)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cofferdam_types::Means;
    use std::time::Duration;

    /// A container of unknown weight counts as one whose weight cannot be lowered, and its stream
    /// gets a NAPI thread that it does not need.
    /// Promise 31.
    #[test]
    fn a_weight_is_needed_even_without_competitors() {
        let mut policy = Policy::new(Rules {
            means: Means::ALL.to_vec(),
            napi_in_container: true,
            debt_bound: Duration::from_secs(1),
            linger: Duration::from_secs(30),
        });
        let container = simulation::container(1);
        policy.set(std::slice::from_ref(&container), &HashSet::new());
        let half_idle = IdleParts {
            length: Duration::from_secs(1),
            by_cpu: [(0, 0.5)].into(),
        };
        let active = simulation::facts().active;
        let wanted = policy.weights_wanted(&half_idle, &[active]);
        assert_eq!(wanted, [container.cgroup_path.clone()].into());
    }
}
