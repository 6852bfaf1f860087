//! The command line of `cofferdam latency …`.

use crate::args::{ContainerArgs, values};
use clap::{Args, Subcommand, ValueEnum};
use cofferdam_latency::{Filter, LatencySizes, Start};
use std::path::PathBuf;
use std::time::Duration;

/// `cofferdam latency …`
#[derive(Debug, Subcommand)]
pub enum LatencyCommand {
    /// Write what the containers' network paths add, packet by packet or as histograms
    Record(LatencyRecordArgs),
}

/// What is measured, and with how much memory.
#[derive(Clone, Debug, Args)]
pub struct MeasureArgs {
    /// Which containers.
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
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = values::positive)]
    pub one_in: u32,
    /// Where egress begins: the sending system call (costs every system call of the host some
    /// 50 ns), or the queue of the container's device
    #[arg(long, value_enum, value_name = "POINT", default_value_t = StartPoint::Send)]
    pub start: StartPoint,
    /// Packets that can be on their way at the same time (240 bytes each)
    #[arg(long, value_name = "N", default_value_t = 16_384, value_parser = values::positive)]
    pub table: u32,
    /// Reports that each CPU keeps until they are read (128 bytes each)
    #[arg(long, value_name = "N", default_value_t = 32_768, value_parser = values::positive)]
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
    /// All others, and fragments.
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

/// Where egress begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StartPoint {
    /// The system call that sends.
    Send,
    /// The queue of the container's device.
    Queue,
}

impl MeasureArgs {
    /// The filter for a container whose device of interest has this index.
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

    /// Memory.
    pub fn sizes(&self) -> LatencySizes {
        LatencySizes {
            packets: self.table,
            reports_per_cpu: self.ring,
            ..LatencySizes::default()
        }
    }

    /// Where egress begins.
    pub fn start(&self) -> Start {
        match self.start {
            StartPoint::Send => Start::Send,
            StartPoint::Queue => Start::Queue,
        }
    }
}

/// `cofferdam latency record`
#[derive(Clone, Debug, Args)]
pub struct LatencyRecordArgs {
    /// What is measured.
    #[command(flatten)]
    pub measure: MeasureArgs,
    /// How long to record, with its unit
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = values::interval)]
    pub duration: Duration,
    /// Length of an interval, with its unit
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = values::interval)]
    pub interval: Duration,
    /// One record a packet, or histograms an interval
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = Per::Interval)]
    pub per: Per,
    /// Text for people, or JSON Lines (schema cofferdam.latency/1)
    #[arg(long, value_enum, default_value_t = crate::args::RecordFormat::Table)]
    pub format: crate::args::RecordFormat,
    /// Write to this file instead of standard output
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// What a record is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Per {
    /// One packet.
    Packet,
    /// Everything in an interval.
    Interval,
}
