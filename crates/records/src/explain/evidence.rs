//! The documents, joined: what the findings are made from.

use super::loss::Losses;
use super::transfer::Transfer;
use super::{Agent, Figures, Finding, Party};
use crate::accounting::{AccountingRecord, ContainerRecord, HealthRecord};
use crate::diagnosis::{CpuLossRecord, DiagnosisRecord};
use crate::flow::{Flow, Unpaid, flows, unpaid};
use crate::status::{ConditionRecord, LOSES, SUFFERS_CPUS, StatusReport};
use std::collections::{BTreeMap, HashMap};

/// The ledger is trusted while it adds up within this, percent.
pub(super) const TRUSTED_WITHIN_PCT: f64 = 1.0;
/// Softirqs and markers that are missed less often than this in a second do not change what is
/// said: at 10 µs each they are a thousandth of a CPU.
const MISSED_PER_S: f64 = 100.0;

/// All readings together.
pub(super) struct Evidence<'a> {
    pub readings: &'a [AccountingRecord],
    pub agent: &'a Agent,
    /// All readings together, seconds.
    pub seconds: f64,
    /// Transfers of charged time, over all readings.
    flows: Vec<Flow>,
    /// Network CPU that nobody was charged for, over all readings.
    unpaid: Vec<Unpaid>,
    /// Containers of the last reading, in the order of their ids.
    by_id: BTreeMap<u64, &'a ContainerRecord>,
    /// Rows of each container, with the length of their reading in seconds.
    rows: HashMap<u64, Vec<(f64, &'a ContainerRecord)>>,
    /// Given back to each container by enforcement in that time, nanoseconds.
    returned_ns: BTreeMap<u64, u64>,
    /// Time that containers lost; `None` if it is not diagnosed.
    pub losses: Option<Losses>,
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

    /// Every container of the last reading, in the order of their ids.
    pub fn sums(&self) -> Vec<Sum<'a>> {
        self.by_id.values().map(|c| self.sum(c)).collect()
    }

    /// What `container` did over all readings.
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

    /// CPU time that each victim was charged for the packets of each offender, CPUs; no offender:
    /// packets of no container.
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

    /// The container that sent most of what `receiver` got, and how many packets a second.
    pub fn sender(&self, receiver: &ContainerRecord) -> Option<(u64, f64)> {
        let seconds = self.readings.last().map_or(1.0, |r| r.interval_s);
        let (sender, packets) = receiver.received_from.iter().max_by_key(|(_, n)| **n)?;
        // Queues may have dropped some of them: it is most of what arrived when half must be.
        let is_most = packets.saturating_mul(2) > receiver.rx_packets;
        is_most.then_some((*sender, *packets as f64 / seconds.max(0.001)))
    }

    /// Network CPU of each container that nobody was charged for, CPUs, by CPU and container.
    pub fn unpaid_cpus(&self) -> BTreeMap<(u32, u64), f64> {
        let mut by: BTreeMap<(u32, u64), f64> = BTreeMap::new();
        for one in self.unpaid.iter().filter(|_| self.seconds > 0.0) {
            *by.entry((one.cpu, one.offender)).or_default() += one.ns / 1e9 / self.seconds;
        }
        by
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

    /// A container of the last reading.
    pub fn container(&self, cgroup_id: u64) -> Option<&'a ContainerRecord> {
        self.by_id.get(&cgroup_id).copied()
    }

    /// The container of the last reading that alone has this name.
    pub fn container_named(&self, name: &str) -> Option<&'a ContainerRecord> {
        let mut same = self.by_id.values().filter(|c| c.name == name);
        same.next().copied().filter(|_| same.next().is_none())
    }

    /// All containers of the last reading.
    pub fn containers(&self) -> &'a [ContainerRecord] {
        let last = self.readings.last();
        last.map_or(&[], |r| r.containers.as_slice())
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

    /// Certainty of what the container `victim` was charged, and the sentence for it.
    pub fn certainty_of_charge(&self, victim: u64) -> (String, String) {
        let sum = self.container(victim).map(|c| self.sum(c));
        let each_cpus = sum.map_or_else(Vec::new, |s| s.each_cpus);
        let held = each_cpus.iter().filter(|c| **c >= SUFFERS_CPUS).count();
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
        (word.to_owned(), text)
    }

    /// Certainty of what the container `victim` lost: longer observation by the agent is surer.
    pub fn certainty_of_loss(&self, victim: u64) -> (String, String) {
        let seconds = self.losses.as_ref().map_or(0.0, |l| l.seconds);
        match self.condition(LOSES, victim) {
            Some(condition) => (
                "certain".to_owned(),
                format!(
                    "the agent has seen {:.2} CPUs on average for {:.0} s",
                    condition.cpus, condition.for_s
                ),
            ),
            None => (
                "likely".to_owned(),
                format!("it is the diagnosis of {seconds:.1} s"),
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

    /// The container `id`, of the ledger or else of the diagnosis.
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

    /// Figures of the measurement; of time lost to others what `transfers` say.
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

/// A cgroup of the host in a sentence: `cron.service of the host`.
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
