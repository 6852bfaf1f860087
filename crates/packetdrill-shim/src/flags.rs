//! Settings in packetdrill's `--so_flags`.

use crate::command_line::CommandLine;
use crate::sysctls::{self, Sysctls};
use cofferdam_netstack::{Config, Congestion, HyStart, InterfaceAddress, MacAddress};
use std::net::IpAddr;

/// Settings of a host.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Settings of the stack.
    pub config: Config,
    /// Folder of the sysctls that scripts set for Linux, if they are read.
    pub sysctls: Option<Sysctls>,
    /// Whether segments that leave together are marked as a burst (see [`crate::burst`]).
    pub bursts: bool,
}

/// The stack's Ethernet address. It is arbitrary: packetdrill has no link layer.
pub const OURS: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);

/// A fixed secret, so that a script gives the same result on every run.
const SECRET: [u8; 16] = *b"cofferdam script";

fn address(text: &str) -> Result<InterfaceAddress, String> {
    let parsed = text.split_once('/').and_then(|(ip, len)| {
        let ip = ip.parse().ok()?;
        let prefix_len = len.parse().ok()?;
        Some(InterfaceAddress { ip, prefix_len })
    });
    parsed.ok_or_else(|| {
        format!("`{text}` is not an address with its prefix, such as 192.168.0.2/16")
    })
}

fn defaults() -> Config {
    let at = |ip: [u16; 8]| IpAddr::from(ip);
    let addresses = vec![
        InterfaceAddress {
            ip: IpAddr::from([192, 168, 0, 2]),
            prefix_len: 16,
        },
        InterfaceAddress {
            ip: at([0xfd3d, 0xfa7b, 0xd17d, 0, 0, 0, 0, 2]),
            prefix_len: 48,
        },
    ];
    let mut config = Config::new(OURS, addresses, SECRET);
    config.interfaces[0].gateways = vec![
        IpAddr::from([192, 168, 0, 1]),
        at([0xfd3d, 0xfa7b, 0xd17d, 0x8888, 0, 0, 0, 0]),
    ];
    config.tcp.nagle = true;
    config.tcp.timestamps_may_be_missing = true;
    // Linux delays all acknowledgements by the same time.
    config.tcp.answer_wait = config.tcp.delayed_ack;
    config.tcp.answers_expected = 1;
    config.tcp.quick_acks = 16;
    // Slow start ends as in Linux.
    config.tcp.hystart = HyStart::Linux;
    // The shim has its own send buffer, whose size a script sets.
    config.tcp.send_window_bytes = 16 << 20;
    config
}

/// The address that packetdrill was started with, and a gateway next to it. Without a link layer
/// any gateway works.
fn named(local: IpAddr) -> (InterfaceAddress, IpAddr) {
    let (prefix_len, gateway) = match local {
        IpAddr::V4(v4) => {
            let [first, second, ..] = v4.octets();
            let at = |last| IpAddr::from([first, second, 255, last]);
            (16, if at(254) == local { at(253) } else { at(254) })
        }
        IpAddr::V6(v6) => {
            let [a, b, c, ..] = v6.segments();
            let at = |last| IpAddr::from([a, b, c, 0xffff, 0, 0, 0, last]);
            (48, if at(254) == local { at(253) } else { at(254) })
        }
    };
    let address = InterfaceAddress {
        ip: local,
        prefix_len,
    };
    (address, gateway)
}

/// Parses settings: words separated by commas; an empty string selects all defaults.
///
/// `local=IP/LEN` (repeatable; instead of 192.168.0.2/16 and fd3d:fa7b:d17d::2/48), `gateway=IP`
/// (repeatable; instead of packetdrill's own), `mtu=BYTES`, `nonagle`, `nosack`, `notimestamps`,
/// `noscaling`, `newreno`, `window=BYTES`, `sysctls=FOLDER` (instead of /proc/sys/net/ipv4),
/// `nosysctls` and `nobursts`.
///
/// # Errors
/// A message that names the setting it does not understand.
pub fn parse(flags: &str, line: CommandLine) -> Result<Setup, String> {
    let mut config = defaults();
    let (mut addresses, mut gateways) = (Vec::new(), Vec::new());
    let mut bursts = true;
    let mut sysctls = Some(Sysctls::new(sysctls::FOLDER));
    let interface = &mut config.interfaces[0];
    if let Some(local) = line.local {
        let (address, gateway) = named(local);
        (interface.addresses, interface.gateways) = (vec![address], vec![gateway]);
    }
    interface.mtu_bytes = line.mtu_bytes.unwrap_or(interface.mtu_bytes);
    for word in flags.split(',').map(str::trim).filter(|w| !w.is_empty()) {
        let tcp = &mut config.tcp;
        match word.split_once('=') {
            Some(("local", value)) => addresses.push(address(value)?),
            Some(("gateway", value)) => gateways.push(
                value
                    .parse()
                    .map_err(|_| format!("gateway `{value}` is no address"))?,
            ),
            Some(("mtu", value)) => {
                interface.mtu_bytes = value
                    .parse()
                    .map_err(|_| format!("MTU `{value}` is no number"))?;
            }
            Some(("window", value)) => {
                tcp.receive_window_bytes = value
                    .parse()
                    .map_err(|_| format!("window `{value}` is no number"))?;
            }
            Some(("sysctls", folder)) => sysctls = Some(Sysctls::new(folder)),
            None if word == "nosysctls" => sysctls = None,
            None if word == "nobursts" => bursts = false,
            None if word == "nonagle" => tcp.nagle = false,
            None if word == "nosack" => tcp.sack = false,
            None if word == "notimestamps" => tcp.timestamps = false,
            None if word == "noscaling" => tcp.window_scaling = false,
            None if word == "newreno" => tcp.congestion = Congestion::NewReno,
            _ => {
                return Err(format!(
                    "no setting `{word}`: there are local=, gateway=, mtu=, window=, sysctls=, \
                     nosysctls, nobursts, nonagle, nosack, notimestamps, noscaling and newreno"
                ));
            }
        }
    }
    if !addresses.is_empty() {
        interface.addresses = addresses;
        // The default gateways lie on the default networks.
        interface.gateways = gateways;
    } else if !gateways.is_empty() {
        interface.gateways = gateways;
    }
    Ok(Setup {
        config,
        sysctls,
        bursts,
    })
}
