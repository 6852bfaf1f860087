//! Decisions about network CPU, apart from their execution: observations of an interval in, a
//! [`Decision`] out. No file, no clock, no journal.
//!
//! A step has three parts, so that idle containers cause no reads. [`Policy::attention`] names the
//! containers that need a decision. [`Policy::weights_wanted`] names the cgroups whose weights
//! determine the shares. [`Policy::decide`] decides.

mod account;
mod competitors;
mod contended;
mod correction;
mod debt;
mod decision;
mod division;
mod facts;
mod idle;
mod offenders;
mod packets;
mod placement;
mod quota;
mod rates;
mod share;
#[cfg(test)]
pub(super) mod simulation;
mod uncharged;
mod unused_share;
mod victims;

pub(super) use account::Account;
pub(super) use correction::{Correction, CorrectionState};
pub(super) use decision::{
    Action, Decision, MeansSettings, NapiPlace, PacketLimit, Packets, Spending,
};
pub(super) use facts::{
    Active, BilledInterval, ContainerFacts, Facts, IdleParts, InterruptionCosts, Limiting, OwnQuota,
};
pub(super) use victims::UncompensatedTime;

use cofferdam_types::{CgroupId, Container, ContainerLedger, Interval, Means};
use competitors::Competitors;
use idle::IdleTime;
use offenders::Offenders;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use victims::Victims;

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
    competitors: Competitors,
    victims: Victims,
    /// Time returned in this step to containers without a rule, nanoseconds.
    to_unenforced: HashMap<CgroupId, f64>,
}

impl Policy {
    pub fn new(rules: Rules) -> Policy {
        Policy {
            rules,
            accounts: BTreeMap::new(),
            idle: IdleTime::default(),
            competitors: Competitors::default(),
            victims: Victims::default(),
            to_unenforced: HashMap::new(),
        }
    }

    /// Replaces the list of enforced containers. The CPU reservations own the weights of the
    /// containers in `reserved`.
    pub fn set(&mut self, wanted: &[Arc<Container>], reserved: &HashSet<CgroupId>) {
        let keep: HashSet<CgroupId> = wanted.iter().map(|c| c.cgroup).collect();
        self.accounts.retain(|id, _| keep.contains(id));
        for container in wanted {
            let account = self.accounts.entry(container.cgroup);
            let account = account.or_insert_with(|| Account::new(container.clone()));
            account.container = container.clone();
            account.weight_reserved = reserved.contains(&container.cgroup);
        }
    }

    pub fn account(&self, cgroup: CgroupId) -> Option<&Account> {
        self.accounts.get(&cgroup)
    }

    /// Network CPU of others that the container is charged for and has not been repaid.
    pub fn uncompensated(&self, cgroup: CgroupId) -> Option<UncompensatedTime> {
        self.victims.uncompensated(cgroup)
    }

    /// Victims that no rule enforces, by name; the worst first.
    pub fn uncompensated_without_rule(&self) -> Vec<(&str, UncompensatedTime)> {
        self.victims.without_rule(&self.accounts)
    }

    /// Whether the next step should read CPU use; see [`Competitors::needs_usage`].
    pub fn needs_usage(&self) -> bool {
        self.competitors.needs_usage()
    }

    /// Containers that need a decision. All others cost only this comparison. Ignores
    /// `measured_cpu`: our thread, which measured there, would count as a competitor.
    pub fn attention(
        &mut self,
        now: Duration,
        interval: &Interval,
        measured_cpu: Option<u32>,
    ) -> Vec<Active> {
        if self.accounts.is_empty() {
            return Vec::new();
        }
        self.competitors.add_interval(now, interval, measured_cpu);
        let rows = rows_by_cgroup(interval);
        let charged = contended::ChargedTime::of(interval, &self.competitors, &self.idle);
        let mut active = Vec::new();
        for (id, account) in &mut self.accounts {
            let row = rows.get(id).copied();
            let contended_now = row.map_or_else(Vec::new, |row| {
                let is_under_quota = account.is_under_quota();
                contended::contended_cpus(
                    row,
                    &charged,
                    is_under_quota,
                    &self.competitors,
                    interval,
                )
            });
            let counts = row.is_some_and(|row| contended::counts(row, interval));
            if account.is_enforced() || !contended_now.is_empty() || counts {
                account.contended.record(&contended_now, now);
                active.push(Active {
                    cgroup: *id,
                    contended: account.contended.cpus(),
                    contended_now: contended_now.into_iter().map(|(cpu, _)| cpu).collect(),
                });
            }
        }
        active
    }

    /// Adds the idle parts of the CPUs. Returns the cgroups whose weights, without corrections,
    /// [`Policy::decide`] needs for `active`.
    pub fn weights_wanted(&mut self, idle: &IdleParts, active: &[Active]) -> BTreeSet<PathBuf> {
        self.idle.update(idle);
        let (mut wanted, mut divisions) = (BTreeSet::new(), BTreeMap::new());
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
            for cpu in self.idle.full(&one.contended) {
                let entry = divisions.entry(cpu);
                let division = entry.or_insert_with(|| {
                    let is_throttled = |id| self.is_throttled(id);
                    self.competitors.divide(cpu, is_throttled, &mut want)
                });
                division.share(&account.container.cgroup_path, &mut want);
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
        let mut offenders = Offenders::default();
        for (one, shares) in facts.containers.iter().zip(&shares) {
            let account = self.accounts.get(&one.active.cgroup);
            if account.is_some_and(Account::causes_work) {
                offenders.add(one.active.cgroup, shares);
            }
        }
        for (one, shares) in facts.containers.iter().zip(&shares) {
            let Some(account) = self.accounts.get_mut(&one.active.cgroup) else {
                continue;
            };
            let contest = account.contended.worst(shares);
            let contest = contest.map(|(cpu, share)| account::Contest {
                cpu,
                share,
                shares,
                offenders: &offenders,
            });
            let row = rows.get(&one.active.cgroup).copied();
            let (action, withheld_ns) = account.step(&self.rules, facts, one, row, contest);
            withheld.push(victims::WithheldTime {
                cgroup: one.active.cgroup,
                cpus: &one.active.contended_now,
                ns: withheld_ns,
            });
            decision.containers.push((one.active.cgroup, action));
        }
        self.to_unenforced = victims::add_returned(&mut self.accounts, &withheld, facts.interval);
        decision
    }

    /// Share of each container on each fully used CPU where its packets have victims and
    /// competitors want to run.
    fn shares(&self, facts: &Facts) -> Vec<Vec<(u32, f64)>> {
        let weight = |path: &Path| {
            let weight = facts.weights.get(path).copied();
            weight.unwrap_or(share::EQUAL_WEIGHT)
        };
        let mut divisions = BTreeMap::new();
        let mut shares = |of: &ContainerFacts| {
            let Some(account) = self.accounts.get(&of.active.cgroup) else {
                return Vec::new();
            };
            let full = self.idle.full(&of.active.contended);
            let wanted = full.into_iter();
            let wanted = wanted.filter(|cpu| self.competitors.has_other(*cpu, of.active.cgroup));
            let shares = wanted.map(|cpu| {
                let entry = divisions.entry(cpu);
                let division = entry.or_insert_with(|| {
                    let is_throttled = |id| self.is_throttled(id);
                    self.competitors.divide(cpu, is_throttled, weight)
                });
                (cpu, division.share(&account.container.cgroup_path, weight))
            });
            shares.collect()
        };
        facts.containers.iter().map(&mut shares).collect()
    }

    /// Whether the means may keep the container below what it would use.
    fn is_throttled(&self, cgroup: CgroupId) -> bool {
        let account = self.accounts.get(&cgroup);
        account.is_some_and(|account| account.is_enforced() && account.causes_work())
    }

    /// Ends a step: records the victims' uncompensated time.
    pub fn note_victims(&mut self, interval: &Interval) {
        let to_unenforced = std::mem::take(&mut self.to_unenforced);
        self.victims
            .add_interval(&self.accounts, &to_unenforced, interval);
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
