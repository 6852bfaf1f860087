//! IPv6 extension headers and the errors about them (RFC 8200, 4; RFC 4443, 3.4).

use crate::support::node::Node;
use crate::support::segment::{checksum, frame};
use crate::support::{at, ip};
use crate::{MACS, NOW, count, datagram, node};
use cofferdam_netstack::*;
use std::net::IpAddr;

const HOP_BY_HOP: u8 = 0;
const UDP: u8 = 17;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const ICMPV6: u8 = 58;
const NO_NEXT: u8 = 59;
const OPTIONS: u8 = 60;
const UNKNOWN: u8 = 150;

/// Type, code, pointer and quoted packet of an ICMPv6 error.
type Error = (u8, u8, u32, Vec<u8>);

/// Payload of a packet with headers of these kinds, each without its first byte, followed by `data`
/// of protocol `last`. Returns the protocol of the first header too.
fn chain(headers: &[(u8, Vec<u8>)], last: u8, data: &[u8]) -> (u8, Vec<u8>) {
    let kinds: Vec<u8> = headers
        .iter()
        .map(|header| header.0)
        .chain([last])
        .collect();
    let mut payload = Vec::new();
    for (index, (_, rest)) in headers.iter().enumerate() {
        payload.push(kinds[index + 1]);
        payload.extend(rest);
    }
    payload.extend(data);
    (kinds[0], payload)
}

/// Header of 8 bytes with one option of this kind.
fn option(kind: u8) -> Vec<u8> {
    vec![0, kind, 4, 0, 0, 0, 0]
}

fn routing(kind: u8, segments_left: u8) -> Vec<u8> {
    vec![0, kind, segments_left, 0, 0, 0, 0]
}

fn fragment(offset: u16, more: bool, id: u8) -> Vec<u8> {
    let word = (offset | u16::from(more)).to_be_bytes();
    vec![0, word[0], word[1], 0, 0, 0, id]
}

/// Payload of a packet with a datagram to port 53.
fn udp() -> Vec<u8> {
    datagram(true, 53, b"hello")[54..].to_vec()
}

/// ICMPv6 message of a kind.
fn icmp(kind: u8, to: IpAddr) -> Vec<u8> {
    let mut message = vec![kind, 0, 0, 0, 0, 7, 0, 1, 1, 2, 3, 4];
    let sum = checksum(ip(1, true), to, 58, &message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    message
}

fn udp_node() -> Node {
    let mut node = node();
    node.stack.udp_bind(at(0, true, 53), 0).expect("free");
    node
}

/// Answer of the node, which must be an ICMPv6 message with a correct checksum.
fn answer(node: &mut Node, from: IpAddr) -> Option<Error> {
    let frame = node.transmit(NOW)?;
    assert_eq!((frame[20], &frame[..6]), (ICMPV6, &MACS[0][..]));
    assert_eq!(checksum(from, ip(1, true), 58, &frame[54..]), 0);
    let pointer = u32::from_be_bytes([frame[58], frame[59], frame[60], frame[61]]);
    Some((frame[54], frame[55], pointer, frame[62..].to_vec()))
}

/// Each packet has the code and pointer of the parameter problem that answers it, if there is one,
/// and whether its datagram is delivered.
/// Promise 61.
#[test]
fn each_invalid_header_is_answered_as_its_rfc_requires() {
    let to = ip(0, true);
    let two = |first: Vec<u8>, second: Vec<u8>| vec![(OPTIONS, first), (OPTIONS, second)];
    let behind_padding = vec![0, 0, 0x87, 3, 0, 0, 0];
    let table = [
        // RFC 8200, 4.2: the two highest bits of an option's kind decide.
        (
            "option 00",
            chain(&[(OPTIONS, option(0x07))], UDP, &udp()),
            None,
            true,
        ),
        (
            "option 01",
            chain(&[(OPTIONS, option(0x47))], UDP, &udp()),
            None,
            false,
        ),
        (
            "option 10",
            chain(&[(OPTIONS, option(0x87))], UDP, &udp()),
            Some((2, 42)),
            false,
        ),
        (
            "option 11",
            chain(&[(OPTIONS, option(0xc7))], UDP, &udp()),
            Some((2, 42)),
            false,
        ),
        (
            "hop by hop",
            chain(&[(HOP_BY_HOP, option(0x87))], UDP, &udp()),
            Some((2, 42)),
            false,
        ),
        (
            "behind padding",
            chain(&[(OPTIONS, behind_padding)], UDP, &udp()),
            Some((2, 43)),
            false,
        ),
        (
            "second header",
            chain(&two(option(1), option(0xc7)), UDP, &udp()),
            Some((2, 50)),
            false,
        ),
        // RFC 8200, 4.4; RFC 5095: a routing header without segments left is ignored.
        (
            "routing, done",
            chain(&[(ROUTING, routing(0, 0))], UDP, &udp()),
            None,
            true,
        ),
        (
            "routing 0",
            chain(&[(ROUTING, routing(0, 1))], UDP, &udp()),
            Some((0, 42)),
            false,
        ),
        (
            "routing 33",
            chain(&[(ROUTING, routing(33, 2))], UDP, &udp()),
            Some((0, 42)),
            false,
        ),
        // RFC 8200, 4: an unknown next header, and one that is allowed only in the first place.
        ("unknown", chain(&[], UNKNOWN, &[0; 8]), Some((1, 6)), false),
        (
            "unknown later",
            chain(&[(OPTIONS, option(1))], UNKNOWN, &[0; 8]),
            Some((1, 40)),
            false,
        ),
        (
            "hop by hop later",
            chain(
                &[(OPTIONS, option(1)), (HOP_BY_HOP, option(1))],
                UDP,
                &udp(),
            ),
            Some((1, 40)),
            false,
        ),
        // RFC 8200, 4.7: after "no next header" the rest is ignored.
        ("none", chain(&[], NO_NEXT, &[]), None, false),
        (
            "none, with bytes",
            chain(&[], NO_NEXT, &[6; 20]),
            None,
            false,
        ),
        (
            "none later",
            chain(&[(OPTIONS, option(1))], NO_NEXT, &[6; 20]),
            None,
            false,
        ),
        // RFC 8200, 4.5: fragments.
        (
            "odd fragment",
            chain(&[(FRAGMENT, fragment(0, true, 1))], UDP, &udp()),
            Some((0, 4)),
            false,
        ),
        (
            "beyond 65,535",
            chain(&[(FRAGMENT, fragment(65_528, false, 2))], UDP, &[0; 8]),
            Some((0, 42)),
            false,
        ),
        (
            "first without UDP",
            chain(
                &[(FRAGMENT, fragment(0, true, 3)), (OPTIONS, option(1))],
                UDP,
                &[],
            ),
            Some((3, 0)),
            false,
        ),
        (
            "first with half of TCP",
            chain(&[(FRAGMENT, fragment(0, true, 4))], 6, &[0; 16]),
            Some((3, 0)),
            false,
        ),
        // RFC 4443, 2.4 e.1: an error is not answered with an error.
        (
            "an error",
            chain(&[(OPTIONS, option(0x87))], ICMPV6, &icmp(1, to)),
            None,
            false,
        ),
        (
            "an echo",
            chain(&[(OPTIONS, option(0x87))], ICMPV6, &icmp(128, to)),
            Some((2, 42)),
            false,
        ),
    ];
    for (name, (first, payload), problem, is_taken) in table {
        let mut node = udp_node();
        let packet = frame(MACS, ip(1, true), to, first, &payload);
        node.receive(NOW, &packet);
        let expected = problem.map(|(code, at)| (4, code, at, packet[14..].to_vec()));
        assert_eq!(answer(&mut node, to), expected, "{name}");
        let datagram = node.event();
        assert_eq!(datagram.is_some(), is_taken, "{name}");
        if let Some(Event::UdpRecv { chunk, .. }) = datagram {
            assert_eq!(node.memory.read(chunk), b"hello", "{name}");
        } else {
            assert_eq!(node.memory.in_stack(), 0, "{name}");
        }
    }
}

/// RFC 8200, 4.2; RFC 4443, 2.4 e: of the packets to a group, only one with an option of kind 10 is
/// answered, from a unicast address. A packet without a source address is never answered.
/// Promise 61.
#[test]
fn multicast_and_unspecified_sources_get_only_the_permitted_answers() {
    let all: IpAddr = "ff02::1".parse().expect("a group");
    let solicited: IpAddr = "ff02::1:ff00:1".parse().expect("a group");
    let foreign: IpAddr = "ff02::1:ff00:9".parse().expect("a group");
    let nobody: IpAddr = "::".parse().expect("an address");
    let option_10 = |to| chain(&[(OPTIONS, option(0x87))], ICMPV6, &icmp(128, to));
    let option_11 = |to| chain(&[(OPTIONS, option(0xc7))], ICMPV6, &icmp(128, to));
    let table = [
        ("10 to all", all, ip(1, true), option_10(all), true),
        (
            "10 to a solicited group",
            solicited,
            ip(1, true),
            option_10(solicited),
            true,
        ),
        (
            "10 to a foreign group",
            foreign,
            ip(1, true),
            option_10(foreign),
            false,
        ),
        ("10 from nobody", all, nobody, option_10(all), false),
        ("11 to all", all, ip(1, true), option_11(all), false),
        (
            "unknown to all",
            all,
            ip(1, true),
            chain(&[], UNKNOWN, &[0; 8]),
            false,
        ),
        (
            "routing to all",
            all,
            ip(1, true),
            chain(&[(ROUTING, routing(0, 1))], UDP, &udp()),
            false,
        ),
        (
            "a datagram to all",
            all,
            ip(1, true),
            chain(&[], UDP, &udp()),
            false,
        ),
        (
            "an echo to all",
            all,
            ip(1, true),
            chain(&[], ICMPV6, &icmp(128, all)),
            false,
        ),
    ];
    for (name, to, from, (first, payload), is_answered) in table {
        // The station may be the group's or the node's; the packet is for a group in both cases.
        for station in [[0x33, 0x33, 0, 0, 0, 1], MACS[1]] {
            let mut node = udp_node();
            let packet = frame([MACS[0], station], from, to, first, &payload);
            node.receive(NOW, &packet);
            let problem = answer(&mut node, ip(0, true));
            let expected = is_answered.then(|| (4, 2, 42, packet[14..].to_vec()));
            assert_eq!((problem, node.event()), (expected, None), "{name}");
            assert_eq!(node.memory.in_stack(), 0, "{name}");
        }
    }
}

/// RFC 8200, 4.5: headers behind a fragment header are processed after reassembly by the same
/// rules.
/// Promise 61.
#[test]
fn headers_behind_a_fragment_header_are_read() {
    let table = [
        (
            "option 00",
            chain(&[(OPTIONS, option(0x07))], UDP, &udp()),
            None,
            true,
        ),
        (
            "two headers",
            chain(
                &[(OPTIONS, option(1)), (ROUTING, routing(0, 0))],
                UDP,
                &udp(),
            ),
            None,
            true,
        ),
        (
            "option 01",
            chain(&[(OPTIONS, option(0x47))], UDP, &udp()),
            None,
            false,
        ),
        (
            "option 10",
            chain(&[(OPTIONS, option(0x87))], UDP, &udp()),
            Some((2, 42)),
            false,
        ),
        (
            "routing",
            chain(&[(ROUTING, routing(4, 1))], UDP, &udp()),
            Some((0, 42)),
            false,
        ),
        (
            "hop by hop",
            chain(&[(HOP_BY_HOP, option(1))], UDP, &udp()),
            Some((1, 6)),
            false,
        ),
        (
            "unknown",
            chain(&[(OPTIONS, option(1))], UNKNOWN, &[0; 24]),
            Some((1, 40)),
            false,
        ),
        (
            "none",
            chain(&[(OPTIONS, option(1))], NO_NEXT, &[0; 24]),
            None,
            false,
        ),
    ];
    for (name, (first, payload), problem, is_taken) in table {
        let mut node = udp_node();
        // The first fragment contains all headers.
        let cut = payload.len() / 8 * 8 - if payload.len() % 8 == 0 { 8 } else { 0 };
        for (start, end) in [(0, cut), (cut, payload.len())] {
            let head = fragment(start as u16, end < payload.len(), 9);
            let mut piece = vec![first];
            piece.extend(head);
            piece.extend(&payload[start..end]);
            node.receive(
                NOW,
                &frame(MACS, ip(1, true), ip(0, true), FRAGMENT, &piece),
            );
        }
        let whole = frame(MACS, ip(1, true), ip(0, true), first, &payload);
        let expected = problem.map(|(code, at)| (4, code, at, whole[14..].to_vec()));
        assert_eq!(answer(&mut node, ip(0, true)), expected, "{name}");
        let datagram = node.event();
        assert_eq!(datagram.is_some(), is_taken, "{name}");
        if let Some(Event::UdpRecv { chunk, .. }) = datagram {
            assert_eq!(node.memory.read(chunk), b"hello", "{name}");
        } else {
            assert_eq!(node.memory.in_stack(), 0, "{name}");
        }
    }
}

/// RFC 4443, 2.4 f: parameter problems are rate-limited like other errors.
/// Promise 61.
#[test]
fn parameter_problems_are_limited() {
    let mut node = udp_node();
    let packet = frame(MACS, ip(1, true), ip(0, true), UNKNOWN, &[0; 8]);
    for _ in 0..500 {
        node.receive(NOW, &packet);
    }
    let sent = std::iter::from_fn(|| node.transmit(NOW)).count();
    assert_eq!((sent, node.memory.in_stack()), (100, 0));
    assert_eq!(count(&node, "icmp_errors_sent"), 100);
}
