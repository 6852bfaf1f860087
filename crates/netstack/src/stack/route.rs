//! Our addresses, and where packets go next.

use crate::api::{Config, ConfigError};
use crate::wire::address::Addr;

/// Addresses with their prefixes, and a gateway a family.
#[derive(Debug, Clone)]
pub struct Routes {
    addresses: Vec<(Addr, u8)>,
    gateways: [Option<Addr>; 2],
}

impl Routes {
    /// Checks the settings.
    pub fn new(config: &Config) -> Result<Self, ConfigError> {
        let mut addresses = Vec::new();
        for address in &config.addresses {
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
        let mut routes = Self {
            addresses,
            gateways: [None; 2],
        };
        for gateway in &config.gateways {
            let ip = Addr::from(*gateway);
            if !ip.is_unicast() || !routes.is_on_link(&ip) {
                return Err(ConfigError::Gateway(*gateway));
            }
            routes.gateways[usize::from(ip.is_v4())].get_or_insert(ip);
        }
        Ok(routes)
    }

    pub fn is_ours(&self, ip: &Addr) -> bool {
        self.addresses.iter().any(|(ours, _)| ours == ip)
    }

    /// Whether there is an address of a family.
    pub fn has_family(&self, v4: bool) -> bool {
        self.addresses.iter().any(|(ours, _)| ours.is_v4() == v4)
    }

    /// Whether neighbour solicitations to this group are for one of our addresses.
    pub fn is_our_group(&self, group: &Addr) -> bool {
        self.addresses
            .iter()
            .any(|(ours, _)| !ours.is_v4() && ours.solicited_node() == *group)
    }

    fn is_link_local(ip: &Addr) -> bool {
        !ip.is_v4() && ip.0[0] == 0xfe && ip.0[1] & 0xc0 == 0x80
    }

    /// Whether an address is on our link.
    pub fn is_on_link(&self, ip: &Addr) -> bool {
        Self::is_link_local(ip)
            || self
                .addresses
                .iter()
                .any(|(ours, len)| ours.same_prefix(ip, *len))
    }

    /// Whether it is the broadcast or network address of a network of ours (RFC 1122, 3.2.1.3):
    /// no host sends from there, none connects to it.
    pub fn is_broadcast(&self, ip: &Addr) -> bool {
        ip.is_v4()
            && self.addresses.iter().any(|(ours, len)| {
                let host = (1u64 << (32 - u32::from(*len).min(32))) - 1;
                let bits = u64::from(u32::from_be_bytes(ip.octets4())) & host;
                ours.is_v4()
                    && *len < 31
                    && ours.same_prefix(ip, *len)
                    && (bits == 0 || bits == host)
            })
    }

    /// Where a packet to `remote` goes on the link.
    pub fn next_hop(&self, remote: &Addr) -> Option<Addr> {
        if self.is_on_link(remote) {
            Some(*remote)
        } else {
            self.gateways[usize::from(remote.is_v4())]
        }
    }

    /// The address of ours to talk to `remote` from: of its network, of the gateway's, or any
    /// that is not bound to the link.
    pub fn source_for(&self, remote: &Addr) -> Option<Addr> {
        let hop = self.next_hop(remote)?;
        let family = || {
            self.addresses
                .iter()
                .filter(|(ours, _)| ours.is_v4() == remote.is_v4())
        };
        family()
            .find(|(ours, len)| ours.same_prefix(&hop, *len))
            .or_else(|| {
                family().find(|(ours, _)| Self::is_link_local(ours) == Self::is_link_local(remote))
            })
            .or_else(|| family().next())
            .map(|(ours, _)| *ours)
    }
}
