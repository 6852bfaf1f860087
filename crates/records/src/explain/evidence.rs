//! The documents, joined: what the findings are made from.

use super::{Agent, Figures, Finding, Party};
use crate::accounting::{AccountingRecord, ContainerRecord, HealthRecord};
use crate::diagnosis::DiagnosisRecord;
use crate::flow::{Flow, flows};
use crate::status::{ConditionRecord, StatusReport};
use std::collections::BTreeMap;

/// The ledger is trusted while it adds up within this, percent.
pub(super) const TRUSTED_WITHIN_PCT: f64 = 1.0;
/// Softirqs and markers that are missed less often than this in a second do not change what is said:
/// at 10 µs each they are a thousandth of a CPU.
const MISSED_PER_S: f64 = 100.0;

/// All readings together.
pub(super) struct Evidence<'a> {
    pub readings: &'a [AccountingRecord],
    pub agent: &'a Agent,
    /// All readings together, seconds.
    pub seconds: f64,
    /// Who paid for whom, over all readings.
    flows: Vec<Flow>,
    /// Given back to each container by enforcement in that time, nanoseconds.
    returned_ns: BTreeMap<u64, u64>,
}

/// What one container did over all readings.
#[derive(Clone, Debug)]
pub(super) struct Sum<'a> {
    /// The container as in its last reading.
    pub container: &'a ContainerRecord,
    /// What it paid for others and was not given back, CPUs.
    pub paid_cpus: f64,
    /// In how many readings it paid as much as is worth a word, per mille of a CPU and reading.
    pub each_cpus: Vec<f64>,
    /// What the scheduler billed to it, CPUs.
    pub billed_cpus: f64,
    /// Network work that it caused, CPUs.
    pub caused_cpus: f64,
    /// Its packets, both directions, per second.
    pub packets_per_s: f64,
}

impl<'a> Evidence<'a> {
    pub fn new(readings: &'a [AccountingRecord], agent: &'a Agent) -> Evidence<'a> {
        let mut returned_ns = BTreeMap::new();
        if let Agent::Running(both) = agent {
            let returned = |status: &StatusReport| -> BTreeMap<u64, u64> {
                let all = status.containers.iter();
                all.filter_map(|c| Some((c.cgroup_id, c.network.as_ref()?.returned_ns)))
                    .collect()
            };
            let before = returned(&both.0);
            for (id, after) in returned(&both.1) {
                // A container that was not there before was given nothing before.
                let begin = before.get(&id).copied().unwrap_or(0);
                returned_ns.insert(id, after.saturating_sub(begin));
            }
        }
        Evidence {
            readings,
            agent,
            seconds: readings.iter().map(|r| r.interval_s).sum(),
            flows: readings.iter().flat_map(flows).collect(),
            returned_ns,
        }
    }

    /// Every container of the last reading.
    pub fn sums(&self) -> Vec<Sum<'a>> {
        let Some(last) = self.readings.last() else {
            return Vec::new();
        };
        last.containers.iter().map(|c| self.sum(c)).collect()
    }

    fn sum(&self, container: &'a ContainerRecord) -> Sum<'a> {
        let id = container.cgroup_id;
        let rows: Vec<(f64, &ContainerRecord)> = self
            .readings
            .iter()
            .filter_map(|r| {
                let row = r.containers.iter().find(|c| c.cgroup_id == id)?;
                Some((r.interval_s, row))
            })
            .collect();
        let total = |of: &dyn Fn(&ContainerRecord) -> f64| -> f64 {
            let sum: f64 = rows.iter().map(|(_, row)| of(row)).sum();
            if self.seconds > 0.0 {
                sum / 1e9 / self.seconds
            } else {
                0.0
            }
        };
        let back = self.returned_ns.get(&id).copied().unwrap_or(0) as f64;
        let back_cpus = if self.seconds > 0.0 {
            back / 1e9 / self.seconds
        } else {
            0.0
        };
        Sum {
            container,
            paid_cpus: (total(&|c| -(c.owed_ns as f64)) - back_cpus).max(0.0),
            each_cpus: rows
                .iter()
                .filter(|(seconds, _)| *seconds > 0.0)
                .map(|(seconds, c)| (-(c.owed_ns as f64) / 1e9 / seconds - back_cpus).max(0.0))
                .collect(),
            billed_cpus: total(&|c| c.cpu_usage_ns as f64),
            caused_cpus: total(&|c| c.caused_ns as f64),
            packets_per_s: total(&|c| (c.rx_packets + c.tx_packets) as f64) * 1e9,
        }
    }

    /// Who did it to `victim`, the largest first: cgroup, or `None` for packets of no container, and
    /// its share of all that `victim` paid.
    pub fn offenders(&self, victim: u64) -> Vec<(Option<u64>, f64)> {
        let mut by: BTreeMap<Option<u64>, f64> = BTreeMap::new();
        for flow in self.flows.iter().filter(|f| f.victim == victim) {
            *by.entry(flow.offender).or_default() += flow.ns;
        }
        let all: f64 = by.values().sum();
        let mut shares: Vec<_> = by
            .into_iter()
            .filter(|(_, ns)| *ns > 0.0)
            .map(|(offender, ns)| (offender, ns / all))
            .collect();
        shares.sort_by(|a, b| b.1.total_cmp(&a.1));
        shares
    }

    /// The CPU on which `offender` did most to `victim`.
    pub fn worst_cpu(&self, offender: Option<u64>, victim: u64) -> Option<u32> {
        let mut by: BTreeMap<u32, f64> = BTreeMap::new();
        let of = |f: &&Flow| f.victim == victim && f.offender == offender;
        for flow in self.flows.iter().filter(of) {
            *by.entry(flow.cpu).or_default() += flow.ns;
        }
        by.into_iter()
            .max_by(|a, b| a.1.total_cmp(&b.1))
            .map(|(cpu, _)| cpu)
    }

    /// What the agent has watched of a container for long.
    pub fn condition(&self, name: &str, cgroup_id: u64) -> Option<&'a ConditionRecord> {
        let status = self.agent.status()?;
        let mut all = status.conditions.iter();
        all.find(|c| c.name == name && c.cgroup_id == cgroup_id)
    }

    /// The newest diagnosis: the agent's, or that of the readings.
    pub fn diagnosis(&self) -> Option<&'a DiagnosisRecord> {
        let own = || {
            self.readings
                .iter()
                .rev()
                .find_map(|r| r.diagnosis.as_ref())
        };
        let agent = self.agent.status().and_then(|s| s.diagnosis.as_ref());
        agent.or_else(own)
    }

    /// A container of the last reading.
    pub fn container(&self, cgroup_id: u64) -> Option<&'a ContainerRecord> {
        let mut all = self.readings.last()?.containers.iter();
        all.find(|c| c.cgroup_id == cgroup_id)
    }

    /// What the accounting lost during the readings, in words; empty when nothing.
    pub fn lost(&self) -> Vec<String> {
        let (Some(first), Some(last)) = (self.readings.first(), self.readings.last()) else {
            return Vec::new();
        };
        // Counted since the accounting began: what the first reading has may be old.
        let grown =
            |of: &dyn Fn(&HealthRecord) -> u64| of(&last.health).saturating_sub(of(&first.health));
        let seconds = self.seconds - first.interval_s;
        let often = |of: &dyn Fn(&HealthRecord) -> u64| match grown(of) {
            count if count as f64 >= MISSED_PER_S * seconds => count,
            _ => 0,
        };
        let mut lost = Vec::new();
        for (count, what) in [
            (grown(&|h| h.events_lost), "kernel events lost"),
            (
                grown(&|h| h.segments_rejected),
                "impossible segments discarded",
            ),
            (
                often(&|h| h.markers_missed),
                "runs of markers skipped by the kernel",
            ),
            (often(&|h| h.softirqs_unseen), "softirqs not seen"),
            (
                grown(&|h| h.cpu_usage_unreadable),
                "readings of CPU use failed",
            ),
            (
                last.health.containers_without_slot,
                "containers without a slot",
            ),
        ] {
            if count > 0 {
                lost.push(format!("{count} {what}"));
            }
        }
        lost
    }

    /// Difference between ledger and clock, percent.
    pub fn ledger_error_pct(&self) -> f64 {
        let last = self.readings.last();
        last.map_or(0.0, |r| r.conservation.worst_cpu_error_pct)
    }

    /// How sure something is that held in `held` of the readings, and the sentence for it.
    pub fn certainty(&self, held: usize) -> (&'static str, String) {
        let count = self.readings.len();
        let lost = self.lost();
        let sound = self.ledger_error_pct() <= TRUSTED_WITHIN_PCT && lost.is_empty();
        let word = match () {
            () if held == count && count > 1 && sound => "certain",
            () if held * 2 > count => "likely",
            () => "unclear",
        };
        let mut text = format!(
            "it held in {held} of {count} readings over {:.1} s; the ledger adds up within {:.2}%",
            self.seconds,
            self.ledger_error_pct()
        );
        for one in lost {
            text += &format!("; {one}");
        }
        (word, text)
    }

    /// When a condition began, in the two fields of a finding.
    pub fn since(&self, finding: Finding, name: &str, cgroup_id: u64) -> Finding {
        match self.condition(name, cgroup_id) {
            Some(condition) => Finding {
                since: Some(condition.since.clone()),
                for_s: Some(condition.for_s),
                ..finding
            },
            None => finding,
        }
    }

    pub fn figures(&self) -> Figures {
        let sums = self.sums();
        let worst = sums
            .iter()
            .max_by(|a, b| a.paid_cpus.total_cmp(&b.paid_cpus));
        let diagnosis = self.diagnosis();
        let taken = diagnosis.map(|d| {
            let cpus = |ns: u64| ns as f64 / 1e9 / d.interval_s.max(0.001);
            let all = d.containers.iter();
            all.map(|c| (cpus(c.forced_sharing_ns + c.phantom_ns), c))
                .max_by(|a, b| a.0.total_cmp(&b.0))
        });
        Figures {
            readings: self.readings.len() as u64,
            measured_s: self.seconds,
            containers: sums.len() as u64,
            // The sum of nothing is -0.0.
            caused_cpus: sums.iter().map(|s| s.caused_cpus).sum::<f64>() + 0.0,
            most_paid_cpus: worst.map_or(0.0, |s| s.paid_cpus),
            most_paid_by: worst
                .filter(|s| s.paid_cpus > 0.0)
                .map(|s| Party::of(s.container)),
            most_taken_cpus: taken.map(|worst| worst.map_or(0.0, |(cpus, _)| cpus)),
            most_taken_from: taken
                .flatten()
                .filter(|(cpus, _)| *cpus > 0.0)
                .map(|(_, loss)| Party {
                    name: loss.name.clone(),
                    cgroup_id: loss.cgroup_id,
                }),
            ledger_error_pct: self.ledger_error_pct(),
        }
    }
}

impl Party {
    pub(super) fn of(container: &ContainerRecord) -> Party {
        Party {
            name: container.name.clone(),
            cgroup_id: container.cgroup_id,
        }
    }
}
