//! Rights of an application, and its shares of the tables.

use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;

/// Applications in a configuration, at most.
pub const MOST_CLIENTS: usize = 64;

/// Ports of senders without a port of their own (RFC 6335, 6).
pub const DYNAMIC_PORTS: RangeInclusive<u16> = 49_152..=65_535;

/// Part of each table that each application of the configuration is guaranteed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    permille: [u16; MOST_CLIENTS],
    count: u8,
}

impl Shares {
    /// Guarantees half of each table, in equal parts, to `count` applications.
    pub fn equal(count: usize) -> Shares {
        Shares::new(&vec![None; count.clamp(1, MOST_CLIENTS)])
    }

    /// Guarantees each application a part in percent. Applications without one get half of the
    /// remainder, in equal parts. With a sum above 100 percent, the first applications
    /// get their parts.
    pub fn new(percent: &[Option<u8>]) -> Shares {
        let percent = percent.get(..MOST_CLIENTS).unwrap_or(percent);
        let mut left: u16 = 1000;
        let mut permille = [0; MOST_CLIENTS];
        for (place, given) in permille.iter_mut().zip(percent) {
            *place = given.map_or(0, |given| (u16::from(given) * 10).min(left));
            left -= *place;
        }
        let others = percent.iter().filter(|given| given.is_none()).count() as u16;
        for (place, given) in permille.iter_mut().zip(percent) {
            if given.is_none() {
                *place = left / 2 / others;
            }
        }
        Shares {
            permille,
            count: percent.len() as u8,
        }
    }

    /// Number of applications.
    pub fn count(&self) -> u8 {
        self.count
    }

    /// Guaranteed places of each application in a table of `size`.
    pub fn of(&self, size: u32) -> [u32; MOST_CLIENTS] {
        let part = |permille| (u64::from(size) * u64::from(permille) / 1000) as u32;
        self.permille.map(part)
    }
}

/// A transport protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// Addresses that may be bound: `tcp/10.0.0.9:80`, `udp/*:53`, `tcp/[fd00::9]:8000-8099`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Transport of the addresses.
    pub transport: Transport,
    /// IP address; `None` for all.
    pub address: Option<IpAddr>,
    /// First port.
    pub first_port: u16,
    /// Last port.
    pub last_port: u16,
}

impl Grant {
    /// Whether `local` may be bound. The unspecified address needs a grant for all addresses.
    pub fn covers(&self, transport: Transport, local: SocketAddr) -> bool {
        self.transport == transport
            && (self.first_port..=self.last_port).contains(&local.port())
            && self.address.is_none_or(|address| address == local.ip())
    }
}

impl std::str::FromStr for Grant {
    type Err = String;

    fn from_str(text: &str) -> Result<Grant, String> {
        let wrong = |why: &str| {
            format!(
                "`{text}` {why}: write TRANSPORT/ADDRESS:PORT, such as tcp/10.0.0.9:80, udp/*:53 \
                    or tcp/[fd00::9]:8000-8099"
            )
        };
        let (transport, rest) = text
            .split_once('/')
            .ok_or_else(|| wrong("names no transport"))?;
        let transport = match transport {
            "tcp" => Transport::Tcp,
            "udp" => Transport::Udp,
            _ => return Err(wrong("is neither tcp nor udp")),
        };
        let (address, ports) = rest
            .rsplit_once(':')
            .ok_or_else(|| wrong("names no port"))?;
        let address = match address {
            "*" => None,
            other => {
                let bare = other.strip_prefix('[').and_then(|a| a.strip_suffix(']'));
                let parsed = bare.unwrap_or(other).parse();
                Some(parsed.map_err(|_| wrong("has no valid address"))?)
            }
        };
        let (first, last) = ports.split_once('-').unwrap_or((ports, ports));
        let port = |text: &str| match text.parse::<u16>() {
            Ok(port) if port > 0 => Ok(port),
            _ => Err(wrong("has no valid port")),
        };
        let (first_port, last_port) = match ports {
            "*" => (1, u16::MAX),
            _ => (port(first)?, port(last)?),
        };
        if first_port > last_port {
            return Err(wrong("has its port range reversed"));
        }
        Ok(Grant {
            transport,
            address,
            first_port,
            last_port,
        })
    }
}

/// Rights of one application.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    /// Addresses that it may bind.
    pub bind: Vec<Grant>,
    /// Whether it may open connections, and send datagrams from [`DYNAMIC_PORTS`].
    pub connect: bool,
    /// Addresses with ports that others may bind, so that no sender takes them.
    pub reserved: Vec<Grant>,
}

impl Rights {
    /// All rights, for an application in the dataplane's own process.
    pub fn all() -> Rights {
        let all = |transport| Grant {
            transport,
            address: None,
            first_port: 1,
            last_port: u16::MAX,
        };
        Rights {
            bind: vec![all(Transport::Tcp), all(Transport::Udp)],
            connect: true,
            reserved: Vec::new(),
        }
    }

    /// Whether an address may be bound.
    pub fn may_bind(&self, transport: Transport, local: SocketAddr) -> bool {
        let covers = |grant: &Grant| grant.covers(transport, local);
        let may_send = self.connect && transport == Transport::Udp;
        self.bind.iter().any(covers)
            || may_send
                && DYNAMIC_PORTS.contains(&local.port())
                && !self.reserved.iter().any(covers)
    }

    /// Reserves the ports that others' grants name.
    pub fn reserve(&mut self, others: &[Grant]) {
        let names_ports = |grant: &&Grant| (grant.first_port, grant.last_port) != (1, u16::MAX);
        self.reserved.extend(others.iter().filter(names_ports));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn may(grant: &str, transport: Transport, local: &str) -> bool {
        let rights = Rights {
            bind: vec![grant.parse().expect("a grant")],
            ..Rights::default()
        };
        rights.may_bind(transport, local.parse().expect("an address"))
    }

    /// Promise 49.
    #[test]
    fn a_grant_covers_what_it_says_and_no_more() {
        use Transport::{Tcp, Udp};
        assert!(may("tcp/10.0.0.9:80", Tcp, "10.0.0.9:80"));
        assert!(!may("tcp/10.0.0.9:80", Udp, "10.0.0.9:80"));
        assert!(!may("tcp/10.0.0.9:80", Tcp, "10.0.0.9:81"));
        assert!(!may("tcp/10.0.0.9:80", Tcp, "10.0.0.8:80"));
        assert!(
            !may("tcp/10.0.0.9:80", Tcp, "0.0.0.0:80"),
            "all addresses are more than one"
        );
        assert!(may("tcp/*:80", Tcp, "0.0.0.0:80"));
        assert!(may("udp/*:*", Udp, "[fd00::1]:65535"));
        assert!(may("tcp/[fd00::9]:8000-8099", Tcp, "[fd00::9]:8099"));
        assert!(!may("tcp/[fd00::9]:8000-8099", Tcp, "[fd00::9]:8100"));
    }

    /// Promise 70.
    #[test]
    fn a_sender_may_use_dynamic_ports_without_a_grant() {
        let mut rights = Rights {
            connect: true,
            ..Rights::default()
        };
        let others = [
            "udp/*:50000",
            "udp/10.0.0.9:50001",
            "udp/*:*",
            "tcp/*:50003",
        ];
        rights.reserve(&others.map(|grant| grant.parse().expect("a grant")));
        for (local, may) in [
            ("10.0.0.9:49152", true),
            ("0.0.0.0:65535", true),
            ("10.0.0.9:49151", false),
            ("10.0.0.9:53", false),
            ("0.0.0.0:50000", false),
            ("10.0.0.9:50000", false),
            ("10.0.0.9:50001", false),
            ("10.0.0.8:50001", true),
            // An exact address takes precedence over all addresses.
            ("0.0.0.0:50001", true),
            ("10.0.0.9:50003", true),
        ] {
            let local = local.parse().expect("an address");
            assert_eq!(rights.may_bind(Transport::Udp, local), may, "{local}");
            assert!(!rights.may_bind(Transport::Tcp, local));
        }
        rights.connect = false;
        assert!(!rights.may_bind(Transport::Udp, ([10, 0, 0, 9], 49152).into()));
    }

    /// Promise 75.
    #[test]
    fn wrong_grants_are_refused_with_the_reason() {
        for (text, reason) in [
            ("10.0.0.9:80", "names no transport"),
            ("icmp/10.0.0.9:80", "neither tcp nor udp"),
            ("tcp/10.0.0.9", "names no port"),
            ("tcp/10.0.0:80", "no valid address"),
            ("tcp/*:0", "no valid port"),
            ("tcp/*:70000", "no valid port"),
            ("tcp/*:9-8", "its port range reversed"),
        ] {
            let error = text.parse::<Grant>().expect_err(text);
            assert!(error.contains(reason), "{error}");
        }
    }
}
