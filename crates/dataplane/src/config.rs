//! The dataplane's configuration file.

use crate::engine::{MOST_BATCH, Options};
use crate::policy::{Grant, Rights};
use cofferdam_netstack::{Config as StackConfig, Congestion, InterfaceAddress, MacAddress};
use cofferdam_xsk::Mode;
use nix::unistd::User;
use serde::Deserialize;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where applications attach when the file does not say.
pub const DEFAULT_SOCKET: &str = "/run/cofferdam/dataplane.sock";
/// Largest file that is read.
const LARGEST_FILE_BYTES: u64 = 1 << 20;

/// A configuration that can be put in force.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where applications attach.
    pub socket: PathBuf,
    /// Where metrics are served.
    pub metrics: Option<SocketAddr>,
    /// The device.
    pub device: Device,
    /// The dataplane's addresses.
    pub addresses: Vec<InterfaceAddress>,
    /// Where packets to other networks go.
    pub gateways: Vec<IpAddr>,
    /// TCP connections at most.
    pub connections: u32,
    /// Congestion control.
    pub congestion: Congestion,
    /// The loop.
    pub options: Options,
    /// Who may attach, first match first.
    pub applications: Vec<Client>,
}

/// The device and how it is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    /// Its name.
    pub name: String,
    /// AF_XDP, or a tap device that is made.
    pub kind: Kind,
    /// Receive queue.
    pub queue: u32,
    /// CPU of the loop; `None`: wherever the scheduler puts it.
    pub cpu: Option<usize>,
    /// Frames of the packet memory.
    pub frames: u32,
    /// Size of a frame.
    pub frame_bytes: u32,
    /// Whether received checksums are taken as right.
    pub trusts_checksums: bool,
}

/// How packets come off the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// AF_XDP.
    Xdp(Mode),
    /// A tap device.
    Tap,
}

/// An application that may attach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// The name that it gives.
    pub name: String,
    /// The user that its process must be of.
    pub uid: u32,
    /// What it may do.
    pub rights: Rights,
}

/// A configuration that cannot be put in force.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {path}: {why}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// It is wrong.
    #[error("{path}: {why}")]
    Wrong {
        /// The file.
        path: PathBuf,
        /// What, with the remedy.
        why: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    socket: Option<PathBuf>,
    metrics: Option<SocketAddr>,
    device: RawDevice,
    network: RawNetwork,
    #[serde(default)]
    tcp: RawTcp,
    #[serde(default, rename = "loop")]
    turns: RawLoop,
    #[serde(default, rename = "application")]
    applications: Vec<RawApplication>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawDevice {
    name: String,
    #[serde(default)]
    mode: RawMode,
    #[serde(default)]
    queue: u32,
    cpu: Option<usize>,
    frames: Option<u32>,
    frame_bytes: Option<u32>,
    #[serde(default)]
    checksums: RawChecksums,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "lowercase")]
enum RawMode {
    #[default]
    Best,
    Native,
    Generic,
    Tap,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "lowercase")]
enum RawChecksums {
    #[default]
    Verify,
    Trust,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawNetwork {
    addresses: Vec<String>,
    #[serde(default)]
    gateways: Vec<IpAddr>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct RawTcp {
    connections: Option<u32>,
    congestion: Option<RawCongestion>,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum RawCongestion {
    Cubic,
    Newreno,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct RawLoop {
    batch: Option<u32>,
    spin: Option<String>,
    yields: Option<bool>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawApplication {
    name: String,
    user: String,
    #[serde(default)]
    bind: Vec<String>,
    #[serde(default)]
    connect: bool,
}

impl Config {
    /// Reads and checks a file: every key known, every value in range.
    pub fn load(path: &Path) -> Result<Config, ConfigError> {
        let read = |why: String| ConfigError::Read {
            path: path.to_owned(),
            why,
        };
        let size = std::fs::metadata(path)
            .map_err(|e| read(e.to_string()))?
            .len();
        if size > LARGEST_FILE_BYTES {
            return Err(read(format!(
                "it has {size} bytes, more than {LARGEST_FILE_BYTES}"
            )));
        }
        let text = std::fs::read_to_string(path).map_err(|e| read(e.to_string()))?;
        Config::parse(&text).map_err(|why| ConfigError::Wrong {
            path: path.to_owned(),
            why,
        })
    }

    /// Checks the text of a file; the reason when it is wrong.
    pub fn parse(text: &str) -> Result<Config, String> {
        let raw: Raw = toml::from_str(text).map_err(|e| e.to_string().trim_end().to_owned())?;
        let defaults = Options::default();
        let batch = raw.turns.batch.unwrap_or(defaults.batch);
        if !(1..=MOST_BATCH).contains(&batch) {
            return Err(format!("loop.batch = {batch} is outside 1..={MOST_BATCH}"));
        }
        let spin = match raw.turns.spin.as_deref() {
            None => defaults.spin,
            Some(text) => duration(text).ok_or_else(|| {
                format!(
                    "loop.spin = \"{text}\": write a number with its unit, such as 200us, 1ms, 0s"
                )
            })?,
        };
        if spin > Duration::from_secs(1) {
            return Err("loop.spin is longer than 1s".to_owned());
        }
        let frames = raw.device.frames.unwrap_or(8192);
        if !(256..=1 << 20).contains(&frames) {
            return Err(format!("device.frames = {frames} is outside 256..=1048576"));
        }
        let frame_bytes = raw.device.frame_bytes.unwrap_or(2048);
        if !matches!(frame_bytes, 2048 | 4096) {
            return Err(format!("device.frame_bytes = {frame_bytes}: 2048 or 4096"));
        }
        let connections = raw.tcp.connections.unwrap_or(4096);
        if !(1..=1 << 20).contains(&connections) {
            return Err(format!(
                "tcp.connections = {connections} is outside 1..=1048576"
            ));
        }
        if raw.network.addresses.is_empty() {
            return Err(
                "network.addresses is empty: the dataplane needs an address of its own".to_owned(),
            );
        }
        let addresses: Vec<InterfaceAddress> = raw
            .network
            .addresses
            .iter()
            .map(|a| interface(a))
            .collect::<Result<_, _>>()?;
        let applications: Vec<Client> = raw
            .applications
            .into_iter()
            .map(client)
            .collect::<Result<_, _>>()?;
        for (i, one) in applications.iter().enumerate() {
            if applications
                .iter()
                .take(i)
                .any(|other| other.name == one.name)
            {
                return Err(format!("two applications are named '{}'", one.name));
            }
        }
        Ok(Config {
            socket: raw.socket.unwrap_or_else(|| DEFAULT_SOCKET.into()),
            metrics: raw.metrics,
            device: Device {
                name: raw.device.name,
                kind: match raw.device.mode {
                    RawMode::Best => Kind::Xdp(Mode::Best),
                    RawMode::Native => Kind::Xdp(Mode::Native),
                    RawMode::Generic => Kind::Xdp(Mode::Generic),
                    RawMode::Tap => Kind::Tap,
                },
                queue: raw.device.queue,
                cpu: raw.device.cpu,
                frames,
                frame_bytes,
                trusts_checksums: matches!(raw.device.checksums, RawChecksums::Trust),
            },
            addresses,
            gateways: raw.network.gateways,
            connections,
            congestion: match raw.tcp.congestion {
                Some(RawCongestion::Newreno) => Congestion::NewReno,
                Some(RawCongestion::Cubic) | None => Congestion::Cubic,
            },
            options: Options {
                batch,
                spin,
                yields: raw.turns.yields.unwrap_or(defaults.yields),
                // One application reads the frames where the device put them. Several must
                // not see each other's data: each gets a copy of its own.
                private_frames: (applications.len() > 1).then_some(frames / 2),
                ..defaults
            },
            applications,
        })
    }

    /// The network stack's settings for a device.
    pub fn stack(&self, mac: [u8; 6], mtu_bytes: u32, secret: [u8; 16]) -> StackConfig {
        let mut stack = StackConfig::new(MacAddress(mac), self.addresses.clone(), secret);
        stack.mtu_bytes = mtu_bytes;
        stack.gateways.clone_from(&self.gateways);
        stack.received_checksums_verified = self.device.trusts_checksums;
        stack.tcp.congestion = self.congestion;
        stack.limits.connections = self.connections;
        stack.limits.time_wait = self.connections;
        stack.limits.half_open = self.connections.clamp(16, 1024);
        stack.limits.chunks = self.connections.saturating_mul(4).clamp(16384, 1 << 20);
        stack
    }
}

fn client(raw: RawApplication) -> Result<Client, String> {
    let name = raw.name;
    if name.is_empty() || name.len() > 64 || name.chars().any(char::is_control) {
        return Err("an application's name has 1 to 64 printable characters".to_owned());
    }
    let bind = raw.bind.iter().map(|grant| grant.parse::<Grant>());
    let bind = bind
        .collect::<Result<_, _>>()
        .map_err(|e| format!("application '{name}': {e}"))?;
    let uid = match raw.user.parse() {
        Ok(uid) => uid,
        Err(_) => match User::from_name(&raw.user) {
            Ok(Some(user)) => user.uid.as_raw(),
            _ => {
                return Err(format!(
                    "application '{name}': no user '{}' on this host",
                    raw.user
                ));
            }
        },
    };
    Ok(Client {
        name,
        uid,
        rights: Rights {
            bind,
            connect: raw.connect,
        },
    })
}

fn interface(text: &str) -> Result<InterfaceAddress, String> {
    let wrong = || {
        format!(
            "network.addresses: \"{text}\" is no address with its prefix, such as 10.0.0.9/24 or fd00::9/64"
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

fn duration(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    Some(match unit.trim_start() {
        "us" => Duration::from_micros(number),
        "ms" => Duration::from_millis(number),
        "s" => Duration::from_secs(number),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: &str = "[device]\nname = \"eth0\"\n[network]\naddresses = [\"10.0.0.9/24\"]\n";

    #[test]
    fn the_least_file_has_the_documented_defaults() {
        let config = Config::parse(LEAST).expect("a configuration");
        assert_eq!(config.socket, Path::new(DEFAULT_SOCKET));
        assert_eq!(config.device.kind, Kind::Xdp(Mode::Best));
        assert_eq!(
            (config.device.frames, config.device.frame_bytes),
            (8192, 2048)
        );
        assert_eq!(config.options.batch, 64);
        assert_eq!(config.options.spin, Duration::from_millis(1));
        assert!(!config.device.trusts_checksums);
        assert!(config.applications.is_empty());
    }

    #[test]
    fn several_applications_get_frames_of_their_own() {
        let one = "[[application]]\nname = \"a\"\nuser = \"0\"\n";
        let two = "[[application]]\nname = \"b\"\nuser = \"root\"\nbind = [\"tcp/*:80\"]\n";
        let config = Config::parse(&format!("{LEAST}{one}")).expect("a configuration");
        assert_eq!(config.options.private_frames, None);
        let config = Config::parse(&format!("{LEAST}{one}{two}")).expect("a configuration");
        assert_eq!(config.options.private_frames, Some(4096));
        assert_eq!(config.applications[1].uid, 0);
    }

    #[test]
    fn wrong_files_are_refused_with_the_reason() {
        for (more, reason) in [
            ("[loop]\nbatch = 0\n", "outside 1..=256"),
            ("[loop]\nbatch = 257\n", "outside 1..=256"),
            ("[loop]\nspin = \"5\"\n", "with its unit"),
            ("[loop]\nspin = \"5s\"\n", "longer than 1s"),
            ("[loop]\nbacth = 5\n", "unknown field"),
            ("[tcp]\nconnections = 0\n", "outside"),
            ("[tcp]\ncongestion = \"bbr\"\n", "unknown variant"),
            (
                "[[application]]\nname = \"a\"\nuser = \"nobody-here\"\n",
                "no user",
            ),
            ("[[application]]\nname = \"\"\nuser = \"0\"\n", "1 to 64"),
            (
                "[[application]]\nname = \"a\"\nuser = \"0\"\nbind = [\"80\"]\n",
                "application 'a'",
            ),
            (
                "[[application]]\nname = \"a\"\nuser = \"0\"\n[[application]]\nname = \"a\"\nuser = \"0\"\n",
                "two applications",
            ),
        ] {
            let error = Config::parse(&format!("{LEAST}{more}")).expect_err(more);
            assert!(error.contains(reason), "{more}: {error}");
        }
        let no_prefix = LEAST.replace("/24", "");
        assert!(
            Config::parse(&no_prefix)
                .expect_err("no prefix")
                .contains("prefix")
        );
        let long = LEAST.replace("/24", "/33");
        assert!(
            Config::parse(&long)
                .expect_err("too long")
                .contains("prefix")
        );
    }

    #[test]
    fn random_text_never_panics() {
        let mut random = fastrand::Rng::with_seed(1);
        for _ in 0..2000 {
            let mut text = LEAST.as_bytes().to_vec();
            for _ in 0..random.usize(1..6) {
                let at = random.usize(..text.len());
                text[at] = random.u8(..);
            }
            let _ = Config::parse(&String::from_utf8_lossy(&text));
        }
    }
}
