//! IP addresses of both families in one type.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// IPv4 or IPv6 address in 16 bytes, IPv4 as `::ffff:a.b.c.d` (RFC 4291, 2.5.5.2). The stack drops
/// received IPv6 packets with such an address, so the two families never mix.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct Addr(pub [u8; 16]);

const MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];

impl Addr {
    /// The multicast group of all IPv6 hosts on a link (RFC 4291, 2.7.1).
    pub const ALL_NODES: Self = Self([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);

    /// An IPv4 address.
    pub fn v4(bytes: [u8; 4]) -> Self {
        let mut all = [0; 16];
        all[..12].copy_from_slice(&MAPPED);
        all[12..].copy_from_slice(&bytes);
        Self(all)
    }

    /// The IPv4 address at offset `at`; the caller has checked the length.
    pub fn v4_at(bytes: &[u8], at: usize) -> Self {
        Self::v4(super::be32(bytes, at).to_be_bytes())
    }

    /// The IPv6 address at offset `at`; zero if `bytes` is too short.
    pub fn v6_at(bytes: &[u8], at: usize) -> Self {
        let mut all = [0; 16];
        if let Some(found) = bytes.get(at..at + 16) {
            all.copy_from_slice(found);
        }
        Self(all)
    }

    pub fn is_v4(&self) -> bool {
        u128::from_be_bytes(self.0) >> 32 == 0xffff
    }

    /// The four bytes of an IPv4 address.
    pub fn octets4(&self) -> [u8; 4] {
        [self.0[12], self.0[13], self.0[14], self.0[15]]
    }

    pub fn ip(&self) -> IpAddr {
        if self.is_v4() {
            IpAddr::V4(Ipv4Addr::from(self.octets4()))
        } else {
            IpAddr::V6(Ipv6Addr::from(self.0))
        }
    }

    /// Whether the address is `::` or `0.0.0.0`.
    pub fn is_unspecified(&self) -> bool {
        self.ip().is_unspecified()
    }

    /// Whether a single host may have the address: it is not unspecified, multicast, loopback,
    /// broadcast or reserved (RFC 1122, 3.2.1.3; RFC 4291, 2.7).
    pub fn is_unicast(&self) -> bool {
        match self.ip() {
            IpAddr::V4(ip) => {
                !(ip.is_unspecified()
                    || ip.is_loopback()
                    || ip.octets()[0] >= 224
                    || ip.octets()[0] == 0)
            }
            IpAddr::V6(ip) => !(ip.is_unspecified() || ip.is_loopback() || ip.is_multicast()),
        }
    }

    /// Whether the address is an IPv6 group (RFC 4291, 2.7). The stack joins no IPv4 group.
    pub fn is_multicast(&self) -> bool {
        self.0[0] == 0xff
    }

    /// Whether the addresses have the same family and the same first `bits`.
    pub fn same_prefix(&self, other: &Self, bits: u8) -> bool {
        let bits = if self.is_v4() {
            96 + u32::from(bits)
        } else {
            u32::from(bits)
        };
        if self.is_v4() != other.is_v4() {
            return false;
        }
        let differ = u128::from_be_bytes(self.0) ^ u128::from_be_bytes(other.0);
        differ.leading_zeros() >= bits
    }

    /// The multicast group for neighbour solicitations of this address (RFC 4291, 2.7.1).
    pub fn solicited_node(&self) -> Self {
        let mut all = [0; 16];
        all[..13].copy_from_slice(&[0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff]);
        all[13..].copy_from_slice(&self.0[13..]);
        Self(all)
    }
}

impl From<IpAddr> for Addr {
    fn from(ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(ip) => Self::v4(ip.octets()),
            IpAddr::V6(ip) => Self(ip.octets()),
        }
    }
}
