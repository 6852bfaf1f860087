use super::*;
use proptest::prelude::*;

/// A frame of the socket: no GSO, Ethernet with `tags` VLAN tags, and `ip` after `ether_type`.
fn frame(tags: usize, ether_type: u16, ip: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; VNET_BYTES + 12];
    for _ in 0..tags {
        frame.extend([0x81, 0x00, 0x00, 0x05]);
    }
    frame.extend(ether_type.to_be_bytes());
    frame.extend(ip);
    frame
}

/// IPv4 with `options` words of options, `fragmentation`, protocol and what follows.
fn ipv4(options: u8, fragmentation: u16, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let mut ip = vec![0; 20 + usize::from(options) * 4];
    ip[0] = 0x45 + options;
    ip[6..8].copy_from_slice(&fragmentation.to_be_bytes());
    ip[9] = protocol;
    ip[12..16].copy_from_slice(&[10, 0, 0, 1]);
    ip[16..20].copy_from_slice(&[10, 0, 0, 2]);
    ip.extend(payload);
    ip
}

fn ipv6(next: u8, rest: &[u8]) -> Vec<u8> {
    let mut ip = vec![0x60, 0, 0, 0, 0, 0, next, 64];
    ip.extend(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1).octets());
    ip.extend(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2).octets());
    ip.extend(rest);
    ip
}

const PORTS: [u8; 4] = [0x1f, 0x90, 0x00, 0x35];

fn flow(frame: &[u8]) -> Option<Flow> {
    packet(frame, frame.len(), true).flow
}

#[test]
fn ipv4_with_options_and_vlan_tags() {
    for (tags, options) in [(0, 0), (1, 0), (2, 10)] {
        let found = flow(&frame(tags, IPV4, &ipv4(options, 0, 17, &PORTS))).unwrap();
        assert_eq!(
            (found.protocol, found.ports, found.fragment),
            (17, Some((8080, 53)), false)
        );
        assert_eq!(found.source, "10.0.0.1".parse::<IpAddr>().unwrap());
        assert_eq!(found.destination, "10.0.0.2".parse::<IpAddr>().unwrap());
    }
    let tags = frame(MOST_NESTED, IPV4, &ipv4(0, 0, 17, &PORTS));
    assert_eq!(flow(&tags), None);
}

#[test]
fn only_the_first_fragment_has_ports() {
    let first = flow(&frame(0, IPV4, &ipv4(0, 0x2000, 17, &PORTS))).unwrap();
    assert_eq!((first.ports, first.fragment), (Some((8080, 53)), true));
    let later = flow(&frame(0, IPV4, &ipv4(0, 0x00b9, 17, &PORTS))).unwrap();
    assert_eq!((later.ports, later.fragment), (None, true));
    // "Don't fragment" is no fragment.
    assert!(
        !flow(&frame(0, IPV4, &ipv4(0, 0x4000, 6, &PORTS)))
            .unwrap()
            .fragment
    );
    let fragment = |offset: u16, payload: &[u8]| {
        let mut header = vec![17, 0];
        header.extend(offset.to_be_bytes());
        header.extend([0; 4]);
        header.extend(payload);
        flow(&frame(0, IPV6, &ipv6(44, &header))).unwrap()
    };
    assert_eq!(
        (fragment(1, &PORTS).ports, fragment(1, &PORTS).fragment),
        (Some((8080, 53)), true)
    );
    assert_eq!(
        (
            fragment(0xb8, &PORTS).ports,
            fragment(0xb8, &PORTS).fragment
        ),
        (None, true)
    );
    assert_eq!(
        (fragment(0, &PORTS).ports, fragment(0, &PORTS).fragment),
        (Some((8080, 53)), false)
    );
}

#[test]
fn ipv6_extension_headers_are_passed_over() {
    let mut headers = vec![60, 0, 0, 0, 0, 0, 0, 0];
    headers.extend([6, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    headers.extend(PORTS);
    let found = flow(&frame(0, IPV6, &ipv6(0, &headers))).unwrap();
    assert_eq!((found.protocol, found.ports), (6, Some((8080, 53))));
    // Cut off among them, and a chain without end.
    let found = flow(&frame(0, IPV6, &ipv6(0, &[]))).unwrap();
    assert_eq!((found.protocol, found.ports), (0, None));
    let endless = [0_u8; 8].repeat(20);
    assert_eq!(
        flow(&frame(0, IPV6, &ipv6(0, &endless))).unwrap().ports,
        None
    );
}

#[test]
fn protocols_without_ports_and_frames_without_ip() {
    assert_eq!(
        flow(&frame(0, IPV4, &ipv4(0, 0, 1, &PORTS))).unwrap().ports,
        None
    );
    assert_eq!(flow(&frame(0, 0x0806, &[0; 28])), None);
    // A version that contradicts the frame, and a header shorter than a header.
    assert_eq!(flow(&frame(0, IPV6, &ipv4(0, 0, 17, &PORTS))), None);
    let mut short = ipv4(0, 0, 17, &PORTS);
    short[0] = 0x44;
    assert_eq!(flow(&frame(0, IPV4, &short)), None);
    // Without a link header, as on a tunnel device.
    let mut bare = vec![0; VNET_BYTES];
    bare.extend(ipv4(0, 0, 17, &PORTS));
    assert_eq!(
        packet(&bare, bare.len(), false).flow.unwrap().ports,
        Some((8080, 53))
    );
}

/// Promise 15.
#[test]
fn merged_packets_count_as_many() {
    let mut merged = frame(0, IPV4, &ipv4(0, 0, 6, &PORTS));
    merged[1] = 1;
    merged[2..4].copy_from_slice(&66_u16.to_ne_bytes());
    merged[4..6].copy_from_slice(&1448_u16.to_ne_bytes());
    let segments = |length| packet(&merged, length, true).segments;
    assert_eq!(segments(66 + 1448), 1);
    assert_eq!(segments(66 + 1448 * 40 + 1), 41);
    assert_eq!(segments(0), 1);
    assert_eq!(packet(&[], usize::MAX, true).segments, 1);
}

proptest! {
    /// Promise 68.
    #[test]
    fn no_bytes_panic(
        bytes in proptest::collection::vec(any::<u8>(), 0..256),
        length in any::<usize>(),
        ethernet in any::<bool>(),
    ) {
        prop_assert!(packet(&bytes, length, ethernet).segments >= 1);
    }

    /// Damage behind plausible headers.
    /// Promise 68.
    #[test]
    fn no_damage_panics(
        at in 0_usize..120,
        value in any::<u8>(),
        cut in 0_usize..120,
        six in any::<bool>(),
    ) {
        let ip = match six {
            true => ipv6(44, &[17, 0, 0, 1, 0, 0, 0, 0, 1, 2, 3, 4]),
            false => ipv4(3, 0x2000, 17, &PORTS),
        };
        let mut bytes = frame(1, if six { IPV6 } else { IPV4 }, &ip);
        if let Some(byte) = bytes.get_mut(at) { *byte = value; }
        bytes.truncate(cut);
        packet(&bytes, bytes.len(), true);
    }
}
