//! Two interfaces: each with its own station, networks and neighbours.

use crate::support::config;
use crate::support::node::Node;
use crate::support::segment::{Segment, flags};
use crate::{MACS, NOW, count, node};
use cofferdam_netstack::*;
use std::net::{IpAddr, SocketAddr};

const FIRST: InterfaceId = InterfaceId(0);
const SECOND: InterfaceId = InterfaceId(1);
/// The station of the second interface, and a host's on its link.
const OWN: [u8; 6] = [2, 0, 0, 0, 1, 1];
const HOST: [u8; 6] = [2, 0, 0, 0, 1, 7];

fn at(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

/// Node 0 with a second interface: 10.1.0.1/24 with a gateway, and packets of 1,000 bytes.
fn two() -> Node {
    let mut config = config(0);
    let second = InterfaceAddress {
        ip: IpAddr::from([10, 1, 0, 1]),
        prefix_len: 24,
    };
    config.interfaces.push(Interface {
        mtu_bytes: 1000,
        gateways: vec![IpAddr::from([10, 1, 0, 254])],
        ..Interface::new(MacAddress(OWN), vec![second])
    });
    Node::new(config, NOW)
}

/// An ARP message: of `operation`, from a host with `ip` to the address `target` of ours.
fn arp(macs: [[u8; 6]; 2], operation: u8, ip: [u8; 4], target: [u8; 4]) -> Vec<u8> {
    let mut frame = [macs[1], macs[0]].concat();
    frame.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, operation]);
    frame.extend(macs[0]);
    frame.extend(ip);
    frame.extend(macs[1]);
    frame.extend(target);
    frame
}

/// A SYN to port 80 of `to`.
fn syn(macs: [[u8; 6]; 2], from: [u8; 4], to: [u8; 4]) -> Vec<u8> {
    let segment = Segment {
        from: 4000,
        to: 80,
        flags: flags("S"),
        window: 1000,
        ..Segment::default()
    };
    segment.write(macs, from.into(), to.into())
}

/// Promise 61.
#[test]
fn what_is_sent_from_an_address_leaves_by_its_interface_with_its_station_and_size() {
    let mut node = two();
    node.stack.listen(at("0.0.0.0:80"), 4, 0).expect("free");
    let frames = [
        (
            FIRST,
            syn(MACS, [10, 0, 0, 2], [10, 0, 0, 1]),
            MACS,
            1460_u16,
        ),
        (
            SECOND,
            syn([HOST, OWN], [10, 1, 0, 7], [10, 1, 0, 1]),
            [HOST, OWN],
            960,
        ),
    ];
    for (interface, frame, [host, own], segment_bytes) in frames {
        node.receive_at(NOW, interface, &frame);
        // The way back is asked for; until it is known the answer goes where the SYN came from.
        let sent = std::iter::from_fn(|| node.transmit_by(NOW));
        let answer = sent.into_iter().find(|(_, frame)| frame[12..14] == [8, 0]);
        let (by, answer) = answer.expect("a SYN+ACK");
        assert_eq!(by, interface);
        assert_eq!((&answer[..6], &answer[6..12]), (&host[..], &own[..]));
        assert_eq!(
            answer[54..58],
            [2, 4, (segment_bytes >> 8) as u8, segment_bytes as u8]
        );
    }
}

/// Promise 61.
#[test]
fn an_address_is_not_taken_at_another_interface() {
    let mut node = two();
    node.stack.listen(at("0.0.0.0:80"), 4, 0).expect("free");
    // For the first's address at the second's station, and the other way round.
    node.receive_at(NOW, SECOND, &syn([HOST, OWN], [10, 0, 0, 2], [10, 0, 0, 1]));
    node.receive_at(NOW, FIRST, &syn(MACS, [10, 1, 0, 7], [10, 1, 0, 1]));
    // For the second's station at the first interface.
    node.receive_at(NOW, FIRST, &syn([HOST, OWN], [10, 1, 0, 7], [10, 1, 0, 1]));
    // Who asks for an address on the wrong link gets no answer.
    node.receive_at(
        NOW,
        SECOND,
        &arp([HOST, OWN], 1, [10, 1, 0, 7], [10, 0, 0, 1]),
    );
    // At an interface that there is not.
    node.receive_at(
        NOW,
        InterfaceId(2),
        &syn(MACS, [10, 0, 0, 2], [10, 0, 0, 1]),
    );
    assert_eq!(
        (node.transmit(NOW), count(&node, "frames_not_ours")),
        (None, 5)
    );
    assert_eq!(node.stack.usage().neighbours, 0);
}

/// A host of one network says that it has an address of the other's: whoever believed it would send there.
/// Promise 61.
#[test]
fn no_host_speaks_for_one_of_another_network() {
    let mut node = two();
    node.stack
        .connect(NOW, None, at("10.0.0.2:80"), 1)
        .expect("room");
    let (by, question) = node.transmit_by(NOW).expect("a question");
    assert_eq!(
        (by, &question[12..14], &question[38..42]),
        (FIRST, &[8, 6][..], &[10, 0, 0, 2][..])
    );
    // The lie: for an address that is asked for, but on the other link.
    let lie = arp([HOST, OWN], 2, [10, 0, 0, 2], [10, 1, 0, 1]);
    node.receive_at(NOW, SECOND, &lie);
    assert_eq!((node.transmit(NOW), count(&node, "spoofed")), (None, 1));
    node.receive_at(NOW, FIRST, &arp(MACS, 2, [10, 0, 0, 2], [10, 0, 0, 1]));
    let (by, first) = node.transmit_by(NOW).expect("a SYN");
    assert_eq!((by, &first[..6]), (FIRST, &MACS[0][..]));
}

/// Promise 61.
#[test]
fn other_networks_are_reached_by_the_interface_that_has_a_gateway() {
    let mut node = two();
    node.stack
        .connect(NOW, None, at("192.0.2.1:80"), 1)
        .expect("a way");
    let (by, question) = node.transmit_by(NOW).expect("a question");
    let (sender, target) = (&question[28..32], &question[38..42]);
    assert_eq!(
        (by, sender, target),
        (SECOND, &[10, 1, 0, 1][..], &[10, 1, 0, 254][..])
    );
    // Not from the other's address, which has none: it ends, as without any way.
    let local = Some(at("10.0.0.1:0"));
    node.stack
        .connect(NOW, local, at("192.0.2.1:80"), 2)
        .expect("taken");
    assert_eq!(node.transmit(NOW), None);
    let ended = matches!(node.event(), Some(Event::Dead { cookie: 2, .. }));
    assert!(ended);
    // Datagrams likewise, and no longer than the interface takes.
    let udp = node.stack.udp_bind(at("0.0.0.0:53"), 0).expect("free");
    let data = node.memory.data(&[0; 980]);
    let sent = node
        .stack
        .udp_sendv(NOW, udp, None, at("10.1.0.7:1"), &[data], 4);
    assert!(
        matches!(sent, Err(UdpSendError::TooLong { most: 972, .. })),
        "{sent:?}"
    );
    node.stack
        .udp_sendv(NOW, udp, None, at("10.0.0.2:1"), &[data], 4)
        .expect("it fits there");
}

/// An IPv4 broadcast of one network is no address to connect to from the other either.
#[test]
fn settings_of_two_interfaces_are_checked_together() {
    let mut config = config(0);
    config.interfaces.push(config.interfaces[0].clone());
    let twice = Stack::new(config, NOW).expect_err("the same address");
    assert_eq!(
        twice.to_string(),
        "two interfaces have the address 10.0.0.1"
    );
    drop(node());
}
