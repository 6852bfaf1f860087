//! What `bench dataplane` measured: the same servers on sockets and on the dataplane, alternated.

use crate::data::{Estimate, Latency};
use cofferdam_dataplane::pkey;
use cofferdam_xsk::Memory;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Who answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EchoServer {
    /// Linux sockets, epoll that sleeps.
    Blocking,
    /// Linux sockets, epoll that never sleeps.
    BusyPolling,
    /// The dataplane, the application on its thread.
    Inline,
    /// The same, behind protection keys.
    Pkey,
    /// The dataplane, the application in a process of its own on the same CPU.
    Process,
    /// The dataplane, a program as its distribution ships it on the same CPU.
    Preload,
}
labels!(EchoServer {
    Blocking => "blocking", BusyPolling => "busy-polling", Inline => "inline",
    Pkey => "pkey", Process => "process", Preload => "preload",
});

impl EchoServer {
    /// Those of the bench's own code.
    pub const OWN: &'static [EchoServer] = &[
        EchoServer::Blocking,
        EchoServer::BusyPolling,
        EchoServer::Inline,
        EchoServer::Pkey,
        EchoServer::Process,
    ];

    /// Words for tables.
    pub fn words(self) -> &'static str {
        match self {
            EchoServer::Blocking => "Linux, blocking epoll",
            EchoServer::BusyPolling => "Linux, busy-polling epoll",
            EchoServer::Inline => "dataplane, inline",
            EchoServer::Pkey => "dataplane, pkey",
            EchoServer::Process => "dataplane, process",
            EchoServer::Preload => "dataplane, unmodified program",
        }
    }

    /// Why this host cannot measure it, if so.
    pub fn missing(self) -> Option<String> {
        let keys = (self == EchoServer::Pkey).then(pkey::supported)?;
        keys.err().map(|why| format!("not measured: {why}"))
    }

    /// Whether it is Linux'.
    pub fn is_linux(self) -> bool {
        matches!(self, EchoServer::Blocking | EchoServer::BusyPolling)
    }
}

/// What is varied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DataplaneExperiment {
    /// One request at a time from a Linux client; nothing else runs.
    Unloaded,
    /// One request at a time from a Linux client, so many a second, with silence between: may a
    /// server sleep?
    Paced,
    /// As many connections, each with one request on its way.
    Connections,
    /// CPUs of the server.
    Cores,
    /// Cores of the dataplane's code, all on one CPU: what that code costs.
    OneCpu,
    /// The batch bound.
    Batch,
    /// Share of the server's own peak, offered in an open loop, percent.
    Load,
    /// Percent of the slowest server's peak, offered to all in an open loop: what a request
    /// costs each.
    Cost,
    /// Percent of the peak of an application in a process of its own, offered to all in an open loop:
    /// latency at one rate.
    SameRate,
    /// Size of the message, bytes: NetPIPE's ping-pong with a Linux client.
    Sizes,
    /// The same with segmentation offload off on Linux' pair: all send packets of the device's MTU.
    SizesSegmented,
    /// The same, with an MTU of 9,000 bytes on both pairs.
    SizesJumbo,
    /// As `Sizes`, Linux with its offloads, with the largest MTU that the dataplane takes on both
    /// pairs.
    SizesLargest,
    /// Connections at a time, each for one request.
    ShortConnections,
    /// memcached's protocol, Facebook's USR mix, thousands of requests a second offered in an
    /// open loop.
    Usr,
    /// The same with the ETC mix.
    Etc,
    /// Idle connections: memory.
    Idle,
    /// redis-server as it is, asked by redis-benchmark over so many connections.
    Redis,
    /// The same, with sixteen requests under way on each.
    RedisPipelined,
    /// memcached as it is, asked for the ETC mix over so many connections.
    Memcached,
    /// nginx as it is, asked by wrk over so many connections.
    Nginx,
}
labels!(DataplaneExperiment {
    Unloaded => "unloaded", Paced => "paced", Connections => "connections", Cores => "cores", OneCpu => "one-cpu",
    Batch => "batch", Load => "load", Cost => "cost", SameRate => "same-rate", Sizes => "sizes", SizesSegmented => "sizes-segmented",
    SizesJumbo => "sizes-jumbo", SizesLargest => "sizes-largest", ShortConnections => "short-connections", Usr => "usr",
    Etc => "etc", Idle => "idle", Redis => "redis", RedisPipelined => "redis-pipelined",
    Memcached => "memcached", Nginx => "nginx",
});

impl DataplaneExperiment {
    /// Whether it is one of the memcached mixes, in which latency is drawn against throughput.
    pub fn is_mix(self) -> bool {
        matches!(self, DataplaneExperiment::Usr | DataplaneExperiment::Etc)
    }

    /// Whether it varies the size of the message.
    pub fn is_of_sizes(self) -> bool {
        matches!(
            self,
            DataplaneExperiment::Sizes
                | DataplaneExperiment::SizesSegmented
                | DataplaneExperiment::SizesJumbo
                | DataplaneExperiment::SizesLargest
        )
    }

    /// The links that it is measured over.
    pub(crate) fn link(self) -> Link {
        match self {
            DataplaneExperiment::SizesSegmented => Link::of(1500, false),
            DataplaneExperiment::SizesJumbo => Link::of(9000, false),
            DataplaneExperiment::SizesLargest => Link::of(65_522, true),
            _ => Link::of(1500, true),
        }
    }

    /// Whether unmodified programs serve.
    pub fn is_of_programs(self) -> bool {
        matches!(
            self,
            DataplaneExperiment::Redis
                | DataplaneExperiment::RedisPipelined
                | DataplaneExperiment::Memcached
                | DataplaneExperiment::Nginx
        )
    }

    /// Whether it varies the server's cores.
    pub fn is_of_cores(self) -> bool {
        matches!(
            self,
            DataplaneExperiment::Cores | DataplaneExperiment::OneCpu
        )
    }
}

/// What the pairs of devices are like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    /// Of all four devices.
    pub mtu_bytes: u32,
    /// The devices have their segmentation and receive offloads; those that send to the dataplane
    /// have none ever.
    pub has_offloads: bool,
}

impl Link {
    /// Size of the dataplane's frames: the smaller one where a packet fits it.
    pub fn frame_bytes(self) -> u32 {
        match Memory::fits(self.mtu_bytes, 2048) {
            true => 2048,
            false => 4096,
        }
    }

    fn of(mtu_bytes: u32, has_offloads: bool) -> Link {
        Link {
            mtu_bytes,
            has_offloads,
        }
    }
}

/// Highest p99 at which a memcached mix counts as served, microseconds (IX's).
pub const SERVICE_P99_US: f64 = 500.0;
/// Least share of the offered requests that must be answered there.
pub const SERVICE_SHARE: f64 = 0.98;

/// One condition.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DataplaneCell {
    /// What is varied.
    pub experiment: DataplaneExperiment,
    /// Its value: connections, cores, batch bound, percent, bytes, requests a second (in thousands for
    /// the mixes); 0 where nothing is varied.
    pub at: u32,
    /// Who answers.
    pub server: EchoServer,
}

impl DataplaneCell {
    /// `EXPERIMENT/AT/SERVER`, unique within a run.
    pub fn id(&self) -> String {
        format!("{}/{}/{}", self.experiment, self.at, self.server)
    }
}

/// One measurement: a line of `samples.jsonl` in dataplane runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DataplaneSample {
    /// Schema of this line.
    pub schema: u32,
    /// End of the sample, RFC 3339 in UTC.
    pub time: String,
    /// The condition.
    pub cell: DataplaneCell,
    /// Number of the round, from 0: each cell of an experiment is measured once a round.
    pub round: u32,
    /// Offered requests a second; `None` in a closed loop.
    pub offered_per_s: Option<f64>,
    /// Answers a second.
    pub requests_per_s: f64,
    /// From when a request was due to its answer.
    pub latency: Latency,
    /// Packets that reached the dataplane; 0 for Linux.
    pub packets: u64,
    /// Cycles in each stage of the dataplane's loop, the whole life of the server.
    pub stage_cycles: BTreeMap<String, u64>,
    /// Time of the server's CPUs that a request took, microseconds: all but what was idle or
    /// polled in vain. `None` where it is not measured, and where the generator has one of them.
    #[serde(default)]
    pub cpu_us_per_request: Option<f64>,
    /// Where sizes are varied: packets that the client's device received for an answer, with
    /// acknowledgements; one of many segments, before segmentation, counts once.
    #[serde(default)]
    pub packets_per_answer: Option<f64>,
    /// Where sizes are varied: the part (0 to 1) of the payload sent that the dataplane's loop copied; the
    /// rest went from the application's memory to the kernel or the device. `None` for Linux.
    #[serde(default)]
    pub copied_part: Option<f64>,
    /// One of the server's CPUs was the generator's: the host had no other left.
    #[serde(default)]
    pub shares_cpu: bool,
    /// Share of the time in which the generator had work, 0 to 1; near 1 it was the limit. `None`
    /// for other clients, and where it shares its CPU.
    #[serde(default)]
    pub generator_busy: Option<f64>,
    /// Memory that each connection took, bytes: the server's own, and for Linux the kernel's.
    #[serde(default)]
    pub bytes_per_connection: Option<f64>,
}

/// One condition's figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DataplaneRow {
    /// The condition.
    pub cell: DataplaneCell,
    /// Answers a second.
    pub requests_per_s: Estimate,
    /// Percentiles of the latency, microseconds.
    pub p50_us: Estimate,
    /// See `p50_us`.
    pub p99_us: Estimate,
    /// See `p50_us`.
    pub p999_us: Estimate,
    /// p50 ÷ that of the blocking server in the same round; `None` for the blocking server.
    pub p50_to_blocking: Option<Estimate>,
    /// The same of the p99.
    #[serde(default)]
    pub p99_to_blocking: Option<Estimate>,
    /// Requests a second ÷ those of the blocking server in the same round.
    pub rate_to_blocking: Option<Estimate>,
    /// The same, against the busy-polling server.
    pub p50_to_busy: Option<Estimate>,
    /// The same, against the busy-polling server.
    pub rate_to_busy: Option<Estimate>,
    /// For `process` and `pkey`: requests a second ÷ those of `inline` in the same round.
    pub rate_to_inline: Option<Estimate>,
    /// Time of the server's CPU that a request took, microseconds.
    #[serde(default)]
    pub cpu_us_per_request: Option<Estimate>,
    /// Where sizes are varied: packets that the client's device received for an answer.
    #[serde(default)]
    pub packets_per_answer: Option<Estimate>,
    /// Where sizes are varied: the part (0 to 1) of the payload sent that the dataplane's loop copied.
    #[serde(default)]
    pub copied_part: Option<Estimate>,
    /// Requests a second that the server's CPU could carry at this cost, ÷ those of the blocking
    /// server in the same round.
    #[serde(default)]
    pub capacity_to_blocking: Option<Estimate>,
    /// The same, against the busy-polling server.
    #[serde(default)]
    pub capacity_to_busy: Option<Estimate>,
    /// For `process` and `pkey`, against `inline`.
    #[serde(default)]
    pub capacity_to_inline: Option<Estimate>,
    /// Memory that each connection took, bytes.
    #[serde(default)]
    pub bytes_per_connection: Option<Estimate>,
    /// Where cores are varied: requests a second ÷ those of the same server with one core in the
    /// same round; `None` for that one.
    #[serde(default)]
    pub rate_to_one_core: Option<Estimate>,
    /// The same of the CPU time of a request.
    #[serde(default)]
    pub cpu_to_one_core: Option<Estimate>,
    /// One of the server's CPUs was the generator's: what a further core brings is not told.
    #[serde(default)]
    pub shares_cpu: bool,
    /// Share of the time in which the generator had work, 0 to 1; near 1 it was the limit.
    #[serde(default)]
    pub generator_busy: Option<Estimate>,
}

/// The most that a server did within [`SERVICE_P99_US`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DataplaneService {
    /// Which mix.
    pub experiment: DataplaneExperiment,
    /// Who answers.
    pub server: EchoServer,
    /// Answers a second at the highest offered rate that was served, in each round; 0 where none
    /// was.
    pub requests_per_s: Estimate,
    /// The same ÷ that of the blocking server in the same round.
    pub to_blocking: Option<Estimate>,
}

/// The outcome of a dataplane run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DataplaneResult {
    /// Every condition with at least one sample, in the order measured.
    pub rows: Vec<DataplaneRow>,
    /// Cycles a packet in each stage of the inline loop, at the highest load measured; turns
    /// without work left out.
    pub stage_cycles_per_packet: BTreeMap<String, f64>,
    /// TCP congestion control of all ends.
    pub congestion_control: String,
    /// What each server did within the limit of latency, of each memcached mix.
    #[serde(default)]
    pub service: Vec<DataplaneService>,
    /// Conditions that could not be measured, with the reason.
    pub failed: BTreeMap<String, String>,
}
