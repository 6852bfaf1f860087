//! Packets other than TCP: neighbours, echo, errors, datagrams, fragments, and hostile bytes.

mod datagrams;
mod discovery;
mod fragments;
mod headers;
mod hostile;
mod interfaces;
mod moves;
mod neighbours;
mod ports;
mod settings;
#[path = "../support/mod.rs"]
mod support;

use cofferdam_netstack::*;
use support::node::Node;
use support::segment::{Segment, checksum, flags, frame, plain_checksum};
use support::{config, ip};

/// Ethernet addresses of receiver and sender.
pub const MACS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1]];
/// Time at which a test begins.
pub const NOW: Time = Time::from_nanos(1_000_000_000);

/// Node 0 without a peer.
pub fn node() -> Node {
    Node::new(config(0), NOW)
}

/// Value of a counter of the stack.
pub fn count(node: &Node, name: &str) -> u64 {
    node.stack
        .counters()
        .each()
        .find(|counter| counter.0 == name)
        .expect("a counter")
        .1
}

/// SYN from a port of node 1 to port 80 of node 0.
pub fn syn(from: u16) -> Segment {
    Segment {
        from,
        to: 80,
        flags: flags("S"),
        ..Segment::default()
    }
}

/// ICMP or ICMPv6 message to node 0.
pub fn icmp(v6: bool, mut message: Vec<u8>) -> Vec<u8> {
    let protocol = if v6 { 58 } else { 1 };
    let (from, to) = (ip(1, v6), ip(0, v6));
    let sum = if v6 {
        checksum(from, to, protocol, &message)
    } else {
        plain_checksum(&message)
    };
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    frame(MACS, from, to, protocol, &message)
}

/// UDP datagram to node 0.
pub fn datagram(v6: bool, port: u16, data: &[u8]) -> Vec<u8> {
    let (from, to) = (ip(1, v6), ip(0, v6));
    let mut udp = [9000u16, port, 8 + data.len() as u16, 0]
        .map(u16::to_be_bytes)
        .concat();
    udp.extend(data);
    let sum = checksum(from, to, 17, &udp);
    udp[6..8].copy_from_slice(&sum.to_be_bytes());
    frame(MACS, from, to, 17, &udp)
}
