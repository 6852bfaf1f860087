//! Spoofed, foreign, corrupted and random packets, and floods.

use crate::fragments::{fragments, long_datagram};
use crate::support::faults::Random;
use crate::support::node::Node;
use crate::support::script::neighbour_answer;
use crate::support::segment::{Segment, flags};
use crate::support::{at, config, ip};
use crate::{MACS, NOW, count, datagram, icmp, node, syn};
use cofferdam_netstack::*;
use std::net::IpAddr;
use std::time::Duration;

/// The addresses are invalid sources, or the frames are for other hosts.
/// Promise 61.
#[test]
fn spoofed_and_foreign_packets_are_dropped_and_counted() {
    let mut node = node();
    let syn = syn(9);
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
    // An IPv4-mapped address in an IPv6 packet (RFC 4291, 2.5.5.2) is not valid on the wire.
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

/// During a flood of SYNs from many sources the memory is limited, and other connections open.
/// Promise 57.
#[test]
fn a_flood_of_syns_does_not_keep_others_out() {
    let mut settings = config(0);
    settings.limits.half_open = 16;
    let mut node = Node::new(settings, NOW);
    node.stack.listen(at(0, false, 80), 8, 0).expect("free");
    let mut random = Random::new(5);
    let mut attack = |node: &mut Node| {
        let from: IpAddr =
            std::net::Ipv4Addr::new(10, 9, random.below(256) as u8, 1 + random.below(250) as u8)
                .into();
        let port = 1 + random.below(65_535) as u16;
        let syn = Segment {
            seq: random.below(1 << 32) as u32,
            ..syn(port)
        };
        node.receive(NOW, &syn.write(MACS, from, ip(0, false)));
        while node.transmit(NOW).is_some() {}
    };
    (0..5000).for_each(|_| attack(&mut node));
    assert_eq!(node.stack.usage().connections, 16);
    assert!(count(&node, "cookies_sent") > 4000);
    // A correct peer connects during the flood.
    open(
        &mut node,
        Segment {
            seq: 7,
            ..syn(1234)
        },
    );
    assert!(
        matches!(node.event(), Some(Event::Knock { .. })),
        "{:?}",
        node.stack.counters()
    );
}

/// Opens a connection with this SYN. Returns the last segment of the peer's handshake.
fn open(node: &mut Node, syn: Segment) -> Segment {
    node.receive(NOW, &syn.write(MACS, ip(1, false), ip(0, false)));
    let answer = std::iter::from_fn(|| node.transmit(NOW))
        .find_map(|frame| Segment::read(&frame))
        .expect("an answer");
    let ack = Segment {
        seq: syn.seq.wrapping_add(1),
        ack: answer.seq.wrapping_add(1),
        flags: flags("."),
        ..syn
    };
    node.receive(NOW, &ack.write(MACS, ip(1, false), ip(0, false)));
    ack
}

/// Peers that leave gaps, and peers of an application that does not accept, get a part of the
/// buffers each. Data in order is accepted until all buffers are in use, and again when some are
/// free.
/// Promise 68.
#[test]
fn no_peer_takes_all_buffers() {
    let mut settings = config(0);
    settings.limits.kept = 16;
    let mut node = Node::new(settings, NOW);
    node.stack.listen(at(0, false, 80), 32, 0).expect("free");
    let send = |node: &mut Node, to: &Segment, skip: u32| {
        let segment = Segment {
            seq: to.seq + skip,
            data: vec![7; 10],
            ..to.clone()
        };
        node.receive(NOW, &segment.write(MACS, ip(1, false), ip(0, false)));
        while node.transmit(NOW).is_some() {}
        node.stack.usage().kept
    };
    let peers: Vec<Segment> = (1..=12).map(|port| open(&mut node, syn(port))).collect();
    let gaps = peers.iter().map(|peer| send(&mut node, peer, 1000));
    assert_eq!(gaps.last(), Some(4), "a quarter for what is out of order");
    let early = peers.iter().map(|peer| send(&mut node, peer, 0));
    assert_eq!(
        early.last(),
        Some(8),
        "half for connections that are not accepted"
    );
    // After `accept`, data in order is accepted, and buffered data is delivered.
    let knocks: Vec<ConnectionId> = std::iter::from_fn(|| node.event())
        .filter_map(|event| match event {
            Event::Knock { connection, .. } => Some(connection),
            _ => None,
        })
        .collect();
    for connection in knocks {
        node.stack.accept(NOW, connection, 0).expect("it is there");
    }
    let all: Vec<u32> = (0..3)
        .flat_map(|part| peers.iter().map(move |peer| (peer, part * 10)))
        .map(|(peer, skip)| send(&mut node, peer, skip))
        .collect();
    assert_eq!(all.iter().max(), Some(&16));
    assert!(count(&node, "no_room") > 0);
    let handed_up = std::iter::from_fn(|| node.event()).filter_map(|event| match event {
        Event::Recv { chunk, .. } => Some(chunk.len),
        _ => None,
    });
    assert_eq!(handed_up.sum::<u32>(), 12 * 10);
    assert_eq!(node.stack.usage().kept, 4, "the gaps stay");
    let again = peers.iter().map(|peer| send(&mut node, peer, 10));
    assert!(again.last() > Some(4));
}

/// Random and mutated frames, also for open connections, cause no panic and no leak.
/// Promise 68.
#[test]
fn hostile_frames_do_no_harm() {
    let mut random = Random::new(20_261_122);
    let mut settings = config(0);
    settings.tcp.ecn = Ecn::On;
    settings.tcp.fast_open.most_pending = 4;
    settings.tcp.fast_open.without_cookie = true;
    let mut node = Node::new(settings, NOW);
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
            // The sequence numbers are near the windows of existing connections.
            let near = |random: &mut Random| {
                [0, 1, 2, 100, u32::MAX, 65_000, random.below(1 << 32) as u32]
                    [random.below(7) as usize]
            };
            let segment = Segment {
                from: 1 + random.below(12) as u16,
                to: 80,
                seq: near(&mut random),
                ack: isn.wrapping_add(near(&mut random)),
                flags: random.below(256) as u8,
                ecn: random.below(4) as u8,
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
                        (34, vec![7; random.below(18) as usize]),
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
                if let Some(answer) =
                    neighbour_answer(&sent, ip(0, sent[12] == 0x86), ip(1, sent[12] == 0x86))
                {
                    node.receive(now, &answer);
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
        assert!(usage.kept as usize <= node.memory.in_stack(), "{usage:?}");
    }
    assert!(ids.len() > 20, "connections were opened: {}", ids.len());
    for id in ids {
        let _ = node.stack.abort(now, id);
    }
    // Everything times out, and all buffers are returned.
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
            usage.chunks + usage.kept,
            node.memory.in_stack()
        ),
        (0, 0, 0, 0),
        "{usage:?}"
    );
}

/// If the frame of a SYN has a wrong sender, the next SYN corrects it.
/// Promise 57.
#[test]
fn a_repeated_syn_from_a_broken_sender_is_answered() {
    let mut node = node();
    node.stack.listen(at(0, false, 80), 8, 0).expect("free");
    let syn = syn(9);
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
