//! Two interfaces with their own Ethernet addresses, networks and neighbours.

use crate::support::config;
use crate::support::node::Node;
use crate::support::segment::{Segment, flags};
use crate::{MACS, NOW, count, node};
use cofferdam_netstack::*;
use std::net::{IpAddr, SocketAddr};

const FIRST: InterfaceId = InterfaceId(0);
const SECOND: InterfaceId = InterfaceId(1);
/// Ethernet addresses of the second interface and of a host on its link.
const OWN: [u8; 6] = [2, 0, 0, 0, 1, 1];
const HOST: [u8; 6] = [2, 0, 0, 0, 1, 7];

fn at(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

/// Node 0 with a second interface: 10.1.0.1/24, a gateway and an MTU of 1,000 bytes.
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

/// ARP message of kind `operation` from a host with `ip` to the node's address `target`.
fn arp(macs: [[u8; 6]; 2], operation: u8, ip: [u8; 4], target: [u8; 4]) -> Vec<u8> {
    let mut frame = [macs[1], macs[0]].concat();
    frame.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, operation]);
    frame.extend(macs[0]);
    frame.extend(ip);
    frame.extend(macs[1]);
    frame.extend(target);
    frame
}

/// SYN to port 80 of `to`.
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
fn the_source_address_selects_interface_ethernet_address_and_mtu() {
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
        // The node resolves the next hop. Until it has an answer, it replies to the SYN's sender.
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
fn an_address_is_rejected_at_another_interface() {
    let mut node = two();
    node.stack.listen(at("0.0.0.0:80"), 4, 0).expect("free");
    // The two packets have the address of one interface and the station of the other.
    node.receive_at(NOW, SECOND, &syn([HOST, OWN], [10, 0, 0, 2], [10, 0, 0, 1]));
    node.receive_at(NOW, FIRST, &syn(MACS, [10, 1, 0, 7], [10, 1, 0, 1]));
    // This packet has the second interface's station and arrives at the first.
    node.receive_at(NOW, FIRST, &syn([HOST, OWN], [10, 1, 0, 7], [10, 1, 0, 1]));
    // A question for an address on the wrong link gets no answer.
    node.receive_at(
        NOW,
        SECOND,
        &arp([HOST, OWN], 1, [10, 1, 0, 7], [10, 0, 0, 1]),
    );
    // The interface does not exist.
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

/// A host of one network claims an address of the other network.
/// Promise 61.
#[test]
fn no_host_impersonates_one_of_another_network() {
    let mut node = two();
    node.stack
        .connect(NOW, None, at("10.0.0.2:80"), 1)
        .expect("room");
    let (by, question) = node.transmit_by(NOW).expect("a question");
    assert_eq!(
        (by, &question[12..14], &question[38..42]),
        (FIRST, &[8, 6][..], &[10, 0, 0, 2][..])
    );
    // The false claim concerns an address that is being resolved, but on the other link.
    let lie = arp([HOST, OWN], 2, [10, 0, 0, 2], [10, 1, 0, 1]);
    node.receive_at(NOW, SECOND, &lie);
    assert_eq!((node.transmit(NOW), count(&node, "spoofed")), (None, 1));
    node.receive_at(NOW, FIRST, &arp(MACS, 2, [10, 0, 0, 2], [10, 0, 0, 1]));
    let (by, first) = node.transmit_by(NOW).expect("a SYN");
    assert_eq!((by, &first[..6]), (FIRST, &MACS[0][..]));
}

/// Promise 61.
#[test]
fn other_networks_are_reached_by_the_gateways_interface() {
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
    // The first interface has no gateway, so the connection ends at once.
    let local = Some(at("10.0.0.1:0"));
    node.stack
        .connect(NOW, local, at("192.0.2.1:80"), 2)
        .expect("taken");
    assert_eq!(node.transmit(NOW), None);
    let ended = matches!(node.event(), Some(Event::Dead { cookie: 2, .. }));
    assert!(ended);
    // Datagrams leave by that interface too, and its MTU limits them.
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

/// Two interfaces must not have the same address.
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
