//! Results of `bench dataplane`: the same servers on sockets and on the dataplane, in turns.

use crate::data::{Estimate, Latency};
use cofferdam_dataplane::pkey;
use cofferdam_xsk::Memory;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Server of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EchoServer {
    /// Linux sockets, with an epoll that sleeps.
    Blocking,
    /// Linux sockets, with an epoll that never sleeps.
    BusyPolling,
    /// The dataplane, with the application on its thread.
    Inline,
    /// The dataplane, with the application on its thread behind protection keys.
    Pkey,
    /// The dataplane, with the application in a process of its own on the same CPU.
    Process,
    /// The dataplane, with an unmodified program of the distribution on the same CPU.
    Preload,
}
labels!(EchoServer {
    Blocking => "blocking", BusyPolling => "busy-polling", Inline => "inline",
    Pkey => "pkey", Process => "process", Preload => "preload",
});

impl EchoServer {
    /// Servers of the bench's own code.
    pub const OWN: &'static [EchoServer] = &[
        EchoServer::Blocking,
        EchoServer::BusyPolling,
        EchoServer::Inline,
        EchoServer::Pkey,
        EchoServer::Process,
    ];

    /// Text for tables.
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

    /// Reason why this host cannot measure the server.
    pub fn missing(self) -> Option<String> {
        let keys = (self == EchoServer::Pkey).then(pkey::supported)?;
        keys.err().map(|why| format!("not measured: {why}"))
    }

    /// Whether the server uses Linux sockets.
    pub fn is_linux(self) -> bool {
        matches!(self, EchoServer::Blocking | EchoServer::BusyPolling)
    }
}

/// Quantity that an experiment varies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DataplaneExperiment {
    /// One request at a time from a Linux client; nothing else runs.
    Unloaded,
    /// Requests a second from a Linux client, one at a time with pauses: may a server sleep?
    Paced,
    /// Number of connections, each with one request in flight.
    Connections,
    /// CPUs of the server.
    Cores,
    /// Cores of the dataplane, all on one CPU: the cost of the code for several cores.
    OneCpu,
    /// Batch bound.
    Batch,
    /// Percentage of the server's own peak, offered in an open loop.
    Load,
    /// Percentage of the slowest server's peak, offered to all in an open loop: the cost of a
    /// request.
    Cost,
    /// Percentage of the peak of an application in its own process, offered to all in an open loop:
    /// the latency at one rate.
    SameRate,
    /// Size of the message, bytes: NetPIPE's ping-pong with a Linux client.
    Sizes,
    /// Size of the message without segmentation offload on Linux's pair: all send packets of the
    /// device's MTU.
    SizesSegmented,
    /// Size of the message without offload, with an MTU of 9,000 bytes on both pairs.
    SizesJumbo,
    /// Size of the message with Linux's offloads, and the largest MTU of the dataplane on both
    /// pairs.
    SizesLargest,
    /// Connections at a time, each for one request.
    ShortConnections,
    /// Thousands of requests a second in an open loop: memcached's protocol, Facebook's USR mix.
    Usr,
    /// Thousands of requests a second in an open loop: memcached's protocol, the ETC mix.
    Etc,
    /// Idle connections: their memory.
    Idle,
    /// Connections of redis-benchmark to an unmodified redis-server.
    Redis,
    /// Connections of redis-benchmark with 16 requests in flight on each.
    RedisPipelined,
    /// Connections to an unmodified memcached, with the ETC mix.
    Memcached,
    /// Connections of wrk to an unmodified nginx.
    Nginx,
}
labels!(DataplaneExperiment {
    Unloaded => "unloaded", Paced => "paced", Connections => "connections", Cores => "cores",
    OneCpu => "one-cpu",
    Batch => "batch", Load => "load", Cost => "cost", SameRate => "same-rate", Sizes => "sizes",
    SizesSegmented => "sizes-segmented",
    SizesJumbo => "sizes-jumbo", SizesLargest => "sizes-largest",
    ShortConnections => "short-connections", Usr => "usr",
    Etc => "etc", Idle => "idle", Redis => "redis", RedisPipelined => "redis-pipelined",
    Memcached => "memcached", Nginx => "nginx",
});

impl DataplaneExperiment {
    /// Whether the experiment is a memcached mix, plotted as latency against throughput.
    pub fn is_mix(self) -> bool {
        matches!(self, DataplaneExperiment::Usr | DataplaneExperiment::Etc)
    }

    /// Whether the experiment varies the size of the message.
    pub fn is_of_sizes(self) -> bool {
        matches!(
            self,
            DataplaneExperiment::Sizes
                | DataplaneExperiment::SizesSegmented
                | DataplaneExperiment::SizesJumbo
                | DataplaneExperiment::SizesLargest
        )
    }

    /// Links of the experiment.
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

    /// Whether the experiment varies the server's cores.
    pub fn is_of_cores(self) -> bool {
        matches!(
            self,
            DataplaneExperiment::Cores | DataplaneExperiment::OneCpu
        )
    }
}

/// Properties of the device pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    /// MTU of all four devices.
    pub mtu_bytes: u32,
    /// Whether the devices have segmentation and receive offloads. A device that sends to the
    /// dataplane never has them.
    pub has_offloads: bool,
}

impl Link {
    /// Size of the dataplane's frames: the smaller size if a packet fits it.
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

/// Highest p99 of a served memcached mix, microseconds (IX's limit).
pub const SERVICE_P99_US: f64 = 500.0;
/// Lowest answered share of the offered requests of a served mix.
pub const SERVICE_SHARE: f64 = 0.98;

/// One condition.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct DataplaneCell {
    /// Varied quantity.
    pub experiment: DataplaneExperiment,
    /// Value of the varied quantity: connections, cores, batch bound, percent, bytes, or requests a
    /// second (in thousands for the mixes); 0 if nothing is varied.
    pub at: u32,
    /// The server.
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
    /// Time from a request's due time to its answer.
    pub latency: Latency,
    /// Packets that reached the dataplane; 0 for Linux.
    pub packets: u64,
    /// Cycles in each stage of the dataplane's loop over the server's life.
    pub stage_cycles: BTreeMap<String, u64>,
    /// CPU time of the server per request, without idle time and empty polls, microseconds. `None`
    /// if not measured, or if the generator shares a CPU.
    #[serde(default)]
    pub cpu_us_per_request: Option<f64>,
    /// Packets that the client's device received per answer, with acknowledgements; only if sizes
    /// are varied. A packet of many segments counts once, before segmentation.
    #[serde(default)]
    pub packets_per_answer: Option<f64>,
    /// Part (0 to 1) of the sent payload that the dataplane's loop copied; only if sizes are
    /// varied. The rest went from the application's memory to the kernel or the device. `None` for
    /// Linux.
    #[serde(default)]
    pub copied_part: Option<f64>,
    /// Whether the server used the generator's CPU, because the host had no other.
    #[serde(default)]
    pub shares_cpu: bool,
    /// Share of the time in which the generator had work, 0 to 1; near 1 it was the limit. `None`
    /// for other clients, and on a shared CPU.
    #[serde(default)]
    pub generator_busy: Option<f64>,
    /// Memory per connection, bytes: that of the server and, for Linux, of the kernel.
    #[serde(default)]
    pub bytes_per_connection: Option<f64>,
}

/// Figures of one condition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DataplaneRow {
    /// The condition.
    pub cell: DataplaneCell,
    /// Answers a second.
    pub requests_per_s: Estimate,
    /// Median latency, microseconds.
    pub p50_us: Estimate,
    /// 99th percentile of the latency, microseconds.
    pub p99_us: Estimate,
    /// 99.9th percentile of the latency, microseconds.
    pub p999_us: Estimate,
    /// p50 ÷ that of the blocking server in the same round; `None` for the blocking server.
    pub p50_to_blocking: Option<Estimate>,
    /// p99 ÷ that of the blocking server in the same round.
    #[serde(default)]
    pub p99_to_blocking: Option<Estimate>,
    /// Requests a second ÷ those of the blocking server in the same round.
    pub rate_to_blocking: Option<Estimate>,
    /// p50 ÷ that of the busy-polling server in the same round.
    pub p50_to_busy: Option<Estimate>,
    /// Requests a second ÷ those of the busy-polling server in the same round.
    pub rate_to_busy: Option<Estimate>,
    /// For `process` and `pkey`: requests a second ÷ those of `inline` in the same round.
    pub rate_to_inline: Option<Estimate>,
    /// CPU time of the server per request, microseconds.
    #[serde(default)]
    pub cpu_us_per_request: Option<Estimate>,
    /// Packets that the client's device received per answer; only if sizes are varied.
    #[serde(default)]
    pub packets_per_answer: Option<Estimate>,
    /// Part (0 to 1) of the sent payload that the dataplane's loop copied; only if sizes are
    /// varied.
    #[serde(default)]
    pub copied_part: Option<Estimate>,
    /// Requests a second that the server's CPU could carry at this cost, ÷ those of the blocking
    /// server in the same round.
    #[serde(default)]
    pub capacity_to_blocking: Option<Estimate>,
    /// Capacity ÷ that of the busy-polling server in the same round.
    #[serde(default)]
    pub capacity_to_busy: Option<Estimate>,
    /// For `process` and `pkey`: capacity ÷ that of `inline` in the same round.
    #[serde(default)]
    pub capacity_to_inline: Option<Estimate>,
    /// Memory per connection, bytes.
    #[serde(default)]
    pub bytes_per_connection: Option<Estimate>,
    /// Requests a second ÷ those of the same server with one core in the same round; only if cores
    /// are varied, and `None` for one core.
    #[serde(default)]
    pub rate_to_one_core: Option<Estimate>,
    /// CPU time of a request ÷ that with one core in the same round.
    #[serde(default)]
    pub cpu_to_one_core: Option<Estimate>,
    /// Whether the server used the generator's CPU: then the gain of a further core is unknown.
    #[serde(default)]
    pub shares_cpu: bool,
    /// Share of the time in which the generator had work, 0 to 1; near 1 it was the limit.
    #[serde(default)]
    pub generator_busy: Option<Estimate>,
}

/// Highest rate of a server within [`SERVICE_P99_US`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DataplaneService {
    /// The mix.
    pub experiment: DataplaneExperiment,
    /// The server.
    pub server: EchoServer,
    /// Answers a second at the highest offered rate that was served, in each round; 0 if none was.
    pub requests_per_s: Estimate,
    /// Rate ÷ that of the blocking server in the same round.
    pub to_blocking: Option<Estimate>,
}

/// Result of a dataplane run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DataplaneResult {
    /// Every condition with at least one sample.
    pub rows: Vec<DataplaneRow>,
    /// Cycles a packet in each stage of the inline loop at the highest measured load, without empty
    /// turns.
    pub stage_cycles_per_packet: BTreeMap<String, f64>,
    /// TCP congestion control of all ends.
    pub congestion_control: String,
    /// Highest rate of each server within the latency limit, for each memcached mix.
    #[serde(default)]
    pub service: Vec<DataplaneService>,
    /// Conditions that could not be measured, with the reason.
    pub failed: BTreeMap<String, String>,
}
