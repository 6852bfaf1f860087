//! What payers get back, and what they pay in spite of the enforcement.

use super::account::Account;
use super::pressed::paid_ns;
use crate::tuning::network::{PAYS_AVERAGED, PAYS_CPUS};
use cofferdam_types::{CgroupId, ContainerLedger, Interval};
use std::collections::{BTreeMap, HashMap};

/// Scheduled time that was withheld from an offender in an interval.
#[derive(Clone, Copy, Debug)]
pub(super) struct Withheld<'a> {
    pub cgroup: CgroupId,
    /// Where others paid for it.
    pub cpus: &'a [u32],
    pub ns: f64,
}

/// What was withheld from offenders went back to the payers, by what each had paid.
pub(super) fn note_returned(
    accounts: &mut BTreeMap<CgroupId, Account>,
    withheld: &[Withheld],
    interval: &Interval,
) {
    for one in withheld.iter().filter(|one| one.ns > 0.0) {
        let payers = interval.containers.iter();
        let payers = payers.filter(|row| row.container.cgroup != one.cgroup);
        let paid: Vec<(CgroupId, f64)> = payers
            .map(|row| (row.container.cgroup, paid_ns(row, one.cpus, interval)))
            .collect();
        let all: f64 = paid.iter().map(|(_, ns)| ns).sum();
        if all <= 0.0 {
            continue;
        }
        for (id, ns) in paid {
            if let Some(payer) = accounts.get_mut(&id) {
                payer.returned_ns += (one.ns.min(all) * ns / all) as u64;
            }
        }
    }
    for payer in accounts.values_mut() {
        payer.returned_ns += (payer.added_quota_cpus * interval.length.as_nanos() as f64) as u64;
    }
}

/// What a container pays for others and is not given back.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::network) struct Unpaid {
    pub cpus: f64,
    pub causer: Option<Causer>,
}

/// Who causes most on the CPUs where a container pays.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::network) struct Causer {
    pub name: String,
    /// A rule enforces it.
    pub is_enforced: bool,
}

/// Averages, by container.
#[derive(Debug, Default)]
pub(super) struct Payers {
    by_cgroup: HashMap<CgroupId, Payer>,
}

#[derive(Debug, Default)]
struct Payer {
    /// CPUs that it pays and is not given back.
    unpaid_cpus: f64,
    /// What had been given back to it at the last step, nanoseconds.
    returned_ns: u64,
    causer: Option<Causer>,
}

impl Payers {
    /// Takes an interval in, after what was done about it.
    pub fn note(
        &mut self,
        accounts: &BTreeMap<CgroupId, Account>,
        rows: &HashMap<CgroupId, &ContainerLedger>,
        interval: &Interval,
    ) {
        let seconds = interval.length.as_secs_f64();
        let weight = (seconds / PAYS_AVERAGED.as_secs_f64()).min(1.0);
        self.by_cgroup.retain(|id, _| accounts.contains_key(id));
        for (id, account) in accounts {
            let payer = self.by_cgroup.entry(*id).or_insert_with(|| Payer {
                returned_ns: account.returned_ns,
                ..Payer::default()
            });
            let returned = account.returned_ns.saturating_sub(payer.returned_ns);
            payer.returned_ns = account.returned_ns;
            let Some(row) = rows.get(id) else {
                continue;
            };
            // Over all CPUs: what it causes on one it may be charged for on another.
            let owed = row.ledger.owed_ns() as f64 + returned as f64;
            payer.unpaid_cpus += weight * ((-owed).max(0.0) / 1e9 / seconds - payer.unpaid_cpus);
            if payer.unpaid_cpus >= PAYS_CPUS {
                payer.causer = most_caused(row, interval).map(|causer| Causer {
                    name: causer.container.name.clone(),
                    is_enforced: accounts.contains_key(&causer.container.cgroup),
                });
            }
        }
    }

    /// `Some` when the container pays enough to be reported.
    pub fn unpaid(&self, cgroup: CgroupId) -> Option<Unpaid> {
        let payer = self.by_cgroup.get(&cgroup)?;
        (payer.unpaid_cpus >= PAYS_CPUS).then(|| Unpaid {
            cpus: payer.unpaid_cpus,
            causer: payer.causer.clone(),
        })
    }
}

/// Who owes most on the CPUs where `payer` is charged.
fn most_caused<'a>(payer: &ContainerLedger, interval: &'a Interval) -> Option<&'a ContainerLedger> {
    let on_its_cpus = |row: &ContainerLedger| -> u64 {
        let columns = row.caused_by_cpu_ns.iter().zip(&row.charged_by_cpu_ns);
        let here = columns.zip(&payer.charged_by_cpu_ns);
        here.filter(|(_, charged)| **charged > 0)
            .map(|((caused, charged), _)| caused.saturating_sub(*charged))
            .sum()
    };
    let others = interval
        .containers
        .iter()
        .filter(|row| row.container.cgroup != payer.container.cgroup);
    others
        .max_by_key(|row| on_its_cpus(row))
        .filter(|row| on_its_cpus(row) > 0)
}
