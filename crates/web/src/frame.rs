//! Document of the page: the host at one moment.
//!
//! Ids are text, since JavaScript's numbers hold 53 bits of a cgroup's id. Figures are CPUs with
//! four digits.

use crate::dataplanes::Dataplane;
use crate::moment::Moment;
use crate::promise::{Promise, promises};
use cofferdam_records::accounting::{AccountingRecord, ContainerRecord};
use cofferdam_records::diagnosis::{CpuLossRecord, DiagnosisRecord};
use cofferdam_records::explain::{Figures, Finding, enforce_command};
use cofferdam_records::flow::{Flow, flows};
use cofferdam_records::status::{ContainerRecord as Managed, DegradedRecord, StatusReport};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};

/// Limit on the findings in a document; the document has their total.
const MOST_FINDINGS: usize = 20;
/// Limit on the flows in a document, largest first.
const MOST_FLOWS: usize = 100;
/// Smallest flow that is not noise, CPUs.
const SMALLEST_FLOW_CPUS: f64 = 0.0005;
/// Limit on the letters of a name. A name without bad intent is shorter.
const LONGEST_NAME: usize = 300;

#[derive(Debug, Serialize)]
pub(crate) struct Frame<'a> {
    schema: &'static str,
    time: &'a str,
    interval_s: f64,
    live: bool,
    host: &'a str,
    /// Reason why there is nothing newer.
    error: Option<&'a str>,
    agent: Option<AgentRow<'a>>,
    summary: &'a str,
    findings: &'a [Finding],
    findings_total: usize,
    figures: &'a Figures,
    flows: Vec<FlowRow<'a>>,
    cpus: Vec<CpuRow>,
    containers: Vec<Row<'a>>,
    promises: Vec<Promise<'a>>,
    promises_total: usize,
    dataplanes: &'a [Dataplane],
    /// Whether the losses are known.
    diagnosed: bool,
}

#[derive(Debug, Serialize)]
struct AgentRow<'a> {
    version: &'a str,
    uptime_s: f64,
    enforced: usize,
    reserved: usize,
    changes_in_force: u64,
    degraded: &'a [DegradedRecord],
    cpu_s: f64,
    resident_bytes: u64,
}

#[derive(Debug, Serialize)]
struct FlowRow<'a> {
    /// Null for packets of no container.
    from: Option<String>,
    from_name: Option<&'a str>,
    to: String,
    to_name: &'a str,
    cpu: u32,
    cpus: f64,
}

#[derive(Debug, Serialize)]
struct CpuRow {
    cpu: u32,
    network: f64,
    nobody: f64,
}

/// One container of the table.
#[derive(Debug, Serialize)]
pub(crate) struct Row<'a> {
    id: String,
    name: &'a str,
    pod: Option<&'a str>,
    runtime: &'a str,
    cpu: f64,
    caused: f64,
    charged: f64,
    owed: f64,
    corrected: f64,
    /// CPU time taken by others; null without a diagnosis.
    taken: Option<f64>,
    throttled: Option<f64>,
    /// `observe` or `enforce`.
    network_cpu: &'a str,
    /// CPUs reserved; null without a reservation.
    reserved: Option<f64>,
    /// Effect of an enforcement for it; null when it pays for no other.
    help: Option<Help<'a>>,
}

/// CPU time that enforcement would return to a victim.
#[derive(Debug, Serialize)]
struct Help<'a> {
    /// CPUs that would be returned.
    returns: f64,
    /// CPUs of packets of no container, which no rule can charge.
    beyond: f64,
    /// Container whose packets are most of it.
    offender: Option<&'a str>,
    /// Whether the offender is enforced already.
    enforced: bool,
    /// Command that puts the rule in force; null when there is none.
    command: Option<String>,
}

/// Tables that several parts of a document use.
pub(crate) struct Lookup<'a> {
    pub ledger: &'a AccountingRecord,
    pub flows: Vec<Flow>,
    by_id: HashMap<u64, &'a ContainerRecord>,
    losses: HashMap<u64, &'a CpuLossRecord>,
    managed: HashMap<u64, &'a Managed>,
    losses_s: f64,
}

impl<'a> Lookup<'a> {
    pub fn new(moment: &'a Moment) -> Lookup<'a> {
        let (ledger, status) = (&moment.ledger, moment.status.as_ref());
        let diagnosis: Option<&DiagnosisRecord> =
            (ledger.diagnosis.as_ref()).or(status.and_then(|s| s.diagnosis.as_ref()));
        let mut flows = flows(ledger);
        let least_ns = SMALLEST_FLOW_CPUS * 1e9 * ledger.interval_s;
        flows.retain(|f| f.ns >= least_ns);
        flows.sort_by(|a, b| b.ns.total_cmp(&a.ns));
        let all = diagnosis.iter().flat_map(|d| &d.containers);
        Lookup {
            ledger,
            flows,
            by_id: ledger.containers.iter().map(|c| (c.cgroup_id, c)).collect(),
            losses: all.map(|loss| (loss.cgroup_id, loss)).collect(),
            managed: (status.iter().flat_map(|s| &s.containers))
                .map(|m| (m.cgroup_id, m))
                .collect(),
            losses_s: diagnosis.map_or(0.0, |d| d.interval_s),
        }
    }

    pub fn container(&self, id: u64) -> Option<&'a ContainerRecord> {
        self.by_id.get(&id).copied()
    }

    pub fn name(&self, id: u64) -> Option<&'a str> {
        self.container(id).map(|c| short(&c.name))
    }

    /// Converts `ns` of the ledger's interval to CPUs.
    pub fn cpus(&self, ns: f64) -> f64 {
        rounded(ns, self.ledger.interval_s)
    }

    pub fn loss(&self, id: u64) -> Option<&'a CpuLossRecord> {
        self.losses.get(&id).copied()
    }

    /// Converts `ns` of the diagnosis' interval to CPUs.
    pub fn lost_cpus(&self, ns: u64) -> f64 {
        rounded(ns as f64, self.losses_s)
    }

    pub fn is_diagnosed(&self) -> bool {
        self.losses_s > 0.0
    }

    /// State of a managed container; `None` for the past.
    pub fn managed(&self, id: u64) -> Option<&'a Managed> {
        self.managed.get(&id).copied()
    }

    fn is_enforced(&self, id: u64) -> bool {
        let managed = self.managed(id);
        managed.is_some_and(|c| c.policy.network_cpu == "enforce")
    }

    pub fn row(&self, c: &'a ContainerRecord) -> Row<'a> {
        let managed = self.managed(c.cgroup_id);
        let loss = self.loss(c.cgroup_id);
        let figure = |of: &dyn Fn(&CpuLossRecord) -> u64| {
            let cpus = loss.map_or(0.0, |loss| self.lost_cpus(of(loss)));
            self.is_diagnosed().then_some(cpus)
        };
        Row {
            id: c.cgroup_id.to_string(),
            name: short(&c.name),
            pod: c.pod.as_deref().map(short),
            runtime: &c.runtime,
            cpu: self.cpus(c.cpu_usage_ns as f64),
            caused: self.cpus(c.caused_ns as f64),
            charged: self.cpus(c.charged_network_ns as f64),
            owed: self.cpus(c.owed_ns as f64),
            corrected: self.cpus(c.corrected_cpu_ns as f64),
            taken: figure(&|loss| loss.forced_sharing_ns + loss.phantom_ns),
            throttled: figure(&|loss| loss.throttled_ns),
            network_cpu: managed.map_or("observe", |m| &m.policy.network_cpu),
            reserved: managed.and_then(|m| m.policy.cpus),
            help: self.help(c),
        }
    }

    fn help(&self, victim: &ContainerRecord) -> Option<Help<'a>> {
        // Flows are by CPU. A container that owes the same amount elsewhere pays for no other.
        if victim.owed_ns >= 0 {
            return None;
        }
        let mut by: BTreeMap<Option<u64>, f64> = BTreeMap::new();
        let own = self.flows.iter().filter(|f| f.victim == victim.cgroup_id);
        for flow in own {
            *by.entry(flow.offender).or_default() += flow.ns;
        }
        let beyond = by.remove(&None).unwrap_or(0.0);
        let returns: f64 = by.values().sum();
        let worst = by.iter().max_by(|a, b| a.1.total_cmp(b.1));
        let offender = worst.and_then(|(id, _)| self.container((*id)?));
        let enforced = offender.is_some_and(|o| self.is_enforced(o.cgroup_id));
        if returns + beyond <= 0.0 {
            return None;
        }
        Some(Help {
            returns: self.cpus(returns),
            beyond: self.cpus(beyond),
            offender: offender.map(|o| short(&o.name)),
            enforced,
            command: offender
                .filter(|_| !enforced)
                .and_then(|o| enforce_command(o, &self.ledger.containers)),
        })
    }
}

impl<'a> Frame<'a> {
    pub fn new(moment: &'a Moment, host: &'a str) -> Frame<'a> {
        let lookup = Lookup::new(moment);
        let explanation = &moment.explanation;
        let (promises, promises_total) = promises(&lookup);
        let listed = explanation.findings.len().min(MOST_FINDINGS);
        let row = |flow: &Flow| {
            Some(FlowRow {
                from: flow.offender.map(|id| id.to_string()),
                from_name: flow.offender.and_then(|id| lookup.name(id)),
                to: flow.victim.to_string(),
                to_name: lookup.name(flow.victim)?,
                cpu: flow.cpu,
                cpus: lookup.cpus(flow.ns),
            })
        };
        Frame {
            schema: crate::SCHEMA,
            time: &moment.ledger.time,
            interval_s: moment.ledger.interval_s,
            live: moment.live,
            host,
            error: moment.error.as_deref(),
            agent: moment.status.as_ref().map(AgentRow::new),
            summary: &explanation.summary,
            findings: &explanation.findings[..listed],
            findings_total: explanation.findings.len(),
            figures: &explanation.figures,
            flows: lookup
                .flows
                .iter()
                .take(MOST_FLOWS)
                .filter_map(row)
                .collect(),
            cpus: moment
                .ledger
                .cpus
                .iter()
                .map(|c| CpuRow {
                    cpu: c.cpu,
                    network: lookup.cpus(
                        (c.network_softirq_ns + c.hardirq_ns + c.napi_thread_ns + c.drain_ns)
                            as f64,
                    ),
                    nobody: lookup.cpus(c.charged_nobody_ns as f64),
                })
                .collect(),
            containers: moment
                .ledger
                .containers
                .iter()
                .map(|c| lookup.row(c))
                .collect(),
            promises,
            promises_total,
            dataplanes: &moment.dataplanes,
            diagnosed: lookup.is_diagnosed(),
        }
    }
}

impl<'a> AgentRow<'a> {
    fn new(status: &'a StatusReport) -> AgentRow<'a> {
        let count = |of: &dyn Fn(&cofferdam_records::status::PolicyRecord) -> bool| {
            status.containers.iter().filter(|c| of(&c.policy)).count()
        };
        AgentRow {
            version: &status.agent.version,
            uptime_s: status.agent.uptime_s,
            enforced: count(&|p| p.network_cpu == "enforce"),
            reserved: count(&|p| p.cpu == "strict"),
            changes_in_force: status.changes_in_force,
            degraded: &status.degraded,
            cpu_s: status.agent.cpu_s,
            resident_bytes: status.agent.resident_bytes,
        }
    }
}

fn rounded(ns: f64, seconds: f64) -> f64 {
    if seconds <= 0.0 {
        return 0.0;
    }
    (ns / 1e9 / seconds * 1e4).round() / 1e4
}

/// First [`LONGEST_NAME`] letters of a name.
pub(crate) fn short(name: &str) -> &str {
    match name.char_indices().nth(LONGEST_NAME) {
        Some((end, _)) => &name[..end],
        None => name,
    }
}

#[cfg(test)]
mod tests;
