//! Summary of one node of a cluster: schema `cofferdam.node/1`.
//!
//! A gateway answers with it to a program that asks many nodes at once. It is a pure function of
//! the ledger and of the agent's status.

#[cfg(test)]
mod tests;

use crate::accounting::{AccountingRecord, ContainerRecord};
use crate::diagnosis::DiagnosisRecord;
use crate::flow::flows;
use crate::status::{DegradedRecord, StatusReport};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};

/// Schema of [`NodeReport`].
pub const NODE: &str = "cofferdam.node/1";
/// Most pods in one document; the pods with the most harm come first.
pub const MOST_PODS: usize = 250;
/// Most transfers in one document, the largest.
pub const MOST_TRANSFERS: usize = 100;
/// Most problems in one document.
pub const MOST_PROBLEMS: usize = 50;
/// Smallest transfer that a document has, CPUs.
const LEAST_CPUS: f64 = 0.001;

/// State of a node in the last interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeReport {
    /// Always `cofferdam.node/1`.
    pub schema: String,
    /// End of the interval, RFC 3339 in UTC.
    pub time: String,
    /// Length of the interval, seconds.
    pub interval_s: f64,
    /// Version of the agent.
    pub version: String,
    /// Run time of the agent, seconds.
    pub uptime_s: f64,
    /// CPUs of the node.
    pub cpus: u64,
    /// Tracked containers.
    pub containers: u64,
    /// Rules in force.
    pub rules: u64,
    /// Changes to the node that are in force now. The agent reverts them when it stops.
    pub changes_in_force: u64,
    /// CPUs that containers have reserved.
    pub reserved_cpus: f64,
    /// Network CPU that containers caused, CPUs.
    pub caused_cpus: f64,
    /// Pods, and containers outside of pods; the largest harm first, done or suffered.
    pub pods: Vec<PodRecord>,
    /// Number of all pods; `pods` has at most 250.
    pub pods_total: u64,
    /// Transfers (who pays for whom), the largest first.
    pub flows: Vec<FlowRecord>,
    /// Number of all transfers; `flows` has at most 100.
    pub flows_total: u64,
    /// Degradations of the agent and of its containers.
    pub problems: Vec<DegradedRecord>,
    /// Number of all problems; `problems` has at most 50.
    pub problems_total: u64,
}

/// A pod, or a container outside of one.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PodRecord {
    /// `namespace/name` of a Kubernetes pod, otherwise the container's name.
    pub name: String,
    /// Whether it is a Kubernetes pod.
    pub pod: bool,
    /// Number of its containers.
    pub containers: u64,
    /// Ids of the containers' cgroups, as in the ledger.
    pub cgroup_ids: Vec<u64>,
    /// Network CPU that it caused, CPUs.
    pub caused_cpus: f64,
    /// Network CPU that it was charged, CPUs.
    pub charged_cpus: f64,
    /// Network CPU that it was charged for the packets of others, CPUs.
    pub paid_cpus: f64,
    /// Network CPU that others were charged for its packets, CPUs.
    pub harm_cpus: f64,
    /// CPU time that it was entitled to and that others took, CPUs.
    pub lost_cpus: f64,
    /// CPU time that the scheduler charged to it, CPUs.
    pub used_cpus: f64,
    /// CPUs reserved for it; null without a reservation.
    pub reserved_cpus: Option<f64>,
    /// Packets received and sent, per second.
    pub packets_per_s: f64,
}

/// Transfer: one pod pays for the packets of another.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlowRecord {
    /// Name of the pod that caused the packets; it may be missing from `pods`. Null: packets of no
    /// container.
    pub offender: Option<String>,
    /// Pod that was charged.
    pub victim: String,
    /// Size of the transfer, CPUs.
    pub cpus: f64,
}

impl PodRecord {
    /// Harm that the pod did and suffered, CPUs: network CPU that others paid for it, network CPU
    /// that it paid for others, and CPU time that others took from it.
    pub fn harm(&self) -> f64 {
        self.harm_cpus + self.paid_cpus + self.lost_cpus
    }
}

/// Report of an interval of the ledger and of the status at its end.
pub fn report(ledger: &AccountingRecord, status: &StatusReport) -> NodeReport {
    let seconds = ledger.interval_s.max(0.001);
    let cpus = |ns: f64| round(ns / 1e9 / seconds);
    let names: HashMap<u64, String> = ledger
        .containers
        .iter()
        .map(|c| (c.cgroup_id, name(c)))
        .collect();
    let named = |id: u64| names.get(&id).cloned().unwrap_or_default();
    let mut pods: BTreeMap<String, PodRecord> = BTreeMap::new();
    for c in ledger.containers.iter() {
        let pod = pods.entry(name(c)).or_default();
        pod.name = name(c);
        pod.pod = c.pod.is_some();
        pod.containers += 1;
        pod.cgroup_ids.push(c.cgroup_id);
        pod.caused_cpus += cpus(c.caused_ns as f64);
        pod.charged_cpus += cpus(c.charged_network_ns as f64);
        pod.used_cpus += cpus(c.cpu_usage_ns as f64);
        pod.packets_per_s += ((c.rx_packets + c.tx_packets) as f64 / seconds).round();
    }
    let mut pairs: BTreeMap<(Option<String>, String), f64> = BTreeMap::new();
    for flow in flows(ledger) {
        let (offender, victim) = (flow.offender.map(named), named(flow.victim));
        // Transfers between containers of one pod are no harm.
        if offender.as_ref() != Some(&victim) {
            *pairs.entry((offender, victim)).or_default() += flow.ns;
        }
    }
    let mut all: Vec<FlowRecord> = pairs
        .into_iter()
        .map(|((offender, victim), ns)| FlowRecord {
            offender,
            victim,
            cpus: cpus(ns),
        })
        .collect();
    for flow in &all {
        if let Some(victim) = pods.get_mut(&flow.victim) {
            victim.paid_cpus += flow.cpus;
        }
        if let Some(offender) = flow.offender.as_ref().and_then(|o| pods.get_mut(o)) {
            offender.harm_cpus += flow.cpus;
        }
    }
    all.retain(|flow| flow.cpus >= LEAST_CPUS);
    all.sort_by(|a, b| b.cpus.total_cmp(&a.cpus));
    add_losses(&mut pods, status.diagnosis.as_ref(), &names);
    let reserved_cpus = add_reservations(&mut pods, status, &names);
    let mut pods: Vec<PodRecord> = pods.into_values().collect();
    pods.sort_by(|a, b| sort_key(b).total_cmp(&sort_key(a)));
    let mut problems = problems(status);
    let totals = [pods.len(), all.len(), problems.len()].map(|n| n as u64);
    pods.truncate(MOST_PODS);
    all.truncate(MOST_TRANSFERS);
    problems.truncate(MOST_PROBLEMS);
    NodeReport {
        schema: NODE.to_owned(),
        time: ledger.time.clone(),
        interval_s: ledger.interval_s,
        version: status.agent.version.clone(),
        uptime_s: status.agent.uptime_s,
        cpus: ledger.cpus.len() as u64,
        containers: status.containers_known,
        rules: status.rules.len() as u64,
        changes_in_force: status.changes_in_force,
        reserved_cpus,
        caused_cpus: cpus(ledger.containers.iter().map(|c| c.caused_ns as f64).sum()),
        pods,
        pods_total: totals[0],
        flows: all,
        flows_total: totals[1],
        problems,
        problems_total: totals[2],
    }
}

/// Rounds to a millionth of a CPU: more digits are noise, and take space.
fn round(cpus: f64) -> f64 {
    (cpus * 1e6).round() / 1e6
}

/// Sort key of a pod: harm, then caused network CPU, then used CPU time.
fn sort_key(pod: &PodRecord) -> f64 {
    pod.harm() * 1e6 + pod.caused_cpus + pod.used_cpus / 1e6
}

fn name(container: &ContainerRecord) -> String {
    container
        .pod
        .clone()
        .unwrap_or_else(|| container.name.clone())
}

/// Adds each container's lost CPU time to its pod.
fn add_losses(
    pods: &mut BTreeMap<String, PodRecord>,
    diagnosis: Option<&DiagnosisRecord>,
    names: &HashMap<u64, String>,
) {
    for loss in diagnosis.iter().flat_map(|d| &d.containers) {
        let seconds = diagnosis.map_or(1.0, |d| d.interval_s).max(0.001);
        let pod = names.get(&loss.cgroup_id).and_then(|n| pods.get_mut(n));
        if let Some(pod) = pod {
            let taken_ns = loss.forced_sharing_ns.saturating_add(loss.phantom_ns);
            pod.lost_cpus += round(taken_ns as f64 / 1e9 / seconds);
        }
    }
}

/// Adds the containers' reservations to their pods. Returns the sum, CPUs.
fn add_reservations(
    pods: &mut BTreeMap<String, PodRecord>,
    status: &StatusReport,
    names: &HashMap<u64, String>,
) -> f64 {
    let mut sum = 0.0;
    for container in &status.containers {
        let Some(reservation) = &container.reservation else {
            continue;
        };
        let cpus = reservation.own_cpus.len() as f64 + reservation.slice_cpus.unwrap_or(0.0);
        sum += cpus;
        let pod = names
            .get(&container.cgroup_id)
            .and_then(|n| pods.get_mut(n));
        if let Some(pod) = pod {
            *pod.reserved_cpus.get_or_insert(0.0) += cpus;
        }
    }
    sum
}

/// Problems of the agent, then those of its containers with their names.
fn problems(status: &StatusReport) -> Vec<DegradedRecord> {
    let mut all = status.degraded.clone();
    if let Some(why) = &status.configuration.refused {
        all.push(DegradedRecord {
            name: "configuration_refused".to_owned(),
            text: why.clone(),
        });
    }
    for container in &status.containers {
        all.extend(container.degraded.iter().map(|d| DegradedRecord {
            name: d.name.clone(),
            text: format!("{}: {}", container.name, d.text),
        }));
    }
    all
}
