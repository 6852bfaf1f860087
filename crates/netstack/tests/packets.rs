//! What is not TCP: neighbours, echo, errors, datagrams, fragments; and bytes from an enemy.

mod support;

use cofferdam_netstack::*;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use support::faults::Random;
use support::node::Node;
use support::script::neighbour_answer;
use support::segment::{Segment, checksum, flags, frame, plain_checksum};
use support::{at, config, ip};

const MACS: [[u8; 6]; 2] = [[2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1]];
const NOW: Time = Time::from_nanos(1_000_000_000);

fn node() -> Node {
    Node::new(config(0), NOW)
}

fn count(node: &Node, name: &str) -> u64 {
    node.stack
        .counters()
        .each()
        .find(|counter| counter.0 == name)
        .expect("a counter")
        .1
}

/// An ICMP or ICMPv6 message to node 0.
fn icmp(v6: bool, mut message: Vec<u8>) -> Vec<u8> {
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

fn datagram(v6: bool, port: u16, data: &[u8]) -> Vec<u8> {
    let (from, to) = (ip(1, v6), ip(0, v6));
    let mut udp = [9000u16, port, 8 + data.len() as u16, 0]
        .map(u16::to_be_bytes)
        .concat();
    udp.extend(data);
    let sum = checksum(from, to, 17, &udp);
    udp[6..8].copy_from_slice(&sum.to_be_bytes());
    frame(MACS, from, to, 17, &udp)
}

/// RFC 792, RFC 4443, 4.2: the same identifier, number and data come back.
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
#[test]
fn a_datagram_to_a_closed_port_is_answered_by_port_unreachable() {
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

/// RFC 4443, 2.4 f: errors are limited; so are RSTs.
#[test]
fn errors_and_resets_are_limited() {
    let mut node = node();
    let syn = Segment {
        from: 9,
        to: 80,
        flags: flags("S"),
        ..Segment::default()
    };
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

/// RFC 768: to whom it is bound, with the sender's address; back again.
#[test]
fn datagrams_go_up_and_down() {
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
        let question = node.transmit(NOW).expect("asks who has the address");
        assert_eq!((node.transmit(NOW), node.event()), (None, None), "it waits");
        let told = neighbour_answer(&question, ip(0, v6), ip(1, v6)).expect("a question");
        node.receive(NOW, &told);
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

/// Nobody reads: memory stays bounded, and what is refused is counted.
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

/// Nobody answers for the address: given up after three questions, a second apart.
#[test]
fn what_nobody_answers_for_is_given_up() {
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

/// RFC 826, RFC 4861: questions are answered; answers that nobody asked for teach nothing.
#[test]
fn neighbours_are_answered_and_not_believed_unasked() {
    let mut node = node();
    let mut arp = [MACS[1], MACS[0]].concat();
    arp.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    arp.extend(MACS[0]);
    arp.extend([10, 0, 0, 2, 0, 0, 0, 0, 0, 0, 10, 0, 0, 1]);
    let mut reply = arp.clone();
    reply[21] = 2;
    node.receive(NOW, &reply);
    assert_eq!(node.stack.usage().neighbours, 0, "unasked");
    // A sender that is not who the frame comes from, or has our address.
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
        "who asks us is worth knowing"
    );

    // Neighbour discovery: a solicitation that crossed a router is refused (RFC 4861, 7.1.1).
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

/// Fragments of a packet: bytes of each, and whether more follow.
fn fragments(v6: bool, payload: &[u8], size: usize, id: u16) -> Vec<Vec<u8>> {
    let pieces = payload.len().div_ceil(size);
    let piece = |(index, bytes): (usize, &[u8])| {
        let more = u16::from(index + 1 < pieces);
        if v6 {
            let word = ((index * size) as u16 | more).to_be_bytes();
            let mut body = vec![17, 0, word[0], word[1], 0, 0];
            body.extend(id.to_be_bytes());
            body.extend(bytes);
            frame(MACS, ip(1, v6), ip(0, v6), 44, &body)
        } else {
            let mut packet = frame(MACS, ip(1, v6), ip(0, v6), 17, bytes);
            packet[18..20].copy_from_slice(&id.to_be_bytes());
            packet[20..22].copy_from_slice(&((index * size / 8) as u16 | more << 13).to_be_bytes());
            packet[24..26].copy_from_slice(&[0, 0]);
            let sum = plain_checksum(&packet[14..34]);
            packet[24..26].copy_from_slice(&sum.to_be_bytes());
            packet
        }
    };
    payload.chunks(size).enumerate().map(piece).collect()
}

fn long_datagram(v6: bool) -> (Vec<u8>, Vec<u8>) {
    let data: Vec<u8> = (0..5000u32).map(|n| (n * 7) as u8).collect();
    let whole = datagram(v6, 53, &data);
    (data, whole[if v6 { 54 } else { 34 }..].to_vec())
}

/// RFC 791, 3.2; RFC 8200, 4.5: in any order, repeated; handed up in one.
#[test]
fn fragments_in_any_order_make_the_datagram() {
    for v6 in [false, true] {
        let mut node = udp_node(v6);
        let (data, payload) = long_datagram(v6);
        let mut random = Random::new(3);
        for id in 0..50 {
            let mut pieces = fragments(v6, &payload, 1480, id);
            for index in (1..pieces.len()).rev() {
                pieces.swap(index, random.below(index as u64 + 1) as usize);
            }
            // Not behind the last one: that would begin anew.
            let again = pieces[0].clone();
            pieces.insert(1 + random.below(3) as usize, again);
            for piece in &pieces {
                node.receive(NOW, piece);
            }
            let Some(Event::UdpRecv { chunk, .. }) = node.event() else {
                panic!("v6 {v6}, datagram {id}")
            };
            assert_eq!(node.memory.read(chunk), data);
            node.memory.free(chunk.buffer);
            assert_eq!((node.event(), node.memory.in_stack()), (None, 0));
        }
    }
}

fn udp_node(v6: bool) -> Node {
    let mut node = node();
    node.stack.udp_bind(at(0, v6, 53), 0).expect("free");
    node
}

/// RFC 5722: overlapping fragments kill their datagram; endless ones cost a bounded amount.
#[test]
fn hostile_fragments_are_bounded() {
    for v6 in [false, true] {
        let mut node = udp_node(v6);
        let (_, payload) = long_datagram(v6);
        let pieces = fragments(v6, &payload, 1480, 1);
        let odd = fragments(v6, &payload, 1000, 1);
        node.receive(NOW, &pieces[0]);
        node.receive(NOW, &odd[1]);
        for piece in &pieces[1..] {
            node.receive(NOW, piece);
        }
        assert_eq!((node.event(), count(&node, "reassembled")), (None, 0));
        for id in 0..1000 {
            node.receive(NOW, &fragments(v6, &payload, 1480, id + 10)[0]);
        }
        assert_eq!(
            node.stack.usage().reassemblies,
            node.stack.config().limits.reassemblies
        );
        // A later one still gets through, and one beyond 64 KiB never.
        for piece in fragments(v6, &payload, 1480, 5000) {
            node.receive(NOW, &piece);
        }
        assert!(matches!(node.event(), Some(Event::UdpRecv { .. })));
        let huge = vec![0; 66_000];
        let last = fragments(v6, &huge, 1480, 6000).pop().expect("a last one");
        let before = count(&node, "fragments_dropped");
        node.receive(NOW, &last);
        assert_eq!(count(&node, "fragments_dropped"), before + 1);
    }
}

/// A TCP segment may come in fragments as well.
#[test]
fn a_fragmented_segment_is_taken() {
    let mut node = node();
    node.stack.listen(at(0, true, 80), 8, 0).expect("free");
    let syn = Segment {
        from: 9,
        to: 80,
        flags: flags("S"),
        options: vec![(2, vec![5, 160])],
        ..Segment::default()
    };
    let whole = syn.write(MACS, ip(1, true), ip(0, true));
    for mut piece in fragments(true, &whole[54..], 16, 1) {
        piece[54] = 6;
        node.receive(NOW, &piece);
    }
    let answer = node
        .transmit(NOW)
        .and_then(|frame| Segment::read(&frame))
        .expect("SYN+ACK");
    assert_eq!(
        (answer.flags, node.event(), node.memory.in_stack()),
        (flags("S."), None, 0)
    );
}

/// Addresses that nobody may send from, and frames for others.
#[test]
fn spoofed_and_foreign_packets_are_dropped_and_counted() {
    let mut node = node();
    let syn = Segment {
        from: 9,
        to: 80,
        flags: flags("S"),
        ..Segment::default()
    };
    let spoofed = [
        "10.0.0.1",
        "255.255.255.255",
        "224.0.0.1",
        "127.0.0.1",
        "0.0.0.0",
        "10.0.0.255",
        "10.0.0.0",
    ];
    for from in spoofed {
        node.receive(
            NOW,
            &syn.write(MACS, from.parse().expect("an address"), ip(0, false)),
        );
    }
    // IPv4 dressed as IPv6 (RFC 4291, 2.5.5.2 is not for the wire).
    let mapped = syn.write(
        MACS,
        "::ffff:10.0.0.9".parse().expect("an address"),
        "::ffff:10.0.0.1".parse().expect("one"),
    );
    node.receive(NOW, &mapped);
    assert_eq!(count(&node, "spoofed"), spoofed.len() as u64 + 1);
    let foreign = syn.write(MACS, ip(1, false), "10.0.0.77".parse().expect("an address"));
    node.receive(NOW, &foreign);
    let mut other_mac = syn.write(MACS, ip(1, false), ip(0, false));
    other_mac[5] = 99;
    node.receive(NOW, &other_mac);
    assert_eq!(
        (count(&node, "frames_not_ours"), node.transmit(NOW)),
        (2, None)
    );
    let mut broken = syn.write(MACS, ip(1, false), ip(0, false));
    broken[40] ^= 1;
    node.receive(NOW, &broken);
    assert_eq!(count(&node, "bad_checksum"), 1);
}

/// A flood of SYNs from everywhere: memory bounded, established connections go on.
#[test]
fn a_flood_of_syns_does_not_keep_others_out() {
    let mut settings = config(0);
    settings.limits.half_open = 16;
    let mut node = Node::new(settings, NOW);
    node.stack.listen(at(0, false, 80), 8, 0).expect("free");
    let mut random = Random::new(5);
    let mut syn = |node: &mut Node| {
        let from: IpAddr =
            std::net::Ipv4Addr::new(10, 9, random.below(256) as u8, 1 + random.below(250) as u8)
                .into();
        let port = 1 + random.below(65_535) as u16;
        let syn = Segment {
            from: port,
            to: 80,
            flags: flags("S"),
            seq: random.below(1 << 32) as u32,
            ..Segment::default()
        };
        node.receive(NOW, &syn.write(MACS, from, ip(0, false)));
        while node.transmit(NOW).is_some() {}
    };
    (0..5000).for_each(|_| syn(&mut node));
    assert_eq!(node.stack.usage().connections, 16);
    assert!(count(&node, "cookies_sent") > 4000);
    // An honest peer in the middle of it.
    let ours = Segment {
        from: 1234,
        to: 80,
        flags: flags("S"),
        seq: 7,
        ..Segment::default()
    };
    node.receive(NOW, &ours.write(MACS, ip(1, false), ip(0, false)));
    let answer = std::iter::from_fn(|| node.transmit(NOW))
        .find_map(|frame| Segment::read(&frame))
        .expect("a cookie");
    let ack = Segment {
        seq: 8,
        ack: answer.seq.wrapping_add(1),
        flags: flags("."),
        ..ours
    };
    node.receive(NOW, &ack.write(MACS, ip(1, false), ip(0, false)));
    assert!(
        matches!(node.event(), Some(Event::Knock { .. })),
        "{:?}",
        node.stack.counters()
    );
}

/// Random and mutated frames, among them to open connections: no panic, no leak, bounded memory.
#[test]
fn hostile_frames_do_no_harm() {
    let mut random = Random::new(20_261_122);
    let mut node = node();
    node.stack.listen(at(0, false, 80), 32, 0).expect("free");
    node.stack.listen(at(0, true, 80), 32, 0).expect("free");
    node.stack.udp_bind(at(0, false, 53), 0).expect("free");
    let mut templates = vec![datagram(false, 53, &[1; 40]), datagram(true, 53, &[1; 40])];
    templates.extend(fragments(false, &long_datagram(false).1, 1480, 1));
    templates.extend(fragments(true, &long_datagram(true).1, 1480, 1));
    templates.push(icmp(
        false,
        [vec![3, 4, 0, 0, 0, 0, 1, 0], vec![0x45; 40]].concat(),
    ));
    let (mut now, mut isn) = (NOW, 0u32);
    let mut ids = Vec::new();
    for step in 0..60_000u32 {
        let v6 = random.percent(30);
        let mut bytes = if random.percent(30) {
            templates[random.below(templates.len() as u64) as usize].clone()
        } else {
            // Numbers near the windows of connections that exist.
            let near = |random: &mut Random| {
                [0, 1, 2, 100, u32::MAX, 65_000, random.below(1 << 32) as u32]
                    [random.below(7) as usize]
            };
            let segment = Segment {
                from: 1 + random.below(12) as u16,
                to: 80,
                seq: near(&mut random),
                ack: isn.wrapping_add(near(&mut random)),
                flags: random.below(64) as u8,
                window: random.below(65_536) as u16,
                urgent: random.below(65_536) as u16,
                options: if random.percent(50) {
                    vec![
                        (
                            5,
                            (0..8 * random.below(4))
                                .map(|_| random.below(256) as u8)
                                .collect(),
                        ),
                        (3, vec![random.below(256) as u8]),
                    ]
                } else {
                    vec![(4, Vec::new())]
                },
                data: vec![9; random.below(300) as usize],
            };
            segment.write(MACS, ip(1, v6), ip(0, v6))
        };
        if random.percent(20) {
            for _ in 0..=random.below(4) {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] = random.below(256) as u8;
            }
            bytes.truncate(bytes.len() - random.below(20).min(bytes.len() as u64 - 1) as usize);
        }
        node.receive(now, &bytes);
        if random.percent(40) {
            while let Some(sent) = node.transmit(now) {
                if let Some(told) =
                    neighbour_answer(&sent, ip(0, sent[12] == 0x86), ip(1, sent[12] == 0x86))
                {
                    node.receive(now, &told);
                } else if let Some(segment) = Segment::read(&sent) {
                    isn = segment.seq;
                    if segment.flags == flags("S.") && random.percent(50) {
                        let ack = Segment {
                            from: segment.to,
                            to: 80,
                            seq: segment.ack,
                            ack: isn.wrapping_add(1),
                            flags: flags("."),
                            window: 5000,
                            ..Segment::default()
                        };
                        let v6 = sent[12] == 0x86;
                        node.receive(now, &ack.write(MACS, ip(1, v6), ip(0, v6)));
                    }
                }
            }
        }
        while let Some(event) = node.event() {
            match event {
                Event::Knock { connection, .. } => {
                    node.stack.accept(now, connection, 1).expect("knocked");
                    ids.push(connection);
                }
                Event::Recv { chunk, .. } | Event::UdpRecv { chunk, .. } => {
                    node.memory.free(chunk.buffer)
                }
                _ => {}
            }
        }
        if let Some(id) = ids.get(random.below(ids.len() as u64) as usize) {
            let data = Chunk {
                buffer: BufferId(0),
                offset: 0,
                len: 0,
            };
            match random.below(50) {
                0 => drop(node.stack.close(now, *id)),
                1 => drop(node.stack.abort(now, *id)),
                2 => drop(node.stack.shutdown(now, *id)),
                3 => drop(node.stack.sendv(now, *id, &[data])),
                _ => drop(node.stack.recv_done(
                    now,
                    *id,
                    random.below(1 << 32) as u32,
                    random.below(9) as u32,
                )),
            }
        }
        if step % 50 == 0 {
            now = now + Duration::from_micros(random.below(100_000));
            node.stack.handle_timers(now);
        }
        let usage = node.stack.usage();
        assert!(usage.chunks <= 4096 && usage.connections <= 64, "{usage:?}");
    }
    assert!(ids.len() > 20, "connections were opened: {}", ids.len());
    for id in ids {
        let _ = node.stack.abort(now, id);
    }
    // All time out, all is given back.
    for _ in 0..300 {
        now = now + Duration::from_secs(1);
        node.stack.handle_timers(now);
        while node.transmit(now).is_some() {}
        while let Some(event) = node.event() {
            if let Event::Recv { chunk, .. } | Event::UdpRecv { chunk, .. } = event {
                node.memory.free(chunk.buffer);
            }
        }
    }
    let usage = node.stack.usage();
    assert_eq!(
        (
            usage.connections,
            usage.time_wait,
            usage.chunks,
            node.memory.in_stack()
        ),
        (0, 0, 0, 0),
        "{usage:?}"
    );
}

/// Settings that cannot work are refused by name.
#[test]
fn wrong_settings_are_refused() {
    let refused = |change: fn(&mut Config)| {
        let mut settings = config(0);
        change(&mut settings);
        Stack::new(settings, NOW)
            .expect_err("cannot work")
            .to_string()
    };
    let mtu = refused(|settings| settings.mtu_bytes = 1000);
    assert_eq!(mtu, "MTU 1000 is outside 1280..=65535");
    assert!(refused(|settings| settings.mac = MacAddress::BROADCAST).contains("ff:ff:ff:ff:ff:ff"));
    assert!(refused(|settings| settings.addresses[0].prefix_len = 33).contains("10.0.0.1/33"));
    assert!(
        refused(|settings| settings.addresses[0].ip = ip_of("224.0.0.1")).contains("224.0.0.1")
    );
    assert!(refused(|settings| settings.gateways.push(ip_of("10.9.0.1"))).contains("10.9.0.1"));
    assert!(refused(|settings| settings.limits.connections = 0).contains("connections = 0"));
    let mut stack = Stack::new(config(0), NOW).expect("settings that work");
    assert_eq!(
        stack.listen(SocketAddr::new(ip(0, false), 0), 1, 0),
        Err(BindError::NoPort)
    );
    assert_eq!(
        stack.listen(at(1, false, 80), 1, 0),
        Err(BindError::NotOurs(ip(1, false)))
    );
    let far = SocketAddr::new(ip_of("192.0.2.1"), 80);
    assert_eq!(
        stack.connect(NOW, None, far, 0),
        Err(ConnectError::NoRoute(far.ip()))
    );
    assert_eq!(
        stack.connect(NOW, None, at(0, false, 80), 0),
        Err(ConnectError::Remote(at(0, false, 80)))
    );
}

fn ip_of(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// A SYN whose frame has a wrong sender: the peer's next one gets its answer.
#[test]
fn a_syn_with_a_broken_sender_is_answered_when_it_comes_again() {
    let mut node = node();
    node.stack.listen(at(0, false, 80), 8, 0).expect("free");
    let syn = Segment {
        from: 9,
        to: 80,
        flags: flags("S"),
        ..Segment::default()
    };
    let right = syn.write(MACS, ip(1, false), ip(0, false));
    let mut broken = right.clone();
    broken[11] ^= 4;
    node.receive(NOW, &broken);
    let astray = node.transmit(NOW).expect("SYN+ACK");
    assert_eq!(astray[..6], broken[6..12]);
    node.receive(NOW, &right);
    let answer = node.transmit(NOW).expect("SYN+ACK");
    assert_eq!(answer[..6], MACS[0]);
}
