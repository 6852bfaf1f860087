//! Round trips and hostile bytes.

use super::address::Addr;
use super::*;
use proptest::prelude::*;

/// Promise 61.
#[test]
fn the_checksum_is_that_of_rfc_1071() {
    assert_eq!(
        checksum::sum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]),
        0xddf2
    );
    assert_eq!(checksum::sum(&[0xff]), 0xff00);
    assert_eq!(checksum::sum(&[]), 0);
}

proptest! {
    /// Comparison with the definition, 16 bits at a time.
    /// Promise 61.
    #[test]
    fn the_checksum_sums_words(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut total = 0u32;
        for pair in bytes.chunks(2) {
            total += u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0));
            total = (total & 0xffff) + (total >> 16);
        }
        prop_assert_eq!(checksum::sum(&bytes), total as u16);
    }

    #[test]
    fn tcp_headers_come_back_as_written(
        ports in any::<(u16, u16)>(), numbers in any::<(u32, u32)>(), flags in any::<u8>(),
        window in any::<u16>(), mss in any::<Option<u16>>(), scale in prop::option::of(0u8..=14),
        sack_permitted in any::<bool>(), timestamps in any::<Option<(u32, u32)>>(),
        ranges in prop::collection::vec(any::<(u32, u32)>(), 0..=2),
    ) {
        let mut options = tcp::Options {
            mss, scale, sack_permitted, timestamps, ..Default::default()
        };
        options.sack_count = ranges.len() as u8;
        options.sack[..ranges.len()].copy_from_slice(&ranges);
        let len = 20 + options.len();
        prop_assume!(len <= 60);
        let header = tcp::Segment {
            source_port: ports.0, destination_port: ports.1, seq: numbers.0, ack: numbers.1, flags,
            window, urgent: window ^ 5, header_len: len, options,
        };
        let mut out = [0xaa; 64];
        prop_assert_eq!(tcp::write(&mut out, &header, 0), len);
        prop_assert_eq!(tcp::parse(&out[..len]), Some(header));
    }

    /// No input makes a parser panic or return a range beyond it.
    /// Promise 68.
    #[test]
    fn hostile_bytes_are_parsed_within_their_bounds(
        bytes in prop::collection::vec(any::<u8>(), 0..120),
    ) {
        let _ = (arp::parse(&bytes), icmp::parse(&bytes, true), icmp::parse(&bytes, false));
        let _ = (ndp::parse(&bytes), tcp::parse(&bytes));
        if let Some(udp) = udp::parse(&bytes) {
            prop_assert!(udp.len <= bytes.len());
        }
        let mut as_v4 = bytes.clone();
        let mut as_v6 = bytes.clone();
        if let (Some(v4), Some(v6)) = (as_v4.first_mut(), as_v6.first_mut()) {
            (*v4, *v6) = (0x40 | (*v4 & 15), 0x60);
        }
        // The lengths fit: with random ones the parsers would reject almost every packet at once.
        for packet in [&mut as_v4, &mut as_v6] {
            if packet.len() > 41 {
                let (v4, v6) = (packet.len() as u16, packet.len() as u16 - 40);
                let at = if packet[0] >> 4 == 4 { 2 } else { 4 };
                let len = if at == 2 { v4 } else { v6 };
                packet[at..at + 2].copy_from_slice(&len.to_be_bytes());
                let next_headers = [0, 43, 44, 60];
                if at == 4 {
                    packet[6] = next_headers[usize::from(packet[7]) % 4];
                }
            }
        }
        for packet in [ipv4::parse(&as_v4, true), ipv6::parse(&as_v6)].into_iter().flatten() {
            prop_assert!(packet.payload_at <= packet.end && packet.end <= bytes.len());
        }
    }
}

#[test]
fn an_invalid_tcp_option_ends_the_list() {
    let mut bytes = [0u8; 60];
    bytes[12] = 15 << 4;
    bytes[20..28].copy_from_slice(&[2, 4, 5, 180, 8, 200, 1, 1]);
    let options = tcp::parse(&bytes).unwrap().options;
    assert_eq!((options.mss, options.timestamps), (Some(1460), None));
    bytes[24..28].copy_from_slice(&[3, 3, 77, 9]);
    bytes[28] = 0;
    assert_eq!(
        tcp::parse(&bytes).unwrap().options.scale,
        Some(14),
        "RFC 7323, 2.3: at most 14"
    );
    assert_eq!(tcp::parse(&bytes[..59]), None, "cut");
}

#[test]
fn addresses_are_classified_by_family_network_and_kind() {
    let ip = |text: &str| Addr::from(text.parse::<std::net::IpAddr>().unwrap());
    assert!(ip("10.1.2.3").same_prefix(&ip("10.1.3.3"), 23));
    assert!(!ip("10.1.2.3").same_prefix(&ip("10.1.3.3"), 24));
    assert!(!ip("::").same_prefix(&ip("0.0.0.0"), 0));
    assert!(ip("fd00::1").same_prefix(&ip("fd00::ffff"), 64));
    for host in ["10.1.2.3", "fd00::1", "fe80::1"] {
        assert!(ip(host).is_unicast(), "{host}");
    }
    for none in [
        "0.0.0.0",
        "127.0.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "ff02::1",
        "0.1.2.3",
    ] {
        assert!(!ip(none).is_unicast(), "{none}");
    }
    assert_eq!(
        ip("fd00::12:3456").solicited_node(),
        ip("ff02::1:ff12:3456")
    );
}

/// Promise 61.
#[test]
fn a_long_chain_of_extension_headers_is_refused() {
    let chain = |headers: usize| {
        let mut packet = vec![0u8; 40 + 8 * headers + 8];
        packet[0] = 0x60;
        let len = (packet.len() as u16 - 40).to_be_bytes();
        packet[4..6].copy_from_slice(&len);
        packet[6] = 60;
        for header in 0..headers {
            packet[40 + 8 * header] = if header + 1 == headers { 17 } else { 60 };
        }
        ipv6::parse(&packet)
    };
    assert_eq!(chain(8).map(|packet| packet.payload_at), Ok(104));
    assert_eq!(chain(9).map(|_| ()), Err(packet::PacketError::Malformed));
}
