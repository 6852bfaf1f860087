//! Documents of `latency record --format jsonl` and `latency ping --json`. Scripts depend on them:
//! within one schema number fields are only added.

use cofferdam_latency::ping::Round;
use cofferdam_latency::{
    Class, Counts, Direction, Distribution, FlowSummary, Miss, ReportCounts, Sample,
};
use cofferdam_types::Container;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Schema of [`LatencyRecord`].
pub const LATENCY: &str = "cofferdam.latency/1";

/// One line of a recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum LatencyRecord {
    /// One packet in one direction (`--per packet`).
    Packet(Box<PacketRecord>),
    /// All packets of an interval (`--per interval`; the last line of a recording by packet).
    Interval(IntervalRecord),
}

/// One packet in one direction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PacketRecord {
    /// Always `cofferdam.latency/1`.
    pub schema: String,
    /// Time when the packet began, RFC 3339 in UTC with nanoseconds.
    pub time: String,
    /// That time on CLOCK_MONOTONIC, nanoseconds.
    pub monotonic_ns: u64,
    /// Name of the container.
    pub container: String,
    /// Inode number of its network namespace.
    pub netns: u32,
    /// `egress` or `ingress`, seen from the container.
    pub direction: String,
    /// `icmp`, `udp`, `tcp` or `other`.
    pub protocol: String,
    /// Source address as the container sees it.
    pub source: String,
    /// Destination address as the container sees it.
    pub destination: String,
    /// Source port; ICMP: identifier of the echo.
    pub source_port: u16,
    /// Destination port; ICMP: type × 256 + code.
    pub destination_port: u16,
    /// TCP: sequence number; ICMP: number of the echo; otherwise 0.
    pub sequence: u32,
    /// Number of the packet in its container, direction and protocol, from 1; a missing
    /// number has no report.
    pub ordinal: u32,
    /// Cookie of the socket (SO_COOKIE); null if no socket was seen, or if no program has requested
    /// its cookie yet.
    pub cookie: Option<u64>,
    /// Ingress: receive time in the clock of the host's first device, nanoseconds; null if the
    /// device has no hardware timestamps.
    #[serde(default)]
    pub hardware_ns: Option<u64>,
    /// Bytes from the network header on.
    pub bytes: u32,
    /// Bytes after the transport header. A TCP record covers `sequence` to `sequence` +
    /// `payload_bytes`.
    pub payload_bytes: u32,
    /// Packets that this record stands for (GSO, GRO).
    pub segments: u16,
    /// TCP: whether it is a retransmission.
    pub retransmit: bool,
    /// TCP: whether several segments were merged on the way; the record begins with the first.
    #[serde(default)]
    pub merged: bool,
    /// Whether it left the host inside a tunnel.
    pub encapsulated: bool,
    /// Start point: `send` (system call), `queue` (the container's device) or `device` (the host's
    /// first device).
    pub start: String,
    /// End point: `device` (the host's last), `copied` (to the reader), `ready` (in the socket),
    /// `kernel` (the container's kernel was the receiver), `arrived` (on the container's device).
    pub end: String,
    /// Index of the container's device; null where no hook names it.
    pub container_ifindex: Option<u32>,
    /// Index of the host's last (egress) or first (ingress) device.
    pub host_ifindex: u32,
    /// Time from start to end, nanoseconds: the sum of `stages_ns`.
    pub total_ns: u32,
    /// Part that a process on the host would not have, nanoseconds; null if a point is missing.
    pub added_ns: Option<u32>,
    /// Stages, nanoseconds: `stack`, `container_qdisc`, `veth`, `forward`, `host_qdisc`, `reader`.
    /// A stage that was not passed or not seen is absent; its time is in the next.
    pub stages_ns: BTreeMap<String, u32>,
}

/// All packets of an interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IntervalRecord {
    /// Always `cofferdam.latency/1`.
    pub schema: String,
    /// End of the interval, RFC 3339 in UTC.
    pub time: String,
    /// Length of the interval, seconds.
    pub interval_s: f64,
    /// One entry for each container, direction and protocol with packets.
    pub flows: Vec<FlowRecord>,
    /// Reports overwritten before they were read, since the start.
    pub reports_lost: u64,
    /// Inconsistent reports, discarded, since the start.
    pub reports_rejected: u64,
    /// One flow in this many is measured.
    pub one_in: u32,
    /// Memory of the kernel's tables, bytes.
    pub memory_bytes: u64,
    /// The host's devices that timestamp received packets in hardware, as `receive: eth0, eth1`;
    /// `absent` without any.
    pub hardware_timestamps: String,
}

/// Packets of one container, direction and protocol.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlowRecord {
    /// Name of the container.
    pub container: String,
    /// Inode number of its network namespace.
    pub netns: u32,
    /// `egress` or `ingress`.
    pub direction: String,
    /// `icmp`, `udp`, `tcp` or `other`.
    pub protocol: String,
    /// Packets in the interval.
    pub packets: u64,
    /// Packets with a report in the interval. Packets in flight at either end of the interval may
    /// make it larger or smaller than `packets`.
    pub reports: u64,
    /// `reports` ÷ `packets`, percent, since the start; null without packets.
    pub coverage_pct: Option<f64>,
    /// Packets without a report since the start, by reason, of all protocols of this
    /// direction: `dropped`, `local`, `no_start`, `content`, `evicted`, `segment`,
    /// `unseen`.
    pub misses: BTreeMap<String, u64>,
    /// Histograms of `total`, `added` and each stage.
    pub distributions: BTreeMap<String, DistributionRecord>,
}

/// One histogram.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[allow(missing_docs, reason = "the names say it")]
pub struct DistributionRecord {
    pub count: u64,
    pub min_ns: u64,
    pub mean_ns: f64,
    pub p50_ns: u64,
    pub p90_ns: u64,
    pub p99_ns: u64,
    pub p999_ns: u64,
    pub max_ns: u64,
    /// The histogram: upper bound of each bucket, nanoseconds, and its count. Buckets of several
    /// records can be added up.
    pub buckets: Vec<(u64, u64)>,
}

/// Schema of [`PingRecord`].
pub const PING: &str = "cofferdam.latency-ping/1";

/// The document of `latency ping --json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PingRecord {
    /// Always `cofferdam.latency-ping/1`.
    pub schema: String,
    /// Host as given on the command line.
    pub host: String,
    /// Address that was pinged.
    pub address: String,
    /// Probes sent.
    pub sent: u32,
    /// Probes answered.
    pub received: u32,
    /// Answered probes with a report in both directions.
    pub measured: u32,
    /// Packets of the container without a report, by reason (`local`, `no_start`, …), since the
    /// ping began; null when run inside the container.
    pub misses: Option<BTreeMap<String, u64>>,
    /// Every answered probe.
    pub rounds: Vec<RoundRecord>,
    /// Histograms of `rtt`, `egress`, `ingress`, `added`, `corrected`, `wire`.
    pub distributions: BTreeMap<String, DistributionRecord>,
}

/// One answered probe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RoundRecord {
    /// Number of the probe, from 1.
    pub sequence: u32,
    /// Round trip as the process measured it, nanoseconds.
    pub rtt_ns: u64,
    /// Time from the system call to the host's last device, nanoseconds; null without a report.
    pub egress_ns: Option<u64>,
    /// Time from the host's first device to the process, nanoseconds; null without a report.
    pub ingress_ns: Option<u64>,
    /// Time that the container's network added in both directions, nanoseconds.
    pub added_ns: Option<u64>,
    /// rtt − added: the round trip of a process on the host, nanoseconds.
    pub corrected_ns: Option<u64>,
    /// rtt − egress − ingress: time outside of this host, nanoseconds.
    pub wire_ns: Option<u64>,
}

impl RoundRecord {
    /// Record of one round.
    pub fn new(round: &Round) -> RoundRecord {
        RoundRecord {
            sequence: round.sequence,
            rtt_ns: round.rtt_ns,
            egress_ns: round.egress_ns.map(u64::from),
            ingress_ns: round.ingress_ns.map(u64::from),
            added_ns: round.added_ns,
            corrected_ns: round.corrected_ns(),
            wire_ns: round.wire_ns(),
        }
    }
}

impl PingRecord {
    /// Record of all rounds.
    pub fn new(host: &str, address: IpAddr, sent: u32, rounds: &[Round]) -> PingRecord {
        let rounds: Vec<RoundRecord> = rounds.iter().map(RoundRecord::new).collect();
        type Field = fn(&RoundRecord) -> Option<u64>;
        let fields: [(&str, Field); 6] = [
            ("rtt", |r| Some(r.rtt_ns)),
            ("egress", |r| r.egress_ns),
            ("ingress", |r| r.ingress_ns),
            ("added", |r| r.added_ns),
            ("corrected", |r| r.corrected_ns),
            ("wire", |r| r.wire_ns),
        ];
        let mut distributions = BTreeMap::new();
        for (name, field) in fields {
            let histogram = Distribution::histogram(rounds.iter().filter_map(field));
            if !histogram.is_empty() {
                distributions.insert(name.to_owned(), DistributionRecord::new(&histogram));
            }
        }
        PingRecord {
            schema: PING.to_owned(),
            host: host.to_owned(),
            address: address.to_string(),
            sent,
            received: rounds.len() as u32,
            measured: rounds.iter().filter(|r| r.wire_ns.is_some()).count() as u32,
            misses: None,
            rounds,
            distributions,
        }
    }
}

impl PacketRecord {
    /// Record of one sample.
    pub fn new(container: &Container, sample: &Sample) -> PacketRecord {
        let r = &sample.report;
        PacketRecord {
            schema: LATENCY.to_owned(),
            time: humantime::format_rfc3339_nanos(sample.time).to_string(),
            monotonic_ns: r.base_ns,
            container: container.name.clone(),
            netns: r.netns.0,
            direction: r.direction.label().to_owned(),
            protocol: r.class().label().to_owned(),
            source: r.source.to_string(),
            destination: r.destination.to_string(),
            source_port: r.source_port,
            destination_port: r.destination_port,
            sequence: r.sequence,
            ordinal: r.ordinal,
            cookie: r.cookie,
            hardware_ns: r.hardware_ns,
            bytes: r.bytes,
            payload_bytes: r.payload_bytes,
            segments: r.segments,
            retransmit: r.retransmit,
            merged: r.merged,
            encapsulated: r.encapsulated,
            start: sample.start_label().to_owned(),
            end: r.end.label().to_owned(),
            container_ifindex: r.container_ifindex,
            host_ifindex: r.host_ifindex,
            total_ns: sample.stages.total_ns,
            added_ns: sample.stages.added_ns,
            stages_ns: sample
                .stages
                .parts_ns
                .iter()
                .map(|(stage, ns)| (stage.label().to_owned(), *ns))
                .collect(),
        }
    }
}

impl DistributionRecord {
    fn new(histogram: &hdrhistogram::Histogram<u64>) -> DistributionRecord {
        let d = Distribution::of(histogram);
        DistributionRecord {
            count: d.count,
            min_ns: d.min_ns,
            mean_ns: d.mean_ns,
            p50_ns: d.p50_ns,
            p90_ns: d.p90_ns,
            p99_ns: d.p99_ns,
            p999_ns: d.p999_ns,
            max_ns: d.max_ns,
            buckets: Distribution::buckets(histogram),
        }
    }
}

impl FlowRecord {
    /// Record from the counts since the start, those at the begin of the interval, and the
    /// histograms of the interval.
    pub fn new(
        container: &Container,
        (direction, class): (Direction, Class),
        (now, before): (&Counts, &Counts),
        summary: Option<&FlowSummary>,
    ) -> FlowRecord {
        let (d, c) = (direction as usize, class as usize);
        let (packets, reports) = (now.packets[d][c], now.reports[d][c]);
        let mut distributions = BTreeMap::new();
        if let Some(summary) = summary {
            let mut put = |name: &str, histogram| {
                distributions.insert(name.to_owned(), DistributionRecord::new(histogram));
            };
            put("total", &summary.total);
            if !summary.added.is_empty() {
                put("added", &summary.added);
            }
            for (stage, histogram) in &summary.stages {
                put(stage.label(), histogram);
            }
        }
        FlowRecord {
            container: container.name.clone(),
            netns: container.netns.map_or(0, |n| n.0),
            direction: direction.label().to_owned(),
            protocol: class.label().to_owned(),
            packets: packets.saturating_sub(before.packets[d][c]),
            reports: reports.saturating_sub(before.reports[d][c]),
            coverage_pct: (packets > 0).then(|| reports as f64 / packets as f64 * 100.0),
            misses: Miss::ALL
                .iter()
                .zip(now.misses[d])
                .map(|(miss, count)| (miss.label().to_owned(), count))
                .collect(),
            distributions,
        }
    }
}

impl IntervalRecord {
    /// Record of an interval that ends now.
    pub fn new(
        interval_s: f64,
        flows: Vec<FlowRecord>,
        counts: ReportCounts,
        one_in: u32,
        memory_bytes: u64,
        stamping: &[String],
    ) -> IntervalRecord {
        IntervalRecord {
            schema: LATENCY.to_owned(),
            time: cofferdam_records::time(std::time::SystemTime::now()),
            interval_s,
            flows,
            reports_lost: counts.lost,
            reports_rejected: counts.rejected,
            one_in,
            memory_bytes,
            hardware_timestamps: match stamping {
                [] => "absent".to_owned(),
                devices => format!("receive: {}", devices.join(", ")),
            },
        }
    }
}
