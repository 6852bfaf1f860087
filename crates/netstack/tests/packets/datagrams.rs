//! Echo, ICMP errors and UDP.

use crate::support::node::Node;
use crate::support::script::neighbour_answer;
use crate::support::segment::{checksum, plain_checksum};
use crate::support::{at, config, ip};
use crate::{MACS, NOW, count, datagram, icmp, node, syn};
use cofferdam_netstack::*;
use std::time::Duration;

/// RFC 792, RFC 4443, 4.2: the reply has the same identifier, sequence number and data.
/// Promise 61.
#[test]
fn echo_requests_are_answered_with_their_data() {
    for v6 in [false, true] {
        let mut node = node();
        let (request, reply) = if v6 { (128, 129) } else { (8, 0) };
        let mut message = vec![request, 0, 0, 0, 0x12, 0x34, 0, 7];
        message.extend((0..1000u32).map(|n| n as u8));
        node.receive(NOW, &icmp(v6, message.clone()));
        let answer = node.transmit(NOW).expect("a reply");
        let at = if v6 { 54 } else { 34 };
        assert_eq!((answer[at], answer[at + 1]), (reply, 0));
        assert_eq!(answer[at + 4..], message[4..]);
        let sum = if v6 {
            checksum(ip(0, v6), ip(1, v6), 58, &answer[at..])
        } else {
            plain_checksum(&answer[at..])
        };
        assert_eq!(sum, 0, "the checksum is right");
        assert_eq!(
            (node.memory.in_stack(), count(&node, "echo_replies")),
            (0, 1)
        );
    }
}

/// RFC 1122, 3.2.2.1; RFC 4443, 3.1: the error quotes the packet.
/// Promise 61.
#[test]
fn a_datagram_to_a_closed_port_gets_port_unreachable() {
    for v6 in [false, true] {
        let mut node = node();
        let sent = datagram(v6, 77, &[1; 900]);
        node.receive(NOW, &sent);
        let answer = node.transmit(NOW).expect("an error");
        let at = if v6 { 54 } else { 34 };
        assert_eq!(
            (answer[at], answer[at + 1]),
            if v6 { (1, 4) } else { (3, 3) }
        );
        let quoted = &answer[at + 8..];
        assert_eq!(quoted, &sent[14..14 + quoted.len()]);
        assert!(answer.len() - 14 <= if v6 { 1280 } else { 576 } && quoted.len() >= 28);
        assert_eq!(node.memory.in_stack(), 0);
    }
}

/// RFC 4443, 2.4 f: errors and RSTs are rate-limited.
/// Promise 68.
#[test]
fn errors_and_resets_are_limited() {
    let mut node = node();
    let syn = syn(9);
    let mut answers = 0;
    for _ in 0..1000 {
        node.receive(NOW, &datagram(false, 77, &[1]));
        node.receive(NOW, &syn.write(MACS, ip(1, false), ip(0, false)));
        while node.transmit(NOW).is_some() {
            answers += 1;
        }
    }
    assert_eq!((answers, count(&node, "replies_suppressed")), (200, 1800));
}

/// RFC 768: a datagram reaches the bound address with its sender's address, and is answered.
/// Promise 61.
#[test]
fn datagrams_are_sent_and_received() {
    for v6 in [false, true] {
        let mut node = node();
        let udp = node.stack.udp_bind(at(0, v6, 53), 5).expect("free");
        assert_eq!(
            node.stack.udp_bind(at(0, v6, 53), 5),
            Err(BindError::InUse(at(0, v6, 53)))
        );
        node.receive(NOW, &datagram(v6, 53, b"question"));
        let Some(Event::UdpRecv {
            cookie: 5,
            chunk,
            remote,
            local,
            ..
        }) = node.event()
        else {
            panic!()
        };
        assert_eq!(
            (node.memory.read(chunk), remote, local),
            (&b"question"[..], at(1, v6, 9000), ip(0, v6))
        );
        node.memory.free(chunk.buffer);
        node.stack.udp_recv_done(udp, 1);
        let answer = [node.memory.data(b"ans"), node.memory.data(b"wer")];
        node.stack
            .udp_sendv(NOW, udp, None, remote, &answer, 99)
            .expect("room");
        let question = node.transmit(NOW).expect("asks for the address");
        assert_eq!((node.transmit(NOW), node.event()), (None, None), "it waits");
        let answer = neighbour_answer(&question, ip(0, v6), ip(1, v6)).expect("a question");
        node.receive(NOW, &answer);
        let sent = node.transmit(NOW).expect("the datagram");
        assert!(sent.ends_with(b"answer"));
        assert_eq!(
            checksum(ip(0, v6), ip(1, v6), 17, &sent[if v6 { 54 } else { 34 }..]),
            0
        );
        assert_eq!(
            node.event(),
            Some(Event::UdpSent {
                udp,
                cookie: 5,
                token: 99
            })
        );
        let long = node.memory.data(&[0; 1473]);
        let most = if v6 { 1452 } else { 1472 };
        assert_eq!(
            node.stack.udp_sendv(NOW, udp, None, remote, &[long], 1),
            Err(UdpSendError::TooLong { bytes: 1473, most })
        );
    }
}

/// A full backlog limits the memory, and the refused datagrams are counted.
/// Promise 68.
#[test]
fn a_flood_of_datagrams_stops_at_the_backlog() {
    let mut settings = config(0);
    settings.limits.udp_backlog = 10;
    let mut node = Node::new(settings, NOW);
    let udp = node.stack.udp_bind(at(0, false, 53), 0).expect("free");
    for _ in 0..100 {
        node.receive(NOW, &datagram(false, 53, &[1]));
    }
    assert_eq!(
        (count(&node, "udp_received"), count(&node, "udp_dropped")),
        (10, 90)
    );
    assert_eq!(node.memory.in_stack(), 10);
    assert!(node.stack.udp_unbind(udp) && !node.stack.udp_unbind(udp));
    assert_eq!((node.event(), node.memory.in_stack()), (None, 0));
}

/// In any sequence of binds, sends, answers and time steps, each accepted datagram is reported
/// exactly once, even if its address was closed before, and each buffer is returned.
/// Promise 66.
#[test]
fn every_accepted_datagram_is_reported_when_it_is_done() {
    let mut random = 20_u64;
    let mut draw = |most: u64| {
        random = random
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (random >> 33) % most
    };
    for _ in 0..50 {
        let mut node = node();
        let (mut now, mut next) = (NOW, 0);
        let mut bound: Vec<UdpId> = Vec::new();
        let mut out = std::collections::HashSet::new();
        for _ in 0..300 {
            match draw(8) {
                0 => bound.extend(node.stack.udp_bind(at(0, false, 50 + draw(6) as u16), next)),
                1 if !bound.is_empty() => {
                    let udp = bound.swap_remove(draw(bound.len() as u64) as usize);
                    assert!(node.stack.udp_unbind(udp));
                }
                2..5 if !bound.is_empty() => {
                    let udp = bound[draw(bound.len() as u64) as usize];
                    let data = node.memory.data(b"x");
                    // No destination exists until it answers a question.
                    let to = at(1 + draw(60) as usize, false, 9);
                    next += 1;
                    if node
                        .stack
                        .udp_sendv(now, udp, None, to, &[data], next)
                        .is_ok()
                    {
                        out.insert(next);
                    }
                }
                5 => node.receive(now, &datagram(false, 50 + draw(6) as u16, &[1; 40])),
                6 => {
                    now = now + Duration::from_millis(draw(900));
                    node.stack.handle_timers(now);
                }
                _ => {
                    while let Some(frame) = node.transmit(now) {
                        if draw(4) == 0
                            && let Some(answer) =
                                neighbour_answer(&frame, ip(0, false), ip(1, false))
                        {
                            node.receive(now, &answer);
                        }
                    }
                    reported(&mut node, &mut out);
                }
            }
        }
        for udp in bound {
            node.stack.udp_unbind(udp);
        }
        // Errors quote received datagrams, so their buffers leave with them.
        while node.transmit(now).is_some() {}
        reported(&mut node, &mut out);
        assert!(out.is_empty(), "{out:?} were forgotten");
        assert_eq!(node.memory.in_stack(), 0);
    }
}

fn reported(node: &mut Node, out: &mut std::collections::HashSet<u64>) {
    while let Some(event) = node.event() {
        match event {
            Event::UdpSent { token, .. } => assert!(out.remove(&token), "{token} twice"),
            Event::UdpRecv { udp, chunk, .. } => {
                node.memory.free(chunk.buffer);
                node.stack.udp_recv_done(udp, 1);
            }
            other => panic!("{other:?}"),
        }
    }
}

/// A reader that asks for many absent neighbours is refused more at once, which leaves entries for
/// others. It may ask again once its share is free.
/// Promise 70.
#[test]
fn each_reader_has_its_own_limit_for_unresolved_neighbours() {
    let mut node = node();
    let [greedy, other] = [53, 54].map(|port| {
        let udp = node.stack.udp_bind(at(0, true, port), 0).expect("free");
        node.stack.set_udp_reader(udp, (port - 53) as u8);
        udp
    });
    for n in 0..1000 {
        let data = node.memory.data(b"x");
        let to = at(10 + n, true, 9);
        let sent = node.stack.udp_sendv(NOW, greedy, None, to, &[data], 1);
        assert_eq!(sent, Ok(()));
        while node.transmit(NOW).is_some() {}
        while node.event().is_some() {}
    }
    // The table has 1,024 entries for 32 readers.
    assert_eq!(node.stack.usage().neighbours, 32);
    assert_eq!(count(&node, "neighbours_refused"), 1000 - 32);
    let data = node.memory.data(b"y");
    let sent = node
        .stack
        .udp_sendv(NOW, other, None, at(1, true, 9), &[data], 2);
    assert_eq!(sent, Ok(()));
    let question = node.transmit(NOW).expect("a question");
    let answer = neighbour_answer(&question, ip(0, true), ip(1, true)).expect("for it");
    node.receive(NOW, &answer);
    assert!(node.transmit(NOW).is_some(), "it goes out");
    // The reader may ask again after its questions remained unanswered.
    for ms in (0..4000).step_by(100) {
        node.stack.handle_timers(NOW + Duration::from_millis(ms));
        while node.transmit(NOW).is_some() {}
    }
    while node.event().is_some() {}
    let later = NOW + Duration::from_secs(5);
    let data = node.memory.data(b"x");
    let sent = node
        .stack
        .udp_sendv(later, greedy, None, at(5000, true, 9), &[data], 3);
    assert_eq!(sent, Ok(()));
    assert!(node.transmit(later).is_some(), "it is asked for");
}
