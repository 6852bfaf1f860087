//! Conversion of a sample into the document, as pure functions.

use cofferdam_flows::{Count, Flow, Reading};
use cofferdam_records::flows::{FLOWS, FlowRecord, FlowsRecord};
use std::collections::HashMap;
use std::net::IpAddr;
use std::time::SystemTime;

/// Container whose packets were sampled.
#[derive(Clone, Debug, Default)]
pub struct Subject {
    /// Name of the container.
    pub container: String,
    /// Id of its cgroup.
    pub cgroup_id: u64,
    /// Other containers of its network namespace.
    pub shared_with: Vec<String>,
    /// Whether its sockets identify its packets.
    pub by_sockets: bool,
    /// Mean CPU time of one of its packets, nanoseconds.
    pub ns_per_packet: Option<f64>,
    /// Containers of this host by their addresses, to name the senders.
    pub senders: HashMap<IpAddr, String>,
}

/// Document of `reading`, which ended at `time`.
pub fn document(subject: &Subject, reading: &Reading, time: SystemTime) -> FlowsRecord {
    FlowsRecord {
        schema: FLOWS.to_owned(),
        time: cofferdam_records::time(time),
        interval_s: reading.length.as_secs_f64(),
        container: subject.container.clone(),
        cgroup_id: subject.cgroup_id,
        shared_with: subject.shared_with.clone(),
        by_sockets: subject.by_sockets,
        ns_per_packet: subject.ns_per_packet,
        sampled_one_in: reading.one_in,
        sampled_packets: reading.sampled,
        lost_packets: reading.lost,
        packets: reading.total.packets,
        other_packets: reading.other.packets,
        flows_seen: reading.flows.len() as u64,
        flows: reading
            .flows
            .iter()
            .map(|(flow, count)| one(subject, flow, count))
            .collect(),
    }
}

fn one(subject: &Subject, flow: &Flow, count: &Count) -> FlowRecord {
    let ports = flow.ports;
    FlowRecord {
        protocol: protocol(flow.protocol),
        source: flow.source.to_string(),
        source_port: ports.map(|(source, _)| source),
        destination: flow.destination.to_string(),
        destination_port: ports.map(|(_, destination)| destination),
        fragments: flow.fragment,
        sender: subject.senders.get(&flow.source).cloned(),
        packets: count.packets,
        packets_error: count.error_packets().ceil() as u64,
        packets_at_most_too_many: count.most_too_many,
        bytes: count.bytes,
        cost_ns: subject.ns_per_packet.map(|ns| ns * count.packets as f64),
    }
}

/// Name of a protocol by IANA's number, for protocols that containers use.
fn protocol(number: u8) -> String {
    let name = match number {
        1 => "icmp",
        2 => "igmp",
        4 => "ipip",
        6 => "tcp",
        17 => "udp",
        41 => "ipv6",
        47 => "gre",
        50 => "esp",
        58 => "icmpv6",
        132 => "sctp",
        other => return other.to_string(),
    };
    name.to_owned()
}
