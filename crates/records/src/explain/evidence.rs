//! Evidence: the documents, joined for the findings.

use super::loss::Losses;
use super::transfer::Transfer;
use super::{Agent, Figures, Finding, Party};
use crate::accounting::{AccountingRecord, ContainerRecord, HealthRecord};
use crate::diagnosis::{CpuLossRecord, DiagnosisRecord};
use crate::flow::{Flow, Unpaid, flows, unpaid};
use crate::status::{ConditionRecord, LOSES, SUFFERS_CPUS, StatusReport};
use std::collections::{BTreeMap, HashMap};

/// Largest error of a ledger that is trusted, percent.
pub(super) const TRUSTED_WITHIN_PCT: f64 = 1.0;
/// Rate of missed softirqs and tracepoint runs, per second, below which findings do not mention
/// them: at 10 µs each they are a thousandth of a CPU.
const MISSED_PER_S: f64 = 100.0;

/// Evidence of all readings together.
pub(super) struct Evidence<'a> {
    pub readings: &'a [AccountingRecord],
    pub agent: &'a Agent,
    /// Length of all readings together, seconds.
    pub seconds: f64,
    /// Transfers of charged time in all readings.
    flows: Vec<Flow>,
    /// Network CPU in all readings that no container was charged for.
    unpaid: Vec<Unpaid>,
    /// Containers of the last reading, in the order of their ids.
    by_id: BTreeMap<u64, &'a ContainerRecord>,
    /// Rows of each container, with the length of their reading in seconds.
    rows: HashMap<u64, Vec<(f64, &'a ContainerRecord)>>,
    /// CPU time that enforcement returned to each container meanwhile, nanoseconds.
    returned_ns: BTreeMap<u64, u64>,
    /// Time that containers lost; `None` if it is not diagnosed.
    pub losses: Option<Losses>,
}

/// Sums of one container over all readings.
#[derive(Clone, Debug)]
pub(super) struct Sum<'a> {
    /// The container as in its last reading.
    pub container: &'a ContainerRecord,
    /// CPU time that it paid for others and enforcement did not return, CPUs.
    pub paid_cpus: f64,
    /// CPU time that it paid in each reading, CPUs.
    pub each_cpus: Vec<f64>,
    /// CPU time that the scheduler charged to it, CPUs.
    pub billed_cpus: f64,
    /// Network work that it caused, CPUs.
    pub caused_cpus: f64,
    /// Packets in both directions, per second.
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
                // A container that appeared meanwhile had been returned nothing before.
                let begin = before.get(&id).copied().unwrap_or(0);
                returned_ns.insert(id, after.saturating_sub(begin));
            }
        }
        Evidence {
            readings,
            agent,
            seconds: readings.iter().map(|r| r.interval_s).sum(),
            flows: readings.iter().flat_map(flows).collect(),
            unpaid: readings.iter().flat_map(unpaid).collect(),
            by_id: (readings.last().iter())
                .flat_map(|r| &r.containers)
                .map(|c| (c.cgroup_id, c))
                .collect(),
            rows: rows(readings),
            returned_ns,
            losses: Losses::new(&diagnoses(readings, agent)),
        }
    }

    /// Sums of every container of the last reading, in the order of their ids.
    pub fn sums(&self) -> Vec<Sum<'a>> {
        self.by_id.values().map(|c| self.sum(c)).collect()
    }

    /// Sums of `container` over all readings.
    pub fn sum(&self, container: &'a ContainerRecord) -> Sum<'a> {
        let id = container.cgroup_id;
        let rows = self.rows.get(&id).map_or(&[][..], Vec::as_slice);
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

    /// CPU time that each victim was charged for the packets of each offender, CPUs. No offender
    /// means packets of no container.
    pub fn charged_cpus(&self) -> BTreeMap<u64, Vec<(Option<u64>, f64)>> {
        let mut by: BTreeMap<(u64, Option<u64>), f64> = BTreeMap::new();
        for flow in self.flows.iter().filter(|_| self.seconds > 0.0) {
            let sum = by.entry((flow.victim, flow.offender)).or_default();
            *sum += flow.ns / 1e9 / self.seconds;
        }
        let mut by_victim: BTreeMap<u64, Vec<(Option<u64>, f64)>> = BTreeMap::new();
        for ((victim, offender), cpus) in by.into_iter().filter(|(_, cpus)| *cpus > 0.0) {
            by_victim.entry(victim).or_default().push((offender, cpus));
        }
        by_victim
    }

    /// Container that sent most of the packets of `receiver`, and its packets per second.
    pub fn sender(&self, receiver: &ContainerRecord) -> Option<(u64, f64)> {
        let seconds = self.readings.last().map_or(1.0, |r| r.interval_s);
        let (sender, packets) = receiver.received_from.iter().max_by_key(|(_, n)| **n)?;
        // Queues may have dropped some: it sent most of what arrived if it sent more than half.
        let is_most = packets.saturating_mul(2) > receiver.rx_packets;
        is_most.then_some((*sender, *packets as f64 / seconds.max(0.001)))
    }

    /// Network CPU that no container was charged for, CPUs, by CPU and offender.
    pub fn unpaid_cpus(&self) -> BTreeMap<(u32, u64), f64> {
        let mut by: BTreeMap<(u32, u64), f64> = BTreeMap::new();
        for one in self.unpaid.iter().filter(|_| self.seconds > 0.0) {
            *by.entry((one.cpu, one.offender)).or_default() += one.ns / 1e9 / self.seconds;
        }
        by
    }

    /// CPU on which `offender` took most from `victim`.
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

    /// Condition of a container that the agent has watched for long.
    pub fn condition(&self, name: &str, cgroup_id: u64) -> Option<&'a ConditionRecord> {
        let status = self.agent.status()?;
        let mut all = status.conditions.iter();
        all.find(|c| c.name == name && c.cgroup_id == cgroup_id)
    }

    /// A container of the last reading.
    pub fn container(&self, cgroup_id: u64) -> Option<&'a ContainerRecord> {
        self.by_id.get(&cgroup_id).copied()
    }

    /// Container of the last reading with this name, if only one has it.
    pub fn container_named(&self, name: &str) -> Option<&'a ContainerRecord> {
        let mut same = self.by_id.values().filter(|c| c.name == name);
        same.next().copied().filter(|_| same.next().is_none())
    }

    /// All containers of the last reading.
    pub fn containers(&self) -> &'a [ContainerRecord] {
        let last = self.readings.last();
        last.map_or(&[], |r| r.containers.as_slice())
    }

    /// Losses of the accounting during the readings, in words; empty when there were none.
    pub fn lost(&self) -> Vec<String> {
        let (Some(first), Some(last)) = (self.readings.first(), self.readings.last()) else {
            return Vec::new();
        };
        // Counted since the accounting started: the counts of the first reading may be old.
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
                "runs at tracepoints skipped by the kernel",
            ),
            (often(&|h| h.softirqs_unseen), "softirqs not reported"),
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

    /// Certainty of the time that `victim` was charged, and the sentence for it.
    pub fn certainty_of_charge(&self, victim: u64) -> (String, String) {
        let sum = self.container(victim).map(|c| self.sum(c));
        let each_cpus = sum.map_or_else(Vec::new, |s| s.each_cpus);
        let hits = each_cpus.iter().filter(|c| **c >= SUFFERS_CPUS).count();
        let count = self.readings.len();
        let lost = self.lost();
        let sound = self.ledger_error_pct() <= TRUSTED_WITHIN_PCT && lost.is_empty();
        let word = match () {
            () if hits == count && count > 1 && sound => "certain",
            () if hits * 2 > count => "likely",
            () => "unclear",
        };
        let mut text = format!(
            "true in {hits} of {count} readings over {:.1} s; the ledger adds up within {:.2}%",
            self.seconds,
            self.ledger_error_pct()
        );
        for one in lost {
            text += &format!("; {one}");
        }
        (word.to_owned(), text)
    }

    /// Certainty of the time that `victim` lost: longer observation by the agent is surer.
    pub fn certainty_of_loss(&self, victim: u64) -> (String, String) {
        let seconds = self.losses.as_ref().map_or(0.0, |l| l.seconds);
        match self.condition(LOSES, victim) {
            Some(condition) => (
                "certain".to_owned(),
                format!(
                    "the agent has measured {:.2} CPUs on average for {:.0} s",
                    condition.cpus, condition.for_s
                ),
            ),
            None => (
                "likely".to_owned(),
                format!("from a diagnosis of {seconds:.1} s"),
            ),
        }
    }

    /// Name of a container in a sentence; a cgroup of the host is named by its unit or path.
    pub fn name(&self, id: u64) -> String {
        match self.container(id) {
            Some(container) if container.is_of_host() => host_name(&container.cgroup_path),
            Some(container) => container.name.clone(),
            None => match self.losses.as_ref().and_then(|l| l.containers.get(&id)) {
                Some(loss) => loss.name.clone(),
                None => format!("cgroup {id}"),
            },
        }
    }

    /// Container `id` of the ledger, or else of the diagnosis.
    pub fn party(&self, id: u64) -> Option<Party> {
        match self.container(id) {
            Some(container) => Some(Party::of(container)),
            None => self
                .losses
                .as_ref()?
                .containers
                .get(&id)
                .map(Party::of_loss),
        }
    }

    /// Adds the begin of a condition to `finding`.
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

    /// Figures of the measurement; the time lost to others comes from `transfers`.
    pub fn figures(&self, transfers: &[Transfer]) -> Figures {
        let sums = self.sums();
        let worst = (sums.iter().rev()).max_by(|a, b| a.paid_cpus.total_cmp(&b.paid_cpus));
        let mut lost: BTreeMap<u64, f64> = BTreeMap::new();
        for transfer in transfers {
            *lost.entry(transfer.victim).or_default() += transfer.waited_cpus;
        }
        let most_lost = (lost.into_iter().rev()).max_by(|a, b| a.1.total_cmp(&b.1));
        let most_lost = most_lost.filter(|(_, cpus)| *cpus > 0.0);
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
            most_taken_cpus: (self.losses.as_ref()).map(|_| most_lost.map_or(0.0, |(_, c)| c)),
            most_taken_from: most_lost.and_then(|(id, _)| self.party(id)),
            ledger_error_pct: self.ledger_error_pct(),
        }
    }
}

/// Name of a cgroup of the host in a sentence: `cron.service of the host`.
fn host_name(path: &str) -> String {
    match path.rsplit('/').next() {
        None | Some("") => "the root cgroup (/) of the host".to_owned(),
        Some(last) if last.contains('.') => format!("{last} of the host"),
        Some(_) => format!("{path} of the host"),
    }
}

/// Diagnoses of the readings; the agent's newest where they have none.
fn diagnoses<'a>(readings: &'a [AccountingRecord], agent: &'a Agent) -> Vec<&'a DiagnosisRecord> {
    let of_readings: Vec<_> = (readings.iter().filter_map(|r| r.diagnosis.as_ref())).collect();
    let of_agent = agent.status().and_then(|s| s.diagnosis.as_ref());
    match of_readings.is_empty() {
        true => of_agent.into_iter().collect(),
        false => of_readings,
    }
}

/// Rows of all containers, by container.
fn rows(readings: &[AccountingRecord]) -> HashMap<u64, Vec<(f64, &ContainerRecord)>> {
    let mut rows: HashMap<u64, Vec<(f64, &ContainerRecord)>> = HashMap::new();
    for reading in readings {
        for row in &reading.containers {
            let of_container = rows.entry(row.cgroup_id).or_default();
            of_container.push((reading.interval_s, row));
        }
    }
    rows
}

impl Party {
    pub(super) fn of(container: &ContainerRecord) -> Party {
        Party {
            name: container.name.clone(),
            cgroup_id: container.cgroup_id,
        }
    }

    pub(super) fn of_loss(loss: &CpuLossRecord) -> Party {
        Party {
            name: loss.name.clone(),
            cgroup_id: loss.cgroup_id,
        }
    }
}
