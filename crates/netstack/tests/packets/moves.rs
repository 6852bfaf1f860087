//! Neighbours that claim another Ethernet address: a false claim is refuted, a move is detected.

use crate::support::node::Node;
use crate::support::segment::{Segment, checksum, flags, frame};
use crate::support::{at, ip};
use crate::{MACS, NOW, node, syn};
use cofferdam_netstack::*;
use std::net::IpAddr;
use std::time::Duration;

/// Station that claims to be node 1.
const OTHER: [u8; 6] = [2, 0, 0, 0, 0, 0x66];
const ALL: [u8; 6] = [0xff; 6];
const ALL_V6: [u8; 6] = [0x33, 0x33, 0, 0, 0, 1];

fn octets(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

/// ARP message of kind `operation` from a station with node 1's address.
fn arp(station: [u8; 6], to: [u8; 6], operation: u8, target: IpAddr) -> Vec<u8> {
    let mut frame = [to, station].concat();
    frame.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, operation]);
    frame.extend(station);
    frame.extend(octets(ip(1, false)));
    frame.extend(to);
    frame.extend(octets(target));
    frame
}

/// Neighbour discovery message from a station with node 1's address.
fn ndp(station: [u8; 6], [kind, flags]: [u8; 2], target: IpAddr, to: IpAddr) -> Vec<u8> {
    let mut message = vec![kind, 0, 0, 0, flags, 0, 0, 0];
    message.extend(octets(target));
    message.extend([kind - 134, 1]);
    message.extend(station);
    let from = ip(1, true);
    let sum = checksum(from, to, 58, &message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let station_to = if octets(to)[0] == 0xff {
        ALL_V6
    } else {
        MACS[1]
    };
    let mut frame = frame([station, station_to], from, to, 58, &message);
    frame[21] = 255;
    frame
}

/// All unsolicited messages by which a station can claim node 1's address.
fn claims(v6: bool, station: [u8; 6]) -> Vec<(&'static str, Vec<u8>)> {
    let (us, them) = (ip(0, v6), ip(1, v6));
    if !v6 {
        return vec![
            ("an answer to no question", arp(station, MACS[1], 2, us)),
            ("a gratuitous request", arp(station, ALL, 1, them)),
            ("a gratuitous answer", arp(station, ALL, 2, them)),
            ("a question to us", arp(station, ALL, 1, us)),
            ("a question to another", arp(station, ALL, 1, ip(8, false))),
        ];
    }
    let all: IpAddr = "ff02::1".parse().expect("a group");
    vec![
        ("solicited, override", ndp(station, [136, 0x60], them, us)),
        ("solicited", ndp(station, [136, 0x40], them, us)),
        ("unsolicited, override", ndp(station, [136, 0x20], them, us)),
        ("unsolicited", ndp(station, [136, 0], them, us)),
        ("to all, override", ndp(station, [136, 0x20], them, all)),
        ("a question to us", ndp(station, [135, 0], us, us)),
    ]
}

/// Answer of a station to a question for node 1.
fn answer(v6: bool, station: [u8; 6]) -> Vec<u8> {
    if v6 {
        ndp(station, [136, 0x60], ip(1, true), ip(0, true))
    } else {
        arp(station, MACS[1], 2, ip(0, false))
    }
}

/// Kind of a frame that the node sent.
#[derive(Debug, PartialEq, Eq)]
enum SentFrame {
    /// TCP segment to a station.
    Segment([u8; 6]),
    /// Question for node 1, to a station or to all.
    Question([u8; 6]),
    /// Answer to a question.
    Answer,
}

/// Frames that the node sends now.
fn sent(node: &mut Node, now: Time) -> Vec<SentFrame> {
    let frames = std::iter::from_fn(|| node.transmit(now));
    frames
        .map(|frame| {
            let to: [u8; 6] = frame[..6].try_into().expect("six bytes");
            let kind = if frame[12..14] == [8, 6] {
                frame[21]
            } else {
                frame[54]
            };
            match (&frame[12..14], frame[20], kind) {
                ([8, 6], _, 1) | ([0x86, 0xdd], 58, 135) => {
                    SentFrame::Question(if to[..3] == [0x33, 0x33, 0xff] {
                        ALL
                    } else {
                        to
                    })
                }
                ([8, 6], _, 2) | ([0x86, 0xdd], 58, 136) => SentFrame::Answer,
                _ => SentFrame::Segment(to),
            }
        })
        .collect()
}

/// A node with an open connection to node 1, whose station is confirmed, and the connection.
fn open(v6: bool) -> (Node, ConnectionId) {
    let mut node = node();
    node.stack.listen(at(0, v6, 80), 8, 0).expect("free");
    node.receive(NOW, &syn(9).write(MACS, ip(1, v6), ip(0, v6)));
    let mut isn = 0;
    while let Some(frame) = node.transmit(NOW) {
        match Segment::read(&frame) {
            Some(segment) => isn = segment.seq,
            None => node.receive(NOW, &answer(v6, MACS[0])),
        }
    }
    let ack = Segment {
        seq: 1,
        ack: isn.wrapping_add(1),
        flags: flags("."),
        window: 60_000,
        ..syn(9)
    };
    node.receive(NOW, &ack.write(MACS, ip(1, v6), ip(0, v6)));
    let Some(Event::Knock { connection, .. }) = node.event() else {
        panic!("no knock")
    };
    node.stack.accept(NOW, connection, 0).expect("it is there");
    // The first segment makes the node resolve its neighbour.
    assert_eq!(send(&mut node, connection, NOW), [SentFrame::Question(ALL)]);
    node.receive(NOW, &answer(v6, MACS[0]));
    assert_eq!(sent(&mut node, NOW), [SentFrame::Segment(MACS[0])]);
    (node, connection)
}

fn send(node: &mut Node, connection: ConnectionId, now: Time) -> Vec<SentFrame> {
    let data = node.memory.data(b"x");
    node.stack
        .sendv(now, connection, &[data])
        .expect("it is open");
    let mut all = sent(node, now);
    all.retain(|frame| *frame != SentFrame::Answer);
    all
}

fn after_ms(ms: u64) -> Time {
    NOW + Duration::from_millis(ms)
}

/// RFC 826, RFC 4861: an unsolicited claim of a neighbour's address redirects no segment of an open
/// connection. The node probes the neighbour, whose answer counts.
/// Promise 61.
#[test]
fn a_false_neighbour_claim_redirects_no_connection() {
    for v6 in [false, true] {
        for (name, claim) in claims(v6, OTHER) {
            let (mut node, connection) = open(v6);
            let expected = SentFrame::Segment(MACS[0]);
            assert_eq!(send(&mut node, connection, NOW), [expected], "{name}");
            // More than a second has passed, so the next doubt is acted on at once.
            let now = after_ms(2000);
            node.receive(now, &claim);
            let frames = send(&mut node, connection, now);
            let asked = SentFrame::Question(MACS[0]);
            assert_eq!(
                frames,
                [SentFrame::Segment(MACS[0]), asked],
                "{name}, v6 {v6}"
            );
            // The other station also sends unsolicited answers.
            node.receive(now, &answer(v6, OTHER));
            node.receive(now, &answer(v6, MACS[0]));
            node.receive(now, &answer(v6, OTHER));
            for ms in [2001, 2600, 2900] {
                node.stack.handle_timers(after_ms(ms));
                node.receive(after_ms(ms), &claim);
                let frames = send(&mut node, connection, after_ms(ms));
                assert_eq!(frames, [SentFrame::Segment(MACS[0])], "{name}, v6 {v6}");
            }
        }
    }
}

/// False claims cause at most one question a second, and never remove a neighbour that answers.
/// Promise 61.
#[test]
fn false_claims_cause_one_probe_per_second() {
    for v6 in [false, true] {
        let (mut node, connection) = open(v6);
        let lies = claims(v6, OTHER);
        let mut questions = 0;
        for ms in 0..10_000 {
            let now = after_ms(ms);
            node.stack.handle_timers(now);
            node.receive(now, &lies[ms as usize % lies.len()].1);
            if ms % 10 == 0 {
                for frame in send(&mut node, connection, now) {
                    match frame {
                        SentFrame::Question(to) => {
                            assert_eq!(to, MACS[0]);
                            node.receive(now, &answer(v6, MACS[0]));
                            questions += 1;
                        }
                        SentFrame::Segment(to) => assert_eq!(to, MACS[0]),
                        SentFrame::Answer => {}
                    }
                }
            }
        }
        assert!((5..=10).contains(&questions), "{questions}");
    }
}

/// RFC 1122, 2.3.2.1; RFC 4861, 7.3.3: after one announcement of a move the node probes the old
/// station twice, half a second apart, and then asks all hosts.
/// Promise 61.
#[test]
fn a_neighbour_that_has_moved_is_found() {
    for v6 in [false, true] {
        for (name, claim) in claims(v6, OTHER) {
            let (mut node, connection) = open(v6);
            // The claim comes within a second of the last answer, so the doubt is delayed.
            node.receive(after_ms(10), &claim);
            let (mut questions, mut found_ms) = (Vec::new(), None);
            for ms in 10..4000 {
                if found_ms.is_some() {
                    break;
                }
                let now = after_ms(ms);
                node.stack.handle_timers(now);
                let frames = if ms % 50 == 0 {
                    send(&mut node, connection, now)
                } else {
                    sent(&mut node, now)
                };
                for frame in frames {
                    match frame {
                        SentFrame::Question(to) => questions.push(to),
                        SentFrame::Segment(OTHER) => {
                            found_ms.get_or_insert(ms);
                        }
                        _ => {}
                    }
                    // The neighbour answers at its new station.
                    if frame == SentFrame::Question(ALL) {
                        node.receive(now, &answer(v6, OTHER));
                    }
                }
            }
            assert_eq!(questions, [MACS[0], MACS[0], ALL], "{name}, v6 {v6}");
            let found_ms = found_ms.expect("it is found");
            assert!((2000..2200).contains(&found_ms), "{name}: {found_ms} ms");
        }
    }
}

/// RFC 1122, 2.3.2.1, (4): a neighbour that has moved silently is found after timeouts of a
/// connection, before its address expires.
/// Promise 61.
#[test]
fn a_silently_moved_neighbour_is_found_by_timeouts() {
    for v6 in [false, true] {
        let (mut node, connection) = open(v6);
        // The address is confirmed and valid for half a minute.
        let began = 2000;
        let mut frames = send(&mut node, connection, after_ms(began));
        let (mut questions, mut found_ms) = (Vec::new(), None);
        for ms in began..8000 {
            if found_ms.is_some() {
                break;
            }
            let now = after_ms(ms);
            node.stack.handle_timers(now);
            frames.extend(sent(&mut node, now));
            for frame in frames.drain(..) {
                match frame {
                    SentFrame::Question(ALL) => {
                        questions.push(ALL);
                        node.receive(now, &answer(v6, OTHER));
                    }
                    SentFrame::Question(to) => questions.push(to),
                    SentFrame::Segment(OTHER) => {
                        found_ms.get_or_insert(ms - began);
                    }
                    _ => {}
                }
            }
        }
        assert!(questions.starts_with(&[MACS[0], MACS[0], ALL]), "v6 {v6}");
        assert!(found_ms.is_some_and(|ms| ms <= 5000), "{found_ms:?} ms");
    }
}
