//! Repayment of victims, and the time that they are charged in spite of the enforcement.

use super::account::Account;
use super::contended::charged_for_others_ns;
use crate::tuning::network::{UNCOMPENSATED_AVERAGED, UNCOMPENSATED_CPUS};
use cofferdam_types::{CgroupId, ContainerLedger, Interval};
use std::collections::{BTreeMap, HashMap};

/// Scheduled time that was withheld from an offender in an interval.
#[derive(Clone, Copy, Debug)]
pub(super) struct WithheldTime<'a> {
    pub cgroup: CgroupId,
    /// CPUs on which others were charged for its packets.
    pub cpus: &'a [u32],
    pub ns: f64,
}

/// Credits the time withheld from offenders to their victims, in proportion to their charges.
/// Returns the part of victims without a rule, nanoseconds.
pub(super) fn add_returned(
    accounts: &mut BTreeMap<CgroupId, Account>,
    withheld: &[WithheldTime],
    interval: &Interval,
) -> HashMap<CgroupId, f64> {
    let mut to_unenforced: HashMap<CgroupId, f64> = HashMap::new();
    for one in withheld.iter().filter(|one| one.ns > 0.0) {
        let victims = interval.containers.iter();
        let victims = victims.filter(|row| row.container.cgroup != one.cgroup);
        let charges: Vec<(CgroupId, f64)> = victims
            .map(|row| {
                (
                    row.container.cgroup,
                    charged_for_others_ns(row, one.cpus, interval),
                )
            })
            .filter(|(_, ns)| *ns > 0.0)
            .collect();
        let all: f64 = charges.iter().map(|(_, ns)| ns).sum();
        for (id, ns) in charges {
            let returned = one.ns.min(all) * ns / all;
            match accounts.get_mut(&id) {
                Some(victim) => victim.returned_ns += returned as u64,
                None => *to_unenforced.entry(id).or_default() += returned,
            }
        }
    }
    for victim in accounts.values_mut() {
        victim.returned_ns += (victim.added_quota_cpus * interval.length.as_nanos() as f64) as u64;
    }
    to_unenforced
}

/// CPU time that a container is charged for others and has not been repaid.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::network) struct UncompensatedTime {
    pub cpus: f64,
    pub offender: Option<Offender>,
}

/// Container that causes most work on the CPUs where a victim is charged.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::network) struct Offender {
    pub name: String,
    /// Whether a rule enforces it.
    pub is_enforced: bool,
}

/// Averages by cgroup: of the enforced containers, and of all other victims.
#[derive(Debug, Default)]
pub(super) struct Victims {
    by_cgroup: HashMap<CgroupId, Victim>,
}

#[derive(Debug, Default)]
struct Victim {
    name: String,
    /// CPUs that it is charged for others without repayment.
    uncompensated_cpus: f64,
    /// Time repaid up to the last step, nanoseconds; only of an enforced container.
    returned_ns: u64,
    offender: Option<Offender>,
}

impl Victim {
    fn uncompensated(&self) -> Option<UncompensatedTime> {
        (self.uncompensated_cpus >= UNCOMPENSATED_CPUS).then(|| UncompensatedTime {
            cpus: self.uncompensated_cpus,
            offender: self.offender.clone(),
        })
    }
}

impl Victims {
    /// Adds an interval, after its actions. `to_unenforced` is the time repaid in it to victims
    /// without a rule, nanoseconds.
    pub fn add_interval(
        &mut self,
        accounts: &BTreeMap<CgroupId, Account>,
        to_unenforced: &HashMap<CgroupId, f64>,
        interval: &Interval,
    ) {
        let seconds = interval.length.as_secs_f64();
        let weight = (seconds / UNCOMPENSATED_AVERAGED.as_secs_f64()).min(1.0);
        let rows = interval.containers.iter();
        let here: HashMap<CgroupId, _> = rows.map(|r| (r.container.cgroup, r)).collect();
        self.by_cgroup
            .retain(|id, _| accounts.contains_key(id) || here.contains_key(id));
        for (id, row) in here {
            let account = accounts.get(&id);
            let is_tracked = self.by_cgroup.contains_key(&id);
            // Most cgroups of a host are charged nothing: they cost only this comparison.
            if account.is_none() && !is_tracked && row.ledger.charged_network_ns == 0 {
                continue;
            }
            let victim = self.by_cgroup.entry(id).or_insert_with(|| Victim {
                name: row.container.full_name(),
                returned_ns: account.map_or(0, |a| a.returned_ns),
                ..Victim::default()
            });
            let returned = match account {
                Some(account) => {
                    let before = std::mem::replace(&mut victim.returned_ns, account.returned_ns);
                    account.returned_ns.saturating_sub(before) as f64
                }
                None => to_unenforced.get(&id).copied().unwrap_or(0.0),
            };
            // Sum over all CPUs: work caused on one CPU may be charged on another.
            let owed = row.ledger.owed_ns() as f64 + returned;
            victim.uncompensated_cpus +=
                weight * ((-owed).max(0.0) / 1e9 / seconds - victim.uncompensated_cpus);
            if victim.uncompensated_cpus >= UNCOMPENSATED_CPUS {
                victim.offender = most_caused(row, interval).map(|offender| Offender {
                    name: offender.container.full_name(),
                    is_enforced: accounts.contains_key(&offender.container.cgroup),
                });
            }
        }
    }

    /// Uncompensated time of the container; `None` below the reporting threshold.
    pub fn uncompensated(&self, cgroup: CgroupId) -> Option<UncompensatedTime> {
        self.by_cgroup.get(&cgroup)?.uncompensated()
    }

    /// Victims that no rule enforces, by name; the worst first.
    pub fn without_rule<'a>(
        &'a self,
        accounts: &'a BTreeMap<CgroupId, Account>,
    ) -> Vec<(&'a str, UncompensatedTime)> {
        let others = self.by_cgroup.iter();
        let others = others.filter(|(id, _)| !accounts.contains_key(id));
        let mut victims: Vec<(&str, UncompensatedTime)> = others
            .filter_map(|(_, victim)| Some((victim.name.as_str(), victim.uncompensated()?)))
            .collect();
        victims.sort_by(|a, b| b.1.cpus.total_cmp(&a.1.cpus).then(a.0.cmp(b.0)));
        victims
    }
}

/// Container with the largest debt on the CPUs where `victim` is charged.
fn most_caused<'a>(
    victim: &ContainerLedger,
    interval: &'a Interval,
) -> Option<&'a ContainerLedger> {
    let on_its_cpus = |row: &ContainerLedger| -> u64 {
        let columns = row.caused_by_cpu_ns.iter().zip(&row.charged_by_cpu_ns);
        let here = columns.zip(&victim.charged_by_cpu_ns);
        here.filter(|(_, charged)| **charged > 0)
            .map(|((caused, charged), _)| caused.saturating_sub(*charged))
            .sum()
    };
    let others = interval
        .containers
        .iter()
        .filter(|row| row.container.cgroup != victim.container.cgroup);
    others
        .max_by_key(|row| on_its_cpus(row))
        .filter(|row| on_its_cpus(row) > 0)
}
