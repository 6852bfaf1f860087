//! Who sends to a container, by 5-tuple: schema `cofferdam.flows/1`, the document of
//! `cofferdam flows --json`.

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
    /// Its length, seconds.
    pub interval_s: f64,
    /// The container.
    pub container: String,
    /// Id of its cgroup.
    pub cgroup_id: u64,
    /// Other containers in the same network namespace, as those of one pod: their packets cannot be told
    /// apart and are in the flows too.
    pub shared_with: Vec<String>,
    /// Whether the container shares the host's network namespace, and only what its TCP and UDP sockets
    /// receive is in the flows; what no socket receives, as ICMP and later fragments, is not.
    #[serde(default)]
    pub by_sockets: bool,
    /// Mean cost of a packet of the container in that time, nanoseconds; null if the ledger counted none.
    pub ns_per_packet: Option<f64>,
    /// One packet in this many was in the sample, at the end.
    pub sampled_one_in: u32,
    /// Packets in the sample.
    pub sampled_packets: u64,
    /// Packets of the sample that were lost for want of room; the estimates leave them out.
    pub lost_packets: u64,
    /// All packets received, estimated; merged ones (GRO, TSO) count as they were on the wire.
    pub packets: u64,
    /// The part of them that is not IP.
    pub other_packets: u64,
    /// Flows that were told apart: at most 512, the largest.
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
    /// Its port; null where there is none.
    pub source_port: Option<u16>,
    /// Address of the receiver.
    pub destination: String,
    /// Its port; null where there is none.
    pub destination_port: Option<u16>,
    /// Whether it is made of fragments.
    pub fragments: bool,
    /// Name of the container of this host that has the sender's address; null if none is known to.
    pub sender: Option<String>,
    /// Packets, estimated.
    pub packets: u64,
    /// Half of the 95% confidence interval of `packets` by sampling.
    pub packets_error: u64,
    /// The part of `packets` that may belong to smaller flows whose place this one took.
    pub packets_at_most_too_many: u64,
    /// Bytes from the link header on, estimated.
    pub bytes: u64,
    /// Packets × `ns_per_packet`, nanoseconds; null with it.
    pub cost_ns: Option<f64>,
}
