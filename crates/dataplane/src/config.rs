//! The dataplane's configuration file.

mod application;
mod cores;
mod elastic;
mod links;
mod raw;
mod value;

pub use cores::Core;
pub use elastic::Elastic;
pub use links::Link;

use crate::engine::Options;
use crate::pkey::Program;
use crate::policy::{Grant, MOST_CLIENTS, Rights, Shares};
use crate::tuning::{BURST_SEGMENTS, KEEPALIVE, MOST_BATCH};
use cofferdam_host::{HostError, HostFs, online_cpus};
use cofferdam_netstack::{
    Config as StackConfig, Congestion, Interface, InterfaceAddress, MacAddress,
};
use cofferdam_paths::{FileError, read_text};
use cofferdam_types::{CpuId, Problem, parse_all};
use cofferdam_xsk::Mode;
use raw::{Raw, RawChecksums, RawCongestion};
use std::net::{IpAddr, SocketAddr};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::Spanned;
use value::{Wrong, duration};

/// Default of `socket`.
pub const DEFAULT_SOCKET: &str = "/run/cofferdam/dataplane.sock";
/// Bytes of the largest file that is read.
const LARGEST_FILE_BYTES: u64 = 1 << 20;

/// A valid configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// Socket at which applications attach.
    pub socket: PathBuf,
    /// Address at which metrics are served.
    pub metrics: Option<SocketAddr>,
    /// The devices with their networks, at least one.
    pub links: Vec<Link>,
    /// Storage and sending of packets.
    pub packets: Packets,
    /// The cores, at least one.
    pub cores: Vec<Core>,
    /// Settings of elastic cores; `None`: all cores serve always.
    pub elastic: Option<Elastic>,
    /// TCP connections of each core, at most.
    pub connections: u32,
    /// Sizes of the other tables that applications share.
    pub limits: Limits,
    /// Congestion control.
    pub congestion: Congestion,
    /// Settings of the loop.
    pub options: Options,
    /// Applications that may attach; the first match counts.
    pub applications: Vec<Client>,
}

/// Sizes of tables that applications share, of each core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Listening TCP addresses.
    pub listeners: u32,
    /// Bound UDP addresses.
    pub datagram_addresses: u32,
    /// Datagrams that are pending to be sent.
    pub datagrams: u32,
    /// Timers.
    pub timers: u32,
    /// Known neighbours.
    pub neighbours: u32,
}

/// Storage and sending of packets, on all devices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packets {
    /// Number of frames in the packet memory.
    pub frames: u32,
    /// Bytes of a frame.
    pub frame_bytes: u32,
    /// Whether received checksums are trusted.
    pub trusts_checksums: bool,
    /// Whether consecutive segments leave as one large packet, for a device or the kernel to cut.
    pub segmentation: bool,
}

/// The way in which packets come off the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkKind {
    /// AF_XDP.
    Xdp(Mode),
    /// A tap device.
    Tap,
}

/// An application that may attach.
#[derive(Clone, Debug, PartialEq)]
pub struct Client {
    /// Name that the application presents.
    pub name: String,
    /// User that its process must run as.
    pub uid: u32,
    /// Group of that user.
    pub gid: u32,
    /// Rights of the application.
    pub rights: Rights,
    /// Program that the dataplane's own thread runs behind protection keys; `None`: a process of
    /// its own, which attaches.
    pub program: Option<Program>,
}

/// The reason why a configuration is refused.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Error of the read.
        source: std::io::Error,
    },
    /// The file is larger than any configuration.
    #[error(
        "cannot read {path}: it has more than the limit of {LARGEST_FILE_BYTES} bytes",
        path = .0.display()
    )]
    TooLarge(PathBuf),
    /// The host's online CPUs, which its cores name, cannot be read.
    #[error("cannot read {path}: {source}")]
    Host {
        /// Path of the file.
        path: PathBuf,
        /// Error of the read.
        source: HostError,
    },
    /// The file has mistakes.
    #[error("{}", summary(path, problems))]
    Wrong {
        /// Path of the file.
        path: PathBuf,
        /// All mistakes.
        problems: Vec<Problem>,
    },
}

fn summary(path: &Path, problems: &[Problem]) -> String {
    let mut text = match problems.first() {
        Some(p) => format!("{}:{}:{}: {}", path.display(), p.line, p.column, p.text),
        None => format!("{}: refused", path.display()),
    };
    if let more @ 1.. = problems.len().saturating_sub(1) {
        text += &format!(" (and {more} more; 'cofferdam dataplane run --check-config' lists all)");
    }
    text
}

impl Config {
    /// Reads and checks a file: each key is known, each value in range, each CPU online.
    pub fn load(path: &Path) -> Result<Config, ConfigError> {
        let read = |source| ConfigError::Read {
            path: path.to_owned(),
            source,
        };
        let text = read_text(path, LARGEST_FILE_BYTES).map_err(|e| match e {
            FileError::TooLarge { .. } => ConfigError::TooLarge(path.to_owned()),
            other => read(other.into()),
        })?;
        let online = online_cpus(&HostFs::host()).map_err(|source| ConfigError::Host {
            path: path.to_owned(),
            source,
        })?;
        Config::parse_for(&text, Some(&online)).map_err(|problems| ConfigError::Wrong {
            path: path.to_owned(),
            problems,
        })
    }

    /// Checks the text of a file, without regard to the host. Returns all mistakes in the order of
    /// their lines.
    pub fn parse(text: &str) -> Result<Config, Vec<Problem>> {
        Config::parse_for(text, None)
    }

    /// Checks a text as [`Config::parse`] does, for a host with these CPUs.
    fn parse_for(text: &str, online: Option<&[CpuId]>) -> Result<Config, Vec<Problem>> {
        let parsed = parse_all(text, |text| Config::parse_once(text, online));
        let mut problems = parsed.problems;
        problems.sort_by_key(|p| (p.line, p.column));
        match parsed.value {
            Some(config) if problems.is_empty() => Ok(config),
            _ => Err(problems),
        }
    }

    /// Parses a text up to its first mistake.
    fn parse_once(text: &str, online: Option<&[CpuId]>) -> Result<Config, Wrong> {
        let raw: Raw = toml::from_str(text)
            .map_err(|e| (e.span().unwrap_or_default(), e.message().to_owned()))?;
        let defaults = Options::default();
        let at = |span: Range<usize>, why: String| (span, why);
        let within = |key: &str, found: Option<Spanned<u32>>, default: u32, range: Range<u32>| {
            let Some(found) = found else {
                return Ok(default);
            };
            let value = *found.get_ref();
            if range.contains(&value) {
                return Ok(value);
            }
            let (first, last) = (range.start, range.end - 1);
            let why = format!("{key} = {value} is outside {first}..={last}");
            Err(at(found.span(), why))
        };
        let batch = within(
            "loop.batch",
            raw.turns.batch,
            defaults.batch,
            1..MOST_BATCH + 1,
        )?;
        let spin = match raw.turns.spin {
            None => defaults.spin,
            Some(found) => spin(found.get_ref()).map_err(|why| at(found.span(), why))?,
        };
        let frames = within(
            "device.frames",
            raw.device.frames.clone(),
            8192,
            256..(1 << 20) + 1,
        )?;
        let frame_bytes = match &raw.device.frame_bytes {
            None => 2048,
            Some(found) => match *found.get_ref() {
                bytes @ (2048 | 4096) => bytes,
                bytes => {
                    let why = format!("device.frame_bytes = {bytes}: 2048 or 4096");
                    return Err(at(found.span(), why));
                }
            },
        };
        let cores = cores::cores(&raw.device, &raw.cores, frames)?;
        cores::refuse_offline(&raw.device, &raw.cores, online)?;
        let elastic = raw.elastic.as_ref();
        let elastic = elastic.map(|given| elastic::elastic(given, raw.cores.len()));
        let elastic = elastic.transpose()?;
        let connections = raw.tcp.connections;
        let connections = within("tcp.connections", connections, 8192, 1..(1 << 20) + 1)?;
        let given = raw.limits;
        let defaults_of = cofferdam_netstack::Limits::default();
        let limits = Limits {
            listeners: within(
                "limits.listeners",
                given.listeners,
                defaults_of.listeners,
                1..4097,
            )?,
            datagram_addresses: within(
                "limits.datagram_addresses",
                given.datagram_addresses,
                defaults_of.udp,
                1..4097,
            )?,
            datagrams: within(
                "limits.datagrams",
                given.datagrams,
                defaults_of.udp_sends,
                1..65_537,
            )?,
            timers: within("limits.timers", given.timers, 4096, 1..(1 << 20) + 1)?,
            neighbours: within(
                "limits.neighbours",
                given.neighbours,
                defaults_of.neighbours,
                16..65_537,
            )?,
        };
        let first = Link {
            name: raw.device.name.clone(),
            kind: links::kind(&raw.device.mode),
            queue: None,
            addresses: links::addresses("network.addresses", &raw.network.addresses)?,
            gateways: raw.network.gateways,
        };
        let links = links::links(&raw.device, first, raw.links)?;
        let mut applications: Vec<Client> = Vec::new();
        let (mut shares, mut sum) = (Vec::new(), 0_u32);
        for raw in raw.applications {
            let named = raw.name.span();
            if let Some(share) = &raw.share_pct {
                let percent = *share.get_ref();
                sum += u32::from(percent);
                if percent == 0 || sum > 100 {
                    let why = format!(
                        "share_pct = {percent}: shares are 1 to 100, and all together no more than \
                            100"
                    );
                    return Err(at(share.span(), why));
                }
            }
            shares.push(raw.share_pct.as_ref().map(|share| *share.get_ref()));
            let domain = raw.domain.as_ref().map(Spanned::span);
            let client = application::client(raw)?;
            if client.program.is_some() {
                let others = applications.iter().any(|other| other.program.is_some());
                application::allow_guest(&client.name, others, cores.len())
                    .map_err(|why| at(domain.unwrap_or_default(), why))?;
            }
            if applications.iter().any(|other| other.name == client.name) {
                let why = format!("two applications are named '{}'", client.name);
                return Err(at(named, why));
            }
            applications.push(client);
            if applications.len() > MOST_CLIENTS {
                let why = format!("more than {MOST_CLIENTS} applications");
                return Err(at(named, why));
            }
        }
        let bind: Vec<Vec<Grant>> = (applications.iter())
            .map(|client| client.rights.bind.clone())
            .collect();
        for (own, client) in applications.iter_mut().enumerate() {
            let others = bind.iter().enumerate().filter(|(place, _)| *place != own);
            others.for_each(|(_, bind)| client.rights.reserve(bind));
        }
        Ok(Config {
            socket: raw.socket.unwrap_or_else(|| DEFAULT_SOCKET.into()),
            metrics: raw.metrics,
            links,
            packets: Packets {
                frames,
                frame_bytes,
                trusts_checksums: matches!(raw.device.checksums, RawChecksums::Trust),
                segmentation: raw.device.segmentation.unwrap_or(true),
            },
            cores,
            elastic,
            connections,
            limits,
            congestion: match raw.tcp.congestion {
                Some(RawCongestion::Newreno) => Congestion::NewReno,
                Some(RawCongestion::Cubic) | None => Congestion::Cubic,
            },
            options: Options {
                batch,
                spin,
                yields: raw.turns.yields.unwrap_or(defaults.yields),
                // A single application reads the frames where the device put them. Several
                // applications must not see each other's data, so that each gets a copy.
                private_frames: (applications.len() > 1).then_some(frames / 2),
                first_cores: elastic.map(|elastic| elastic.least_cores),
                shares: Shares::new(&shares),
                ..defaults
            },
            applications,
        })
    }

    /// The application that the dataplane's own thread runs, with its index.
    pub fn guest(&self) -> Option<(u8, &Client, Program)> {
        let mut places = (0_u8..).zip(&self.applications);
        places.find_map(|(place, client)| Some((place, client, client.program?)))
    }

    /// Addresses on all devices.
    pub fn addresses(&self) -> impl Iterator<Item = &InterfaceAddress> {
        self.links.iter().flat_map(|link| &link.addresses)
    }

    /// Settings of the network stack for devices with these hardware addresses and MTUs in bytes,
    /// in the order of the links.
    pub fn stack(&self, devices: &[([u8; 6], u32)], secret: [u8; 16]) -> StackConfig {
        let interface = |(link, (mac, mtu_bytes)): (&Link, &([u8; 6], u32))| Interface {
            mtu_bytes: *mtu_bytes,
            gateways: link.gateways.clone(),
            ..Interface::new(MacAddress(*mac), link.addresses.clone())
        };
        let mut stack = StackConfig::new(MacAddress::default(), Vec::new(), secret);
        stack.interfaces = self.links.iter().zip(devices).map(interface).collect();
        stack.received_checksums_verified = self.packets.trusts_checksums;
        stack.tcp.congestion = self.congestion;
        stack.tcp.keepalive = Some(KEEPALIVE);
        stack.tcp.burst_segments = BURST_SEGMENTS;
        stack.limits.connections = self.connections;
        stack.limits.listeners = self.limits.listeners;
        stack.limits.udp = self.limits.datagram_addresses;
        stack.limits.udp_sends = self.limits.datagrams;
        stack.limits.timers = self.limits.timers;
        stack.limits.neighbours = self.limits.neighbours;
        stack.limits.time_wait = self.connections;
        stack.limits.half_open = self.connections.clamp(16, 1024);
        stack.limits.chunks = self.connections.saturating_mul(4).clamp(16384, 1 << 20);
        stack
    }
}

/// Parses `loop.spin`.
fn spin(text: &str) -> Result<Duration, String> {
    let spin = duration(text).ok_or_else(|| {
        format!("loop.spin = \"{text}\": write a number with its unit, such as 200us, 1ms, 0s")
    })?;
    if spin > Duration::from_secs(1) {
        return Err("loop.spin is longer than 1s".to_owned());
    }
    Ok(spin)
}

/// Parses an address with its prefix, under `key`.
fn interface(key: &str, text: &str) -> Result<InterfaceAddress, String> {
    let wrong = || {
        format!(
            "{key}: \"{text}\" is not an address with its prefix, such as 10.0.0.9/24 or fd00::9/64"
        )
    };
    let (ip, prefix) = text.split_once('/').ok_or_else(wrong)?;
    let ip: IpAddr = ip.parse().map_err(|_| wrong())?;
    let prefix_len: u8 = prefix.parse().map_err(|_| wrong())?;
    if prefix_len > if ip.is_ipv4() { 32 } else { 128 } {
        return Err(wrong());
    }
    Ok(InterfaceAddress { ip, prefix_len })
}

#[cfg(test)]
mod tests;
