//! The command line of `cofferdam latency …`.

use crate::args::ContainerArgs;
use clap::{Args, Subcommand, ValueEnum};
use cofferdam_latency::{Filter, LatencySizes, Start};
use cofferdam_types::quantity;
use std::path::PathBuf;
use std::time::Duration;

/// `cofferdam latency …`
#[derive(Debug, Subcommand)]
pub enum LatencyCommand {
    /// Record the latency that the containers' network paths add, per packet or as histograms
    Record(LatencyRecordArgs),
    /// Watch live the latency that network paths add, per container and stage
    Watch(WatchArgs),
    /// Ping, and subtract what the container's network adds from each round trip
    Ping(PingArgs),
    /// Serve reports on a Unix socket to the containers into which it is mounted
    Serve(ServeArgs),
    /// Inside a container: start measuring its own packets
    On(OnArgs),
    /// Inside a container: stop measuring
    Off(ClientArgs),
    /// Inside a container: print the reports
    Read(ReadArgs),
}

/// `cofferdam latency watch`
#[derive(Clone, Debug, Args)]
pub struct WatchArgs {
    /// Measurement.
    #[command(flatten)]
    pub measure: MeasureArgs,
    /// Time between updates, with its unit
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = quantity::interval)]
    pub interval: Duration,
}

/// Default path of the socket.
pub const SOCKET: &str = "/run/cofferdam/latency.sock";

/// `cofferdam latency off`, and the other commands that use the socket.
#[derive(Clone, Debug, Args)]
pub struct ClientArgs {
    /// The socket of 'cofferdam latency serve'
    #[arg(long, value_name = "PATH", env = "COFFERDAM_LATENCY_SOCKET", default_value = SOCKET)]
    pub socket: PathBuf,
}

/// `cofferdam latency on`
#[derive(Clone, Debug, Args)]
pub struct OnArgs {
    /// Socket of the server.
    #[command(flatten)]
    pub client: ClientArgs,
    /// Only these protocols; may be repeated or separated by commas
    #[arg(long, value_enum, value_name = "PROTOCOL", value_delimiter = ',')]
    pub protocol: Vec<Protocol>,
    /// Only packets with this port at either end
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,
}

/// `cofferdam latency read`
#[derive(Clone, Debug, Args)]
pub struct ReadArgs {
    /// Socket of the server.
    #[command(flatten)]
    pub client: ClientArgs,
    /// Print MACE's own format, '[sec.usec] (id) egress: ns'
    #[arg(long)]
    pub mace: bool,
    /// Keep printing new reports until interrupted
    #[arg(long)]
    pub follow: bool,
}

/// `cofferdam latency serve`
#[derive(Clone, Debug, Args)]
pub struct ServeArgs {
    /// Path of the socket to create
    #[arg(long, value_name = "PATH", env = "COFFERDAM_LATENCY_SOCKET", default_value = SOCKET)]
    pub socket: PathBuf,
    /// Point where egress begins: the queue of the container's device, the sending system call
    /// (costs every system call of the host some 50 ns), or the device without its queue (costs
    /// least)
    #[arg(long, value_enum, value_name = "POINT", default_value_t = StartPoint::Queue)]
    pub start: StartPoint,
    /// Simultaneous connections per container
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = quantity::positive)]
    pub clients: u32,
    /// Reports stored per container
    #[arg(long, value_name = "N", default_value_t = 65_536, value_parser = quantity::positive)]
    pub keep: u32,
}

/// `cofferdam latency ping`
#[derive(Clone, Debug, Args)]
pub struct PingArgs {
    /// Name or address of the host
    #[arg(value_name = "HOST")]
    pub host: String,
    /// Ping from inside this container (needs root on the host); without it, run inside the
    /// container, the command uses the socket
    #[arg(long, value_name = "SELECTOR")]
    pub container: Option<cofferdam_types::Selector>,
    /// Socket of the server.
    #[command(flatten)]
    pub client: ClientArgs,
    /// Number of probes
    #[arg(long, short, value_name = "N", default_value_t = 10, value_parser = quantity::positive)]
    pub count: u32,
    /// Time between probes, with its unit
    #[arg(
        long,
        short,
        value_name = "DURATION",
        default_value = "200ms",
        value_parser = quantity::duration,
    )]
    pub interval: Duration,
    /// Time to wait for an answer, with its unit
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = quantity::duration)]
    pub timeout: Duration,
    /// Payload size
    #[arg(long, value_name = "SIZE", default_value = "56B", value_parser = quantity::bytes)]
    pub size: u32,
    /// Send datagrams to an echo server at this port
    #[arg(long, value_name = "PORT", conflicts_with = "tcp_connect")]
    pub udp: Option<u16>,
    /// Open connections to this port
    #[arg(long, value_name = "PORT")]
    pub tcp_connect: Option<u16>,
    /// Print one JSON document (schema cofferdam.latency-ping/1)
    #[arg(long)]
    pub json: bool,
}

/// Packets to measure, and the memory for that.
#[derive(Clone, Debug, Args)]
pub struct MeasureArgs {
    /// Selected containers.
    #[command(flatten)]
    pub containers: ContainerArgs,
    /// Only these protocols; may be repeated or separated by commas
    #[arg(long, value_enum, value_name = "PROTOCOL", value_delimiter = ',')]
    pub protocol: Vec<Protocol>,
    /// Only packets with this port at either end
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,
    /// Only this direction
    #[arg(long, value_enum, value_name = "DIRECTION")]
    pub direction: Option<Way>,
    /// Only the container's device of this name
    #[arg(long, value_name = "DEVICE")]
    pub interface: Option<String>,
    /// Measure one flow in N, chosen by its addresses and ports
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = quantity::positive)]
    pub one_in: u32,
    /// Point where egress begins: the sending system call (costs every system call of the host some
    /// 50 ns), the queue of the container's device, or the device without its queue (costs least)
    #[arg(long, value_enum, value_name = "POINT", default_value_t = StartPoint::Send)]
    pub start: StartPoint,
    /// Maximum number of packets in flight (about 270 bytes each)
    #[arg(long, value_name = "N", default_value_t = 16_384, value_parser = quantity::positive)]
    pub table: u32,
    /// Reports that each CPU stores until they are read (136 bytes each)
    #[arg(long, value_name = "N", default_value_t = 32_768, value_parser = quantity::positive)]
    pub ring: u32,
}

/// Protocols by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Protocol {
    /// ICMP and ICMPv6.
    Icmp,
    /// UDP.
    Udp,
    /// TCP.
    Tcp,
    /// All other protocols, and fragments.
    Other,
}

/// Directions by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Way {
    /// Out of the container.
    Egress,
    /// Into the container.
    Ingress,
}

/// Point where egress begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StartPoint {
    /// The system call that sends.
    Send,
    /// The queue of the container's device.
    Queue,
    /// The queue of the container's device, as programs on devices see it instead of the host's
    /// tracepoints. It is the cheapest, and lacks the time in queues, drops and the copy to the
    /// reader (Linux 6.6).
    Device,
}

impl From<StartPoint> for Start {
    fn from(point: StartPoint) -> Start {
        match point {
            StartPoint::Send => Start::Send,
            StartPoint::Queue => Start::Queue,
            StartPoint::Device => Start::Device,
        }
    }
}

impl MeasureArgs {
    /// Filter for a container whose device of interest has the index `ifindex`.
    pub fn filter(&self, ifindex: Option<u32>) -> Filter {
        let all = self.protocol.is_empty();
        let wants = |p: Protocol| all || self.protocol.contains(&p);
        Filter {
            egress: self.direction != Some(Way::Ingress),
            ingress: self.direction != Some(Way::Egress),
            classes: [
                wants(Protocol::Icmp),
                wants(Protocol::Udp),
                wants(Protocol::Tcp),
                wants(Protocol::Other),
            ],
            ifindex,
            port: self.port,
            one_in: self.one_in,
        }
    }

    /// Sizes of the kernel's tables.
    pub fn sizes(&self) -> LatencySizes {
        LatencySizes {
            packets: self.table,
            reports_per_cpu: self.ring,
            ..LatencySizes::default()
        }
    }

    /// Point where egress begins.
    pub fn start(&self) -> Start {
        self.start.into()
    }
}

/// `cofferdam latency record`
#[derive(Clone, Debug, Args)]
pub struct LatencyRecordArgs {
    /// Measurement.
    #[command(flatten)]
    pub measure: MeasureArgs,
    /// How long to record, with its unit
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = quantity::interval)]
    pub duration: Duration,
    /// Length of an interval, with its unit
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = quantity::interval)]
    pub interval: Duration,
    /// One record per packet, or histograms per interval
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = Per::Interval)]
    pub per: Per,
    /// Text for people, or JSON Lines (schema cofferdam.latency/1)
    #[arg(long, value_enum, default_value_t = crate::args::RecordFormat::Table)]
    pub format: crate::args::RecordFormat,
    /// Write to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace the file of --output if it exists
    #[arg(long, requires = "output")]
    pub force: bool,
}

/// Subject of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Per {
    /// One packet.
    Packet,
    /// All packets of an interval.
    Interval,
}
