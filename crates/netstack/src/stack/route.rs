//! Interfaces with their addresses, and the next hop of a packet.
//!
//! An address belongs to one interface in both directions (RFC 1122, 3.3.4.2, the strong model). A
//! packet leaves by the interface of its source address, and a packet for that address is refused
//! on another interface. The local address of a connection thus determines its interface, and no
//! host of one network can impersonate a host of another.

use crate::api::{Config, ConfigError, Interface, InterfaceId, MacAddress};
use crate::wire::address::Addr;

/// Neighbour that a packet is sent to: an address on the link of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Hop {
    pub interface: InterfaceId,
    pub ip: Addr,
}

/// Interface and Ethernet addresses of an outgoing frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyRoute {
    pub interface: InterfaceId,
    pub to: MacAddress,
    pub from: MacAddress,
}

/// Interfaces of the stack, at least one.
#[derive(Debug, Clone)]
pub struct Routes {
    links: Vec<Link>,
}

/// Interface: addresses with their prefixes, and one gateway for each family.
#[derive(Debug, Clone)]
struct Link {
    mac: MacAddress,
    mtu_bytes: u32,
    segmentation: bool,
    addresses: Vec<(Addr, u8)>,
    gateways: [Option<Addr>; 2],
}

impl Link {
    /// Checks the settings of an interface.
    fn new(interface: &Interface) -> Result<Self, ConfigError> {
        let mut addresses = Vec::new();
        for address in &interface.addresses {
            let most = if address.ip.is_ipv4() { 32 } else { 128 };
            if address.prefix_len > most {
                return Err(ConfigError::Prefix(address.ip, address.prefix_len));
            }
            let ip = Addr::from(address.ip);
            if !ip.is_unicast() || (address.ip.is_ipv6() && ip.is_v4()) {
                return Err(ConfigError::Address(address.ip));
            }
            addresses.push((ip, address.prefix_len));
        }
        let mut link = Self {
            mac: interface.mac,
            mtu_bytes: interface.mtu_bytes,
            segmentation: interface.segmentation,
            addresses,
            gateways: [None; 2],
        };
        for gateway in &interface.gateways {
            let ip = Addr::from(*gateway);
            if !ip.is_unicast() || !link.has(&ip) {
                return Err(ConfigError::Gateway(*gateway));
            }
            link.gateways[usize::from(ip.is_v4())].get_or_insert(ip);
        }
        Ok(link)
    }

    fn is_ours(&self, ip: &Addr) -> bool {
        self.addresses.iter().any(|(ours, _)| ours == ip)
    }

    /// Whether an address is in a network of the interface.
    fn is_in_network(&self, ip: &Addr) -> bool {
        let mut all = self.addresses.iter();
        all.any(|(ours, len)| ours.same_prefix(ip, *len))
    }

    /// Whether an address is on the link.
    fn has(&self, ip: &Addr) -> bool {
        is_link_local(ip) || self.is_in_network(ip)
    }

    fn has_family(&self, v4: bool) -> bool {
        self.addresses.iter().any(|(ours, _)| ours.is_v4() == v4)
    }

    fn next_hop(&self, remote: &Addr) -> Option<Addr> {
        match self.has(remote) {
            true => Some(*remote),
            false => self.gateways[usize::from(remote.is_v4())],
        }
    }

    /// Source address for `remote` via `hop`: one of the hop's network, or else one of the same
    /// scope, or else any.
    fn source_for(&self, remote: &Addr, hop: &Addr) -> Option<Addr> {
        let family = || {
            self.addresses
                .iter()
                .filter(|(ours, _)| ours.is_v4() == remote.is_v4())
        };
        family()
            .find(|(ours, len)| ours.same_prefix(hop, *len))
            .or_else(|| family().find(|(ours, _)| is_link_local(ours) == is_link_local(remote)))
            .or_else(|| family().next())
            .map(|(ours, _)| *ours)
    }
}

fn is_link_local(ip: &Addr) -> bool {
    !ip.is_v4() && ip.0[0] == 0xfe && ip.0[1] & 0xc0 == 0x80
}

impl Routes {
    /// Checks the settings of all interfaces.
    pub fn new(config: &Config) -> Result<Self, ConfigError> {
        let links = config.interfaces.iter().map(Link::new);
        let links: Vec<Link> = links.collect::<Result<_, _>>()?;
        for (n, link) in links.iter().enumerate() {
            let before = &links[..n];
            let mut addresses = link.addresses.iter();
            let duplicate = addresses.find(|(ip, _)| before.iter().any(|other| other.is_ours(ip)));
            if let Some((ip, _)) = duplicate {
                return Err(ConfigError::Twice(ip.ip()));
            }
        }
        Ok(Self { links })
    }

    fn link(&self, interface: InterfaceId) -> &Link {
        &self.links[usize::from(interface.0)]
    }

    fn numbered(&self) -> impl Iterator<Item = (InterfaceId, &Link)> {
        (0..).map(InterfaceId).zip(&self.links)
    }

    /// Interface of a local address.
    #[inline]
    pub fn interface_of(&self, ours: &Addr) -> InterfaceId {
        if self.links.len() == 1 {
            return InterfaceId(0);
        }
        let found = self.numbered().find(|(_, link)| link.is_ours(ours));
        found.map_or(InterfaceId(0), |(id, _)| id)
    }

    /// Interface and addresses of a frame to a station on the interface's link.
    #[inline]
    pub fn reply_route(&self, interface: InterfaceId, to: MacAddress) -> ReplyRoute {
        ReplyRoute {
            interface,
            to,
            from: self.mac(interface),
        }
    }

    #[inline]
    pub fn mac(&self, interface: InterfaceId) -> MacAddress {
        self.link(interface).mac
    }

    /// MTU of the interface of a local address.
    #[inline]
    pub fn mtu_bytes(&self, ours: &Addr) -> u32 {
        self.packets(ours).0
    }

    /// MTU of the interface of a local address, and whether a packet from it may hold several
    /// segments.
    #[inline]
    pub fn packets(&self, ours: &Addr) -> (u32, bool) {
        let link = self.link(self.interface_of(ours));
        (link.mtu_bytes, link.segmentation)
    }

    /// Whether the interface exists.
    pub fn has(&self, interface: InterfaceId) -> bool {
        usize::from(interface.0) < self.links.len()
    }

    pub fn is_ours(&self, ip: &Addr) -> bool {
        self.links.iter().any(|link| link.is_ours(ip))
    }

    /// Whether an address belongs to this interface.
    pub fn is_ours_at(&self, interface: InterfaceId, ip: &Addr) -> bool {
        self.link(interface).is_ours(ip)
    }

    /// Whether there is an address of a family.
    pub fn has_family(&self, v4: bool) -> bool {
        self.links.iter().any(|link| link.has_family(v4))
    }

    /// Whether this interface has joined an IPv6 group: that of all hosts, or the solicited-node
    /// group of one of its addresses (RFC 4291, 2.8).
    pub fn is_our_group(&self, interface: InterfaceId, group: &Addr) -> bool {
        let mut ours = (self.link(interface).addresses.iter()).filter(|(ip, _)| !ip.is_v4());
        group.is_multicast()
            && ours.any(|(ip, _)| *group == Addr::ALL_NODES || ip.solicited_node() == *group)
    }

    /// Whether an address is on the link of this interface.
    pub fn is_on_link(&self, interface: InterfaceId, ip: &Addr) -> bool {
        self.link(interface).has(ip)
    }

    /// Whether the address is the broadcast or network address of a local network (RFC 1122,
    /// 3.2.1.3), which is no valid source or destination.
    pub fn is_broadcast(&self, ip: &Addr) -> bool {
        let mut all = self.links.iter().flat_map(|link| &link.addresses);
        ip.is_v4()
            && all.any(|(ours, len)| {
                let host = (1u64 << (32 - u32::from(*len).min(32))) - 1;
                let bits = u64::from(u32::from_be_bytes(ip.octets4())) & host;
                ours.is_v4()
                    && *len < 31
                    && ours.same_prefix(ip, *len)
                    && (bits == 0 || bits == host)
            })
    }

    /// Next hop of a packet from the local address `local` to `remote`.
    pub fn next_hop(&self, local: &Addr, remote: &Addr) -> Option<Hop> {
        let interface = self.interface_of(local);
        let ip = self.link(interface).next_hop(remote)?;
        Some(Hop { interface, ip })
    }

    /// Source address for `remote`: that of the interface in whose network it is, or of the first
    /// that has a route to it.
    pub fn source_for(&self, remote: &Addr) -> Option<Addr> {
        let near = self.links.iter().find(|link| link.is_in_network(remote));
        let far = || {
            let mut all = self.links.iter();
            all.find(|link| link.has_family(remote.is_v4()) && link.next_hop(remote).is_some())
        };
        let link = near.or_else(far)?;
        link.source_for(remote, &link.next_hop(remote)?)
    }

    /// Source address for a question to a neighbour.
    pub fn source_at(&self, hop: &Hop) -> Option<Addr> {
        self.link(hop.interface).source_for(&hop.ip, &hop.ip)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn interface(n: u8, addresses: &[(&str, u8)], gateways: &[&str]) -> Interface {
        let address = |(text, prefix_len): &(&str, u8)| crate::api::InterfaceAddress {
            ip: ip(text),
            prefix_len: *prefix_len,
        };
        Interface {
            gateways: gateways.iter().map(|text| ip(text)).collect(),
            ..Interface::new(
                MacAddress([2, 0, 0, 0, 0, n]),
                addresses.iter().map(address).collect(),
            )
        }
    }

    fn routes(interfaces: Vec<Interface>) -> Result<Routes, ConfigError> {
        let mut config = Config::new(MacAddress([2; 6]), Vec::new(), [0; 16]);
        config.interfaces = interfaces;
        Routes::new(&config)
    }

    fn two() -> Routes {
        let (near, far) = ([("10.0.0.9", 24), ("fe80::9", 64)], [("10.1.0.9", 16)]);
        routes(vec![
            interface(1, &near, &[]),
            interface(2, &far, &["10.1.0.1"]),
        ])
        .expect("they fit")
    }

    /// Promise 61.
    #[test]
    fn a_local_address_selects_interface_and_next_hop() {
        let routes = two();
        let hop = |local: &str, remote: &str| {
            let hop = routes.next_hop(&Addr::from(ip(local)), &Addr::from(ip(remote)));
            hop.map(|hop| (hop.interface.0, hop.ip.ip()))
        };
        assert_eq!(hop("10.0.0.9", "10.0.0.7"), Some((0, ip("10.0.0.7"))));
        assert_eq!(hop("10.1.0.9", "10.1.2.3"), Some((1, ip("10.1.2.3"))));
        assert_eq!(hop("10.1.0.9", "10.0.0.7"), Some((1, ip("10.1.0.1"))));
        assert_eq!(hop("10.0.0.9", "10.1.2.3"), None, "it has no gateway");
        assert_eq!(hop("fe80::9", "fe80::7"), Some((0, ip("fe80::7"))));
    }

    #[test]
    fn the_source_address_is_on_link_or_beside_the_gateway() {
        let routes = two();
        let source = |remote: &str| routes.source_for(&Addr::from(ip(remote))).map(|a| a.ip());
        assert_eq!(source("10.0.0.7"), Some(ip("10.0.0.9")));
        assert_eq!(source("10.1.2.3"), Some(ip("10.1.0.9")));
        assert_eq!(source("192.0.2.1"), Some(ip("10.1.0.9")));
        assert_eq!(source("fe80::7"), Some(ip("fe80::9")));
        assert_eq!(source("2001:db8::1"), None);
    }

    #[test]
    fn an_address_of_two_interfaces_is_refused() {
        let twice = || [("10.0.0.9", 24)];
        let refused = routes(vec![
            interface(1, &twice(), &[]),
            interface(2, &twice(), &[]),
        ]);
        assert_eq!(
            refused.err(),
            Some(ConfigError::Twice(ip("10.0.0.9"))),
            "named"
        );
        let foreign = routes(vec![
            interface(1, &[("10.0.0.9", 24)], &["10.1.0.1"]),
            interface(2, &[("10.1.0.9", 24)], &[]),
        ]);
        assert_eq!(foreign.err(), Some(ConfigError::Gateway(ip("10.1.0.1"))));
    }
}
