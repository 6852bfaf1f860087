//! Document of one container: its figures, its victims and its offenders.

use crate::feed::Latency;
use crate::frame::{Lookup, Row};
use crate::moment::Moment;
use crate::promise::Losses;
use cofferdam_records::accounting::ContainerRecord;
use cofferdam_records::explain::Finding;
use cofferdam_records::flow::Flow;
use cofferdam_records::status::{ConditionRecord, ContainerRecord as Managed};
use serde::Serialize;
use std::collections::BTreeMap;

/// Limit on the senders in a document, largest first.
const MOST_SENDERS: usize = 50;

#[derive(Debug, Serialize)]
pub(crate) struct Story<'a> {
    schema: &'static str,
    time: &'a str,
    live: bool,
    row: Row<'a>,
    cgroup_path: &'a str,
    runtime_id: Option<&'a str>,
    host_network: bool,
    caused_rx: f64,
    caused_tx: f64,
    caused_hardirq: f64,
    rx_packets_per_s: f64,
    tx_packets_per_s: f64,
    rx_bytes_per_s: f64,
    tx_bytes_per_s: f64,
    ns_per_packet: Option<f64>,
    by_cpu: Vec<OnCpu>,
    received_from: Vec<Sender<'a>>,
    received_from_total: usize,
    harms: Vec<Counterpart<'a>>,
    suffers: Vec<Counterpart<'a>>,
    losses: Option<Losses<'a>>,
    /// Classes of the container and their state, as in `status`.
    managed: Option<&'a Managed>,
    conditions: Vec<&'a ConditionRecord>,
    latency: Vec<&'a Latency>,
    findings: Vec<&'a Finding>,
}

#[derive(Debug, Serialize)]
struct OnCpu {
    cpu: u32,
    caused: f64,
    charged: f64,
}

#[derive(Debug, Serialize)]
struct Sender<'a> {
    id: String,
    name: Option<&'a str>,
    packets_per_s: f64,
}

/// Container at the other end of flows. A null `id` stands for packets of no container.
#[derive(Debug, Serialize)]
struct Counterpart<'a> {
    id: Option<String>,
    name: Option<&'a str>,
    cpus: f64,
    on: Vec<u32>,
}

impl<'a> Story<'a> {
    /// Builds the document of the container `id`, if it is known at `moment`.
    pub fn new(moment: &'a Moment, id: u64) -> Option<Story<'a>> {
        let lookup = Lookup::new(moment);
        let c = lookup.container(id)?;
        let seconds = moment.ledger.interval_s;
        let rate = |count: u64| {
            if seconds > 0.0 {
                (count as f64 / seconds).round()
            } else {
                0.0
            }
        };
        let mut senders: Vec<(u64, u64)> = c.received_from.iter().map(|(k, v)| (*k, *v)).collect();
        senders.sort_by_key(|(sender, packets)| (std::cmp::Reverse(*packets), *sender));
        let about = |f: &&Finding| {
            let is = |p: &Option<cofferdam_records::explain::Party>| {
                p.as_ref().is_some_and(|p| p.cgroup_id == id)
            };
            is(&f.offender) || is(&f.victim)
        };
        let conditions = moment.status.iter().flat_map(|s| &s.conditions);
        let sent = senders.iter().take(MOST_SENDERS);
        Some(Story {
            schema: crate::SCHEMA,
            time: &moment.ledger.time,
            live: moment.live,
            row: lookup.row(c),
            cgroup_path: &c.cgroup_path,
            runtime_id: c.id.as_deref(),
            host_network: c.host_network,
            caused_rx: lookup.cpus(c.caused_rx_ns as f64),
            caused_tx: lookup.cpus(c.caused_tx_ns as f64),
            caused_hardirq: lookup.cpus(c.caused_hardirq_ns as f64),
            rx_packets_per_s: rate(c.rx_packets),
            tx_packets_per_s: rate(c.tx_packets),
            rx_bytes_per_s: rate(c.rx_bytes),
            tx_bytes_per_s: rate(c.tx_bytes),
            ns_per_packet: c.ns_per_packet.map(f64::round),
            by_cpu: by_cpu(&lookup, c),
            received_from: sent
                .map(|(sender, packets)| Sender {
                    id: sender.to_string(),
                    name: lookup.name(*sender),
                    packets_per_s: rate(*packets),
                })
                .collect(),
            received_from_total: senders.len(),
            harms: counterparts(&lookup, |f| {
                (f.offender == Some(id)).then_some(Some(f.victim))
            }),
            suffers: counterparts(&lookup, |f| (f.victim == id).then_some(f.offender)),
            losses: lookup.loss(id).map(|loss| Losses::new(&lookup, loss)),
            managed: lookup.managed(id),
            latency: moment
                .latency
                .iter()
                .filter(|l| l.cgroup_id == id)
                .collect(),
            conditions: conditions.filter(|c| c.cgroup_id == id).collect(),
            findings: moment.explanation.findings.iter().filter(about).collect(),
        })
    }
}

fn by_cpu(lookup: &Lookup<'_>, c: &ContainerRecord) -> Vec<OnCpu> {
    let cpus = lookup.ledger.cpus.iter().enumerate();
    let on = cpus.map(|(place, cpu)| {
        let at = |by: &[u64]| lookup.cpus(by.get(place).copied().unwrap_or(0) as f64);
        OnCpu {
            cpu: cpu.cpu,
            caused: at(&c.caused_by_cpu_ns),
            charged: at(&c.charged_by_cpu_ns),
        }
    });
    on.filter(|on| on.caused > 0.0 || on.charged > 0.0)
        .collect()
}

/// Sums up the flows for which `end` returns a container, by that container, largest first.
fn counterparts<'a>(
    lookup: &Lookup<'a>,
    end: impl Fn(&Flow) -> Option<Option<u64>>,
) -> Vec<Counterpart<'a>> {
    let mut by: BTreeMap<Option<u64>, (f64, Vec<u32>)> = BTreeMap::new();
    for flow in &lookup.flows {
        if let Some(other) = end(flow) {
            let (ns, on) = by.entry(other).or_default();
            *ns += flow.ns;
            on.push(flow.cpu);
        }
    }
    let mut others: Vec<Counterpart<'a>> = by
        .into_iter()
        .map(|(id, (ns, mut on))| {
            on.sort_unstable();
            on.dedup();
            Counterpart {
                name: id.and_then(|id| lookup.name(id)),
                id: id.map(|id| id.to_string()),
                cpus: lookup.cpus(ns),
                on,
            }
        })
        .collect();
    others.sort_by(|a, b| b.cpus.total_cmp(&a.cpus));
    others
}
