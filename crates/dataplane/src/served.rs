//! Addresses that a dataplane serves, and destinations of its applications' connections.

use std::net::IpAddr;

/// Facts of the network for an application that attaches.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ServedNetwork {
    /// Addresses of the dataplane, with the lengths of their networks' prefixes in bits.
    pub addresses: Vec<(IpAddr, u8)>,
    /// Next hops for packets to other networks.
    pub gateways: Vec<IpAddr>,
    /// Whether this application may open connections.
    pub connect: bool,
    /// Linux's name of the congestion control.
    pub congestion: String,
    /// Devices, each with some of the addresses.
    pub devices: Vec<ServedDevice>,
}

/// A device of a dataplane.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ServedDevice {
    /// Name in the dataplane's network namespace.
    pub name: String,
    /// Bytes of the largest IP packet.
    pub mtu_bytes: u32,
    /// Addresses of the dataplane on the device.
    pub addresses: Vec<IpAddr>,
}

impl ServedNetwork {
    /// Whether the dataplane has the address.
    pub fn is_own(&self, ip: IpAddr) -> bool {
        self.addresses.iter().any(|(own, _)| *own == ip)
    }

    /// Whether the dataplane opens connections to this address: it is in one of its networks, or
    /// there is a gateway.
    pub fn reaches(&self, remote: IpAddr) -> bool {
        if remote.is_loopback() || remote.is_unspecified() || remote.is_multicast() {
            return false;
        }
        let is_near = |(own, len): &(IpAddr, u8)| is_same_network(*own, remote, *len);
        self.addresses.iter().any(is_near)
            || (self.gateways.iter()).any(|gateway| gateway.is_ipv4() == remote.is_ipv4())
    }

    /// Whether the address is the broadcast address of one of the dataplane's networks.
    pub fn is_broadcast(&self, remote: IpAddr) -> bool {
        let IpAddr::V4(v4) = remote else {
            return false;
        };
        let is_theirs = |(own, len): &(IpAddr, u8)| {
            let host = u32::MAX.checked_shr(u32::from(*len)).unwrap_or(0);
            *len < 31 && is_same_network(*own, remote, *len) && v4.to_bits() & host == host
        };
        v4.is_broadcast() || self.addresses.iter().any(is_theirs)
    }

    /// Device that has an address of the dataplane.
    pub fn device_of(&self, own: IpAddr) -> Option<&ServedDevice> {
        let mut devices = self.devices.iter();
        devices.find(|device| device.addresses.contains(&own))
    }

    /// Bytes of the largest datagram in one packet to `remote`, from the address `own` or, without
    /// one, from the address that reaches it.
    pub fn most_datagram_bytes(&self, own: Option<IpAddr>, remote: IpAddr) -> usize {
        let headers = if remote.is_ipv4() { 20 + 8 } else { 40 + 8 };
        let own = own.or_else(|| self.local_for(remote));
        let device = own.and_then(|own| self.device_of(own));
        let mtu_bytes = device.map_or(0, |device| device.mtu_bytes as usize);
        mtu_bytes.saturating_sub(headers)
    }

    /// Address of the dataplane that reaches `remote`: the one of the same network, of a gateway's
    /// network, or the first of the family.
    pub fn local_for(&self, remote: IpAddr) -> Option<IpAddr> {
        let family = || {
            let all = self.addresses.iter();
            all.filter(|(own, _)| own.is_ipv4() == remote.is_ipv4())
        };
        let in_network_of =
            |ip: IpAddr| family().find(|(own, len)| is_same_network(*own, ip, *len));
        let mut gateways = self.gateways.iter();
        in_network_of(remote)
            .or_else(|| gateways.find_map(|gateway| in_network_of(*gateway)))
            .or_else(|| family().next())
            .map(|(own, _)| *own)
    }
}

fn is_same_network(one: IpAddr, other: IpAddr, prefix_len: u8) -> bool {
    let (one, other, bits) = match (one, other) {
        (IpAddr::V4(one), IpAddr::V4(other)) => {
            (u128::from(one.to_bits()), u128::from(other.to_bits()), 32)
        }
        (IpAddr::V6(one), IpAddr::V6(other)) => (one.to_bits(), other.to_bits(), 128),
        _ => return false,
    };
    let host = bits - u32::from(prefix_len).min(bits);
    (one ^ other).checked_shr(host).unwrap_or(0) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn networks_and_gateways_say_what_is_served() {
        let mut served = ServedNetwork {
            addresses: vec![(ip("10.0.0.9"), 24), (ip("fd00::9"), 64)],
            gateways: Vec::new(),
            connect: true,
            ..ServedNetwork::default()
        };
        assert!(served.is_own(ip("10.0.0.9")) && !served.is_own(ip("10.0.0.1")));
        for (remote, is_reached) in [
            ("10.0.0.200", true),
            ("10.0.1.1", false),
            ("fd00::1", true),
            ("fd00:0:0:1::1", false),
            ("127.0.0.1", false),
            ("::1", false),
            ("0.0.0.0", false),
        ] {
            assert_eq!(served.reaches(ip(remote)), is_reached, "{remote}");
        }
        served.gateways.push(ip("10.0.0.1"));
        assert!(served.reaches(ip("8.8.8.8")), "there is a way");
        assert!(
            !served.reaches(ip("2001:db8::1")),
            "but not for this family"
        );
        assert!(!served.reaches(ip("127.0.0.1")));
        for (remote, is_broadcast) in [
            ("10.0.0.255", true),
            ("255.255.255.255", true),
            ("10.0.0.254", false),
            ("10.0.1.255", false),
            ("fd00::ffff:ffff:ffff:ffff", false),
        ] {
            assert_eq!(served.is_broadcast(ip(remote)), is_broadcast, "{remote}");
        }
        let device = |name: &str, mtu_bytes, addresses: &[&str]| ServedDevice {
            name: name.to_owned(),
            mtu_bytes,
            addresses: addresses.iter().map(|text| ip(text)).collect(),
        };
        served.devices = vec![
            device("eth0", 1500, &["10.0.0.9", "fd00::9"]),
            device("eth1", 9000, &["10.1.0.9"]),
        ];
        assert_eq!(served.most_datagram_bytes(None, ip("10.0.0.1")), 1472);
        assert_eq!(served.most_datagram_bytes(None, ip("fd00::1")), 1452);
        let own = Some(ip("10.1.0.9"));
        assert_eq!(served.most_datagram_bytes(own, ip("10.0.0.1")), 8972);
        assert_eq!(served.local_for(ip("9.9.9.9")), Some(ip("10.0.0.9")));
        assert_eq!(served.local_for(ip("fd00::7")), Some(ip("fd00::9")));
        // A second device has the only gateway.
        served.addresses.insert(0, (ip("10.1.0.9"), 24));
        assert_eq!(served.local_for(ip("9.9.9.9")), Some(ip("10.0.0.9")));
        assert_eq!(served.local_for(ip("10.1.0.1")), Some(ip("10.1.0.9")));
    }

    #[test]
    fn any_prefix_length_is_compared() {
        assert!(is_same_network(ip("1.2.3.4"), ip("9.9.9.9"), 0));
        assert!(!is_same_network(ip("1.2.3.4"), ip("1.2.3.5"), 32));
        assert!(is_same_network(ip("::1"), ip("ff::"), 0));
        assert!(!is_same_network(ip("1.2.3.4"), ip("1.2.3.5"), 255));
    }
}
