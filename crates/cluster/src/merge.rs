//! Merge of all nodes into one document: schema `cofferdam.cluster/1`, the document of `kubectl
//! cofferdam top --json` and `status --json`. A pure function.

#[cfg(test)]
mod tests;

use crate::agents::Agent;
use crate::ask::document;
use cofferdam_records::node::{NODE, NodeReport, PodRecord};
use cofferdam_records::status::DegradedRecord;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Schema of [`ClusterReport`].
pub const CLUSTER: &str = "cofferdam.cluster/1";
/// Most pods, and most transfers, in the document: the largest.
pub const MOST_ROWS: usize = 2000;
/// Most problems of one node in the document.
const MOST_PROBLEMS_A_NODE: usize = 5;
/// Smallest harm, done or suffered, for which a pod has a row, CPUs.
const LEAST_CPUS: f64 = 0.001;
/// Namespace of containers outside of pods.
pub const NO_NAMESPACE: &str = "-";

/// Present state of all nodes of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClusterReport {
    /// Always `cofferdam.cluster/1`.
    pub schema: String,
    /// Time when the agents had been asked, RFC 3339 in UTC.
    pub time: String,
    /// Duration of asking them, seconds.
    pub took_s: f64,
    /// Number of nodes on which there should be an agent.
    pub nodes_wanted: u64,
    /// Agents that answered, by node.
    pub nodes: Vec<NodeRow>,
    /// Agents that did not answer, by node.
    pub unanswered: Vec<SilentAgent>,
    /// Sums of each namespace, largest harm first; `-` for containers outside of pods.
    pub namespaces: Vec<NamespaceRow>,
    /// Offenders and victims, the largest harm first; at most 2000.
    pub pods: Vec<PodRow>,
    /// Number of all these pods.
    pub pods_total: u64,
    /// Transfers (who pays for whom), the largest first; at most 2000.
    pub flows: Vec<FlowRow>,
    /// Number of all transfers.
    pub flows_total: u64,
}

/// One node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NodeRow {
    /// Name of the node.
    pub node: String,
    /// Version of the agent.
    pub version: String,
    /// Run time of the agent, seconds.
    pub uptime_s: f64,
    /// Length of the interval of the figures, seconds.
    pub interval_s: f64,
    /// Number of CPUs.
    pub cpus: u64,
    /// Tracked containers.
    pub containers: u64,
    /// Rules in force.
    pub rules: u64,
    /// Changes to the node that are in force now.
    pub changes_in_force: u64,
    /// CPUs that containers have reserved.
    pub reserved_cpus: f64,
    /// Network CPU that containers caused, CPUs.
    pub caused_cpus: f64,
    /// Network CPU that pods of this node were charged for the packets of others, CPUs.
    pub paid_cpus: f64,
    /// Degradations, at most five.
    pub problems: Vec<DegradedRecord>,
    /// Number of all degradations.
    pub problems_total: u64,
}

/// An agent that did not answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Unanswered")]
pub struct SilentAgent {
    /// Node of the agent.
    pub node: String,
    /// Pod of the agent.
    pub pod: String,
    /// Reason.
    pub why: String,
}

/// The sum of a namespace's pods on all nodes that answered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct NamespaceRow {
    /// Name of the namespace; `-` for containers outside of pods.
    pub namespace: String,
    /// Number of pods.
    pub pods: u64,
    /// Network CPU that it caused, CPUs.
    pub caused_cpus: f64,
    /// Network CPU that others were charged for its packets, CPUs.
    pub harm_cpus: f64,
    /// Network CPU that it was charged for the packets of others, CPUs.
    pub paid_cpus: f64,
    /// CPU time that it was entitled to and that others took, CPUs.
    pub lost_cpus: f64,
    /// CPUs reserved for it.
    pub reserved_cpus: f64,
}

/// A pod that is an offender or a victim.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PodRow {
    /// Node of the pod.
    pub node: String,
    /// Namespace of the pod; `-` for a container outside of pods.
    pub namespace: String,
    /// Figures of the node's document, with the pod's name there.
    #[serde(flatten)]
    pub figures: PodRecord,
}

/// Transfer: one pod pays for the packets of another.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlowRow {
    /// Node of the transfer.
    pub node: String,
    /// Pod that caused the packets; null: packets of no container.
    pub offender: Option<String>,
    /// Pod that was charged.
    pub victim: String,
    /// Size of the transfer, CPUs.
    pub cpus: f64,
}

/// Part of one node's answer that is stored: of bounded size, whatever the node answered.
#[derive(Clone, Debug, Default)]
pub struct Part {
    row: NodeRow,
    namespaces: BTreeMap<String, NamespaceRow>,
    pods: Vec<PodRow>,
    flows: Vec<FlowRow>,
    flows_total: u64,
}

/// Reads an agent's answer.
///
/// # Errors
/// The reason, if the answer is no document or has another schema.
pub fn part(agent: &Agent, body: &[u8]) -> Result<Part, String> {
    Ok(Part::new(&agent.node, document(body, NODE)?))
}

impl Part {
    fn new(node: &str, report: NodeReport) -> Part {
        let mut namespaces: BTreeMap<String, NamespaceRow> = BTreeMap::new();
        for pod in &report.pods {
            let name = namespace(pod);
            let row = namespaces.entry(name.to_owned()).or_default();
            row.namespace = name.to_owned();
            row.add(&NamespaceRow {
                pods: 1,
                caused_cpus: pod.caused_cpus,
                harm_cpus: pod.harm_cpus,
                paid_cpus: pod.paid_cpus,
                lost_cpus: pod.lost_cpus,
                reserved_cpus: pod.reserved_cpus.unwrap_or(0.0),
                ..NamespaceRow::default()
            });
        }
        let row = NodeRow {
            node: node.to_owned(),
            version: report.version,
            uptime_s: report.uptime_s,
            interval_s: report.interval_s,
            cpus: report.cpus,
            containers: report.containers,
            rules: report.rules,
            changes_in_force: report.changes_in_force,
            reserved_cpus: report.reserved_cpus,
            caused_cpus: report.caused_cpus,
            paid_cpus: report.pods.iter().map(|p| p.paid_cpus).sum(),
            problems_total: report.problems_total.max(report.problems.len() as u64),
            problems: report
                .problems
                .into_iter()
                .take(MOST_PROBLEMS_A_NODE)
                .collect(),
        };
        let pods = report.pods.into_iter().filter(|p| p.harm() >= LEAST_CPUS);
        Part {
            pods: pods
                .map(|figures| PodRow {
                    node: node.to_owned(),
                    namespace: namespace(&figures).to_owned(),
                    figures,
                })
                .collect(),
            flows_total: report.flows_total.max(report.flows.len() as u64),
            flows: (report.flows.into_iter())
                .map(|flow| FlowRow {
                    node: node.to_owned(),
                    offender: flow.offender,
                    victim: flow.victim,
                    cpus: flow.cpus,
                })
                .collect(),
            row,
            namespaces,
        }
    }
}

impl NamespaceRow {
    fn add(&mut self, other: &NamespaceRow) {
        self.pods += other.pods;
        self.caused_cpus += other.caused_cpus;
        self.harm_cpus += other.harm_cpus;
        self.paid_cpus += other.paid_cpus;
        self.lost_cpus += other.lost_cpus;
        self.reserved_cpus += other.reserved_cpus;
    }

    fn harm(&self) -> f64 {
        self.harm_cpus + self.paid_cpus + self.lost_cpus
    }
}

fn namespace(pod: &PodRecord) -> &str {
    match pod.name.split_once('/') {
        Some((namespace, _)) if pod.pod => namespace,
        _ => NO_NAMESPACE,
    }
}

/// Merges the answers of `agents`; `results` are in their order.
pub fn merge(
    agents: &[Agent],
    results: Vec<Result<Part, String>>,
    nodes_wanted: u64,
    (time, took_s): (String, f64),
) -> ClusterReport {
    let mut report = ClusterReport {
        schema: CLUSTER.to_owned(),
        time,
        took_s,
        nodes_wanted,
        ..ClusterReport::default()
    };
    let mut namespaces: BTreeMap<String, NamespaceRow> = BTreeMap::new();
    for (agent, result) in agents.iter().zip(results) {
        let part = match result {
            Ok(part) => part,
            Err(why) => {
                report.unanswered.push(SilentAgent {
                    node: agent.node.clone(),
                    pod: agent.pod.clone(),
                    why,
                });
                continue;
            }
        };
        report.nodes.push(part.row);
        for (name, row) in part.namespaces {
            let sum = namespaces.entry(name).or_default();
            sum.namespace.clone_from(&row.namespace);
            sum.add(&row);
        }
        report.pods_total += part.pods.len() as u64;
        report.flows_total = report.flows_total.saturating_add(part.flows_total);
        report.pods.extend(part.pods);
        report.flows.extend(part.flows);
        // During the merge too, not only at its end: 5,000 nodes may have 250 pods each.
        if report.pods.len() > 2 * MOST_ROWS {
            largest_pods(&mut report.pods);
        }
        if report.flows.len() > 2 * MOST_ROWS {
            largest_flows(&mut report.flows);
        }
    }
    largest_pods(&mut report.pods);
    largest_flows(&mut report.flows);
    report.namespaces = namespaces.into_values().collect();
    report.namespaces.sort_by(|a, b| {
        let by = |row: &NamespaceRow| (row.harm(), row.caused_cpus);
        by(b)
            .0
            .total_cmp(&by(a).0)
            .then(by(b).1.total_cmp(&by(a).1))
    });
    report
}

fn largest_pods(pods: &mut Vec<PodRow>) {
    pods.sort_by(|a, b| b.figures.harm().total_cmp(&a.figures.harm()));
    pods.truncate(MOST_ROWS);
}

fn largest_flows(flows: &mut Vec<FlowRow>) {
    flows.sort_by(|a, b| b.cpus.total_cmp(&a.cpus));
    flows.truncate(MOST_ROWS);
}
