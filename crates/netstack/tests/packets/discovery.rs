//! Validity of neighbour discovery messages (RFC 4861, 7.1; RFC 6980). Each rule is checked with a
//! message that breaks it.

use crate::support::node::Node;
use crate::support::segment::{checksum, frame};
use crate::support::{at, ip};
use crate::{MACS, NOW, node};
use std::net::IpAddr;

const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
const SOURCE: u8 = 1;
const TARGET: u8 = 2;

/// Message that is valid unless a field is changed.
#[derive(Debug, Clone)]
struct Message {
    kind: u8,
    code: u8,
    flags: u8,
    target: IpAddr,
    options: Vec<u8>,
    from: IpAddr,
    to: IpAddr,
    hop_limit: u8,
    /// Bytes to remove from the end.
    cut: usize,
    breaks_checksum: bool,
    /// Whether a fragment header of an unfragmented packet precedes the message (RFC 6946).
    in_fragment: bool,
}

fn group(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn link_layer(kind: u8) -> Vec<u8> {
    [&[kind, 1][..], &MACS[0]].concat()
}

impl Message {
    /// A question of node 1 for the address of node 0.
    fn solicitation() -> Self {
        Self {
            kind: SOLICITATION,
            code: 0,
            flags: 0,
            target: ip(0, true),
            options: link_layer(SOURCE),
            from: ip(1, true),
            to: group("ff02::1:ff00:1"),
            hop_limit: 255,
            cut: 0,
            breaks_checksum: false,
            in_fragment: false,
        }
    }

    /// Duplicate address detection of a host that wants the address of node 0.
    fn detection() -> Self {
        Self {
            from: group("::"),
            options: Vec::new(),
            ..Self::solicitation()
        }
    }

    /// Answer of node 1 to node 0's question.
    fn advertisement() -> Self {
        Self {
            kind: ADVERTISEMENT,
            flags: 0x60,
            target: ip(1, true),
            options: link_layer(TARGET),
            to: ip(0, true),
            ..Self::solicitation()
        }
    }

    fn write(&self) -> Vec<u8> {
        let mut message = vec![self.kind, self.code, 0, 0, self.flags, 0, 0, 0];
        let IpAddr::V6(target) = self.target else {
            panic!("IPv6 only")
        };
        message.extend(target.octets());
        message.extend(&self.options);
        message.truncate(message.len() - self.cut);
        let sum = checksum(self.from, self.to, 58, &message) ^ u16::from(self.breaks_checksum);
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        let mut protocol = 58;
        if self.in_fragment {
            message = [&[58, 0, 0, 0, 0, 0, 0, 1][..], &message].concat();
            protocol = 44;
        }
        let mut frame = frame(MACS, self.from, self.to, protocol, &message);
        frame[21] = self.hop_limit;
        frame
    }
}

/// Changes that make messages of both kinds invalid.
fn broken(right: &Message) -> Vec<(&'static str, Message)> {
    let with = |options: Vec<u8>| Message {
        options,
        ..right.clone()
    };
    let kind = right.options.first().copied().unwrap_or(SOURCE);
    let change = |change: &dyn Fn(&mut Message)| {
        let mut message = right.clone();
        change(&mut message);
        message
    };
    vec![
        ("hop limit 254", change(&|m| m.hop_limit = 254)),
        ("hop limit 1", change(&|m| m.hop_limit = 1)),
        ("code 1", change(&|m| m.code = 1)),
        ("checksum", change(&|m| m.breaks_checksum = true)),
        ("23 bytes", change(&|m| m.cut = m.options.len() + 1)),
        ("no target", change(&|m| m.cut = m.options.len() + 16)),
        (
            "target is a group",
            change(&|m| m.target = group("ff02::1:ff00:1")),
        ),
        ("option of length 0", with(vec![kind, 0, 0, 0, 0, 0, 0, 0])),
        (
            "option behind the end",
            with([link_layer(kind), vec![99, 2, 0, 0, 0, 0, 0, 0]].concat()),
        ),
        (
            "half an option",
            with([link_layer(kind), vec![99]].concat()),
        ),
        ("in a fragment", change(&|m| m.in_fragment = true)),
    ]
}

/// Answer to a message: its destination and flags.
fn answer(message: &Message) -> Option<(IpAddr, u8)> {
    let mut node = node();
    node.receive(NOW, &message.write());
    let frame = node.transmit(NOW)?;
    assert_eq!((frame[20], frame[21], frame[54]), (58, 255, ADVERTISEMENT));
    let to: [u8; 16] = frame[38..54].try_into().expect("16 bytes");
    let to = IpAddr::from(to);
    assert_eq!(checksum(ip(0, true), to, 58, &frame[54..]), 0);
    Some((to, frame[58]))
}

/// RFC 4861, 7.1.1.
/// Promise 61.
#[test]
fn solicitations_that_break_a_rule_are_discarded() {
    let right = Message::solicitation();
    assert_eq!(answer(&right), Some((ip(1, true), 0x60)), "the right one");
    for (name, message) in broken(&right) {
        assert_eq!(answer(&message), None, "{name}");
    }
    let all = group("ff02::1");
    let detection = Message::detection();
    assert_eq!(answer(&detection), Some((all, 0x20)), "detection");
    for (name, message) in broken(&detection) {
        assert_eq!(answer(&message), None, "detection, {name}");
    }
    let table = [
        ("detection, to the address", ip(0, true), Vec::new()),
        ("detection, to all", all, Vec::new()),
        (
            "detection, to another group",
            group("ff02::1:ff00:2"),
            Vec::new(),
        ),
        (
            "detection, with a source",
            group("ff02::1:ff00:1"),
            link_layer(SOURCE),
        ),
        (
            "detection, with another link's source",
            group("ff02::1:ff00:1"),
            [1, 2].into_iter().chain([0; 14]).collect(),
        ),
    ];
    for (name, to, options) in table {
        let message = Message {
            to,
            options,
            ..detection.clone()
        };
        assert_eq!(answer(&message), None, "{name}");
    }
    let other = Message {
        target: ip(5, true),
        ..right
    };
    assert_eq!(answer(&other), None, "another's address");
}

/// RFC 4861, 7.1.1, last paragraph: reserved fields and unknown options are ignored.
/// Promise 61.
#[test]
fn permitted_packets_are_answered() {
    let right = Message::solicitation();
    let answered = Some((ip(1, true), 0x60));
    let unknown = [link_layer(SOURCE), vec![99, 1, 0, 0, 0, 0, 0, 0]].concat();
    let table = [
        (
            "reserved bits",
            Message {
                flags: 0xff,
                ..right.clone()
            },
        ),
        (
            "an unknown option",
            Message {
                options: unknown,
                ..right.clone()
            },
        ),
        (
            "no option",
            Message {
                options: Vec::new(),
                ..right.clone()
            },
        ),
        (
            "to the address",
            Message {
                to: ip(0, true),
                ..right.clone()
            },
        ),
        (
            "to all",
            Message {
                to: group("ff02::1"),
                ..right.clone()
            },
        ),
    ];
    for (name, message) in table {
        assert_eq!(answer(&message), answered, "{name}");
    }
    let detection = Message {
        options: vec![99, 1, 0, 0, 0, 0, 0, 0],
        ..Message::detection()
    };
    assert_eq!(answer(&detection), Some((group("ff02::1"), 0x20)));
}

/// A node that has a datagram to send and has asked for its neighbour.
fn asking() -> Node {
    let mut node = node();
    let udp = node.stack.udp_bind(at(0, true, 53), 0).expect("free");
    let data = node.memory.data(b"x");
    (node.stack)
        .udp_sendv(NOW, udp, None, at(1, true, 1), &[data], 4)
        .expect("room");
    let question = node.transmit(NOW).expect("a question");
    assert_eq!((question[54], node.transmit(NOW)), (SOLICITATION, None));
    node
}

/// RFC 4861, 7.1.2 and 7.2.5.
/// Promise 61.
#[test]
fn advertisements_that_break_a_rule_are_discarded() {
    let sends = |message: &Message| {
        let mut node = asking();
        node.receive(NOW, &message.write());
        node.transmit(NOW).is_some_and(|frame| frame[20] == 17)
    };
    let right = Message::advertisement();
    assert!(sends(&right), "the right one");
    for (name, message) in broken(&right) {
        assert!(!sends(&message), "{name}");
    }
    let all = group("ff02::1");
    let to_all = |flags| Message {
        to: all,
        flags,
        ..right.clone()
    };
    assert!(!sends(&to_all(0x60)), "solicited, to a group");
    assert!(sends(&to_all(0x20)), "unsolicited, to a group");
    let silent = Message {
        options: Vec::new(),
        ..right.clone()
    };
    assert!(
        !sends(&silent),
        "without an address for one that is not known"
    );
    let group_station = Message {
        options: vec![TARGET, 1, 0x33, 0x33, 0, 0, 0, 1],
        ..right
    };
    assert!(!sends(&group_station), "the address of a group");
}

/// RFC 4861, 6.1, 8.1: messages for routers and from routers have no effect.
/// Promise 61.
#[test]
fn router_messages_and_redirects_are_ignored() {
    for kind in [133, 134, 137] {
        let mut node = asking();
        let message = Message {
            kind,
            ..Message::advertisement()
        };
        node.receive(NOW, &message.write());
        assert_eq!(node.transmit(NOW), None, "{kind}");
    }
}
