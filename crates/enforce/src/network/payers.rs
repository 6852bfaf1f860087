//! What enforced containers pay for others in spite of the enforcement: said, not hidden.

use super::Network;
use cofferdam_types::{CgroupId, ContainerLedger, Degraded, Interval};
use std::collections::HashMap;
use std::time::Duration;

/// A container pays when it is charged for others, and not given back, this part of a CPU.
const PAYS: f64 = 0.05;
/// Over about so long: means take a moment to be put in place.
const AVERAGED: Duration = Duration::from_secs(2);

/// Averages, by container.
#[derive(Debug, Default)]
pub(super) struct Payers {
    by_cgroup: HashMap<CgroupId, Payer>,
}

#[derive(Debug, Default)]
struct Payer {
    /// CPUs that it pays and is not given back.
    unpaid: f64,
    /// What had been given back to it at the last step, nanoseconds.
    returned_ns: u64,
    /// Who causes most on the CPUs where it pays, and whether a rule enforces that one.
    for_whom: Option<(String, bool)>,
}

impl Network {
    /// Takes an interval in, after what was done about it.
    pub(super) fn note_payers(
        &mut self,
        rows: &HashMap<CgroupId, &ContainerLedger>,
        interval: &Interval,
    ) {
        let seconds = interval.length.as_secs_f64();
        let weight = (seconds / AVERAGED.as_secs_f64()).min(1.0);
        let mut payers = std::mem::take(&mut self.payers.by_cgroup);
        payers.retain(|id, _| self.enforced.contains_key(id));
        for (id, enforced) in &self.enforced {
            let payer = payers.entry(*id).or_insert_with(|| Payer {
                returned_ns: enforced.returned_ns,
                ..Payer::default()
            });
            let returned = enforced.returned_ns.saturating_sub(payer.returned_ns);
            payer.returned_ns = enforced.returned_ns;
            let Some(row) = rows.get(id) else {
                continue;
            };
            // Over all CPUs: what it causes on one it may be charged for on another.
            let owed = row.ledger.owed_ns() as f64 + returned as f64;
            payer.unpaid += weight * ((-owed).max(0.0) / 1e9 / seconds - payer.unpaid);
            if payer.unpaid >= PAYS {
                payer.for_whom = most_caused(row, interval).map(|causer| {
                    let enforced = self.enforced.contains_key(&causer.container.cgroup);
                    (causer.container.name.clone(), enforced)
                });
            }
        }
        self.payers.by_cgroup = payers;
    }
}

impl Payers {
    /// Told when the container pays.
    pub fn degraded(&self, cgroup: CgroupId) -> Option<Degraded> {
        let payer = self.by_cgroup.get(&cgroup)?;
        if payer.unpaid < PAYS {
            return None;
        }
        let whom = match &payer.for_whom {
            Some((name, true)) => format!("packets of others, most of them {name}'s"),
            Some((name, false)) => {
                format!("packets of others, most of them {name}'s, which no rule enforces")
            }
            None => "packets of no known container".to_owned(),
        };
        Some(Degraded {
            name: "pays_for_others".to_owned(),
            text: format!(
                "it pays {:.2} CPUs for {whom}, and is not given them back",
                payer.unpaid
            ),
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
