//! ARP and neighbour discovery.

use crate::support::segment::{checksum, frame};
use crate::support::{at, ip};
use crate::{MACS, NOW, count, node};
use cofferdam_netstack::*;
use std::net::IpAddr;
use std::time::Duration;

/// The node gives up an address after three questions, a second apart, without an answer.
/// Promise 61.
#[test]
fn packets_to_an_absent_neighbour_are_dropped() {
    for v6 in [false, true] {
        let mut node = node();
        let udp = node.stack.udp_bind(at(0, v6, 53), 0).expect("free");
        let data = node.memory.data(b"x");
        node.stack
            .udp_sendv(NOW, udp, None, at(1, v6, 1), &[data], 4)
            .expect("room");
        node.stack
            .connect(NOW, None, at(1, v6, 80), 8)
            .expect("room");
        let mut questions = 0;
        for ms in 0..3500u64 {
            let now = NOW + Duration::from_millis(ms);
            node.stack.handle_timers(now);
            while node.transmit(now).is_some() {
                questions += 1;
            }
        }
        assert_eq!(questions, 3);
        let events = [node.event(), node.event()];
        assert!(
            matches!(
                events[0],
                Some(Event::Dead {
                    cookie: 8,
                    reason: DeadReason::Unreachable,
                    ..
                })
            ),
            "{events:?}"
        );
        assert_eq!(
            events[1],
            Some(Event::UdpSent {
                udp,
                cookie: 0,
                token: 4
            })
        );
        assert_eq!(count(&node, "neighbours_failed"), 1);
    }
}

/// RFC 826, RFC 4861: questions are answered, and unsolicited answers are ignored.
/// Promise 61.
#[test]
fn neighbours_are_answered_but_unsolicited_claims_are_ignored() {
    let mut node = node();
    let mut arp = [MACS[1], MACS[0]].concat();
    arp.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    arp.extend(MACS[0]);
    arp.extend([10, 0, 0, 2, 0, 0, 0, 0, 0, 0, 10, 0, 0, 1]);
    let mut reply = arp.clone();
    reply[21] = 2;
    node.receive(NOW, &reply);
    assert_eq!(node.stack.usage().neighbours, 0, "unasked");
    // The sender is not the frame's source, or has the node's address.
    let mut forged = arp.clone();
    forged[22..28].copy_from_slice(&[2, 9, 9, 9, 9, 9]);
    let mut ours = arp.clone();
    ours[28..32].copy_from_slice(&[10, 0, 0, 1]);
    node.receive(NOW, &forged);
    node.receive(NOW, &ours);
    assert_eq!((node.transmit(NOW), count(&node, "spoofed")), (None, 2));
    node.receive(NOW, &arp);
    let answer = node.transmit(NOW).expect("a reply");
    assert_eq!(
        (&answer[..6], answer[21], &answer[22..32]),
        (&MACS[0][..], 2, &[2, 0, 0, 0, 0, 1, 10, 0, 0, 1][..])
    );
    assert_eq!(
        node.stack.usage().neighbours,
        1,
        "a host that asks us is remembered"
    );

    // RFC 4861, 7.1.1: a solicitation that has crossed a router is refused.
    let (from, to) = (ip(1, true), ip(0, true));
    let IpAddr::V6(target) = to else { panic!() };
    let mut message = vec![135, 0, 0, 0, 0, 0, 0, 0];
    message.extend(target.octets());
    message.extend([1, 1]);
    message.extend(MACS[0]);
    let sum = checksum(from, to, 58, &message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let mut solicitation = frame(MACS, from, to, 58, &message);
    node.receive(NOW, &solicitation);
    assert_eq!((node.transmit(NOW), count(&node, "spoofed")), (None, 3));
    solicitation[21] = 255;
    node.receive(NOW, &solicitation);
    let answer = node.transmit(NOW).expect("an advertisement");
    assert_eq!((answer[54], answer[58], answer[21]), (136, 0x60, 255));
    assert_eq!(checksum(to, from, 58, &answer[54..]), 0);
}
