//! Flows to a container, by 5-tuple: schema `cofferdam.flows/1`, the document of `cofferdam flows
//! --json`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Schema of [`FlowsRecord`].
pub const FLOWS: &str = "cofferdam.flows/1";

/// Flows that a container received, estimated from a random sample of its packets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlowsRecord {
    /// Always `cofferdam.flows/1`.
    pub schema: String,
    /// End of the measurement, RFC 3339 in UTC.
    pub time: String,
    /// Length of the measurement, seconds.
    pub interval_s: f64,
    /// The container.
    pub container: String,
    /// Id of the container's cgroup.
    pub cgroup_id: u64,
    /// Other containers in the same network namespace, such as those of one pod. Their packets
    /// cannot be distinguished and are in the flows too.
    pub shared_with: Vec<String>,
    /// Whether the container shares the host's network namespace. Then the flows have only packets
    /// that its TCP and UDP sockets receive, and none that no socket receives, such as ICMP and
    /// later fragments.
    #[serde(default)]
    pub by_sockets: bool,
    /// Mean CPU time of a packet of the container during the measurement, nanoseconds; null if the
    /// ledger counted none.
    pub ns_per_packet: Option<f64>,
    /// Sampling at the end: one packet in this many.
    pub sampled_one_in: u32,
    /// Packets in the sample.
    pub sampled_packets: u64,
    /// Packets of the sample that were lost because a buffer was full; the estimates leave them
    /// out.
    pub lost_packets: u64,
    /// All packets received, estimated; merged ones (GRO, TSO) count as they were on the wire.
    pub packets: u64,
    /// Part of `packets` that is not IP.
    pub other_packets: u64,
    /// Number of flows that were distinguished: the largest, at most 512.
    pub flows_seen: u64,
    /// The flows that cost most, largest first.
    pub flows: Vec<FlowRecord>,
}

/// One flow. A later fragment of a datagram has no ports, and counts as a flow of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlowRecord {
    /// `tcp`, `udp`, `icmp`, `icmpv6`, `sctp`, or the protocol's number.
    pub protocol: String,
    /// Address of the sender.
    pub source: String,
    /// Port of the sender; null where there is none.
    pub source_port: Option<u16>,
    /// Address of the receiver.
    pub destination: String,
    /// Port of the receiver; null where there is none.
    pub destination_port: Option<u16>,
    /// Whether the flow consists of fragments.
    pub fragments: bool,
    /// Name of the container of this host that has the sender's address; null if none has.
    pub sender: Option<String>,
    /// Packets, estimated.
    pub packets: u64,
    /// Half of the 95% confidence interval of `packets` by sampling.
    pub packets_error: u64,
    /// Part of `packets` that may belong to smaller flows whose place in the table this one took.
    pub packets_at_most_too_many: u64,
    /// Bytes from the link header on, estimated.
    pub bytes: u64,
    /// Packets × `ns_per_packet`, nanoseconds; null without the latter.
    pub cost_ns: Option<f64>,
}
