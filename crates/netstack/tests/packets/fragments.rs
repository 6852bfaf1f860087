//! Fragmented datagrams and segments.

use crate::support::faults::Random;
use crate::support::node::Node;
use crate::support::segment::{Segment, checksum, flags, frame, plain_checksum};
use crate::support::{at, ip};
use crate::{MACS, NOW, count, datagram, icmp, node, syn};
use cofferdam_netstack::*;

/// Fragments of a UDP datagram.
pub fn fragments(v6: bool, payload: &[u8], size: usize, id: u16) -> Vec<Vec<u8>> {
    fragments_of(17, v6, payload, size, id)
}

/// Fragments of a packet of a protocol as frames, with `size` bytes of payload each.
fn fragments_of(protocol: u8, v6: bool, payload: &[u8], size: usize, id: u16) -> Vec<Vec<u8>> {
    let pieces = payload.len().div_ceil(size);
    let piece = |(index, bytes): (usize, &[u8])| {
        let more = u16::from(index + 1 < pieces);
        if v6 {
            let word = ((index * size) as u16 | more).to_be_bytes();
            let mut body = vec![protocol, 0, word[0], word[1], 0, 0];
            body.extend(id.to_be_bytes());
            body.extend(bytes);
            frame(MACS, ip(1, v6), ip(0, v6), 44, &body)
        } else {
            let mut packet = frame(MACS, ip(1, v6), ip(0, v6), protocol, bytes);
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

pub fn long_datagram(v6: bool) -> (Vec<u8>, Vec<u8>) {
    let data: Vec<u8> = (0..5000u32).map(|n| (n * 7) as u8).collect();
    let whole = datagram(v6, 53, &data);
    (data, whole[if v6 { 54 } else { 34 }..].to_vec())
}

/// RFC 791, 3.2; RFC 8200, 4.5: fragments may arrive in any order and repeatedly.
/// Promise 61.
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
            // A repetition behind the last fragment would start another datagram.
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

/// RFC 5722: an overlap discards the datagram. Endless fragments use limited memory.
/// Promise 61.
/// Promise 68.
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
        // A later datagram is still reassembled; one beyond 64 KiB never is.
        for piece in fragments(v6, &payload, 1480, 5000) {
            node.receive(NOW, &piece);
        }
        assert!(matches!(node.event(), Some(Event::UdpRecv { .. })));
        let huge = vec![0; 66_000];
        let last = fragments(v6, &huge, 1480, 6000).pop().expect("a last one");
        // IPv6 already rejects its headers.
        let dropped = if v6 { "malformed" } else { "fragments_dropped" };
        let before = count(&node, dropped);
        node.receive(NOW, &last);
        assert_eq!(count(&node, dropped), before + 1);
    }
}

/// A TCP segment may be fragmented if its first fragment contains the header (RFC 7112, 5).
/// Promise 61.
#[test]
fn a_fragmented_segment_is_accepted() {
    let mut node = node();
    node.stack.listen(at(0, true, 80), 8, 0).expect("free");
    let syn = Segment {
        options: vec![(2, vec![5, 160]), (8, vec![0, 0, 0, 1, 0, 0, 0, 0])],
        ..syn(9)
    };
    let whole = syn.write(MACS, ip(1, true), ip(0, true));
    for piece in fragments_of(6, true, &whole[54..], 24, 1) {
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

/// Payload of an echo request with `len` bytes of data.
fn long_echo(v6: bool, len: u32) -> Vec<u8> {
    let mut message = vec![if v6 { 128 } else { 8 }, 0, 0, 0, 0x12, 0x34, 0, 7];
    message.extend((0..len).map(|n| (n * 5) as u8));
    icmp(v6, message)[if v6 { 54 } else { 34 }..].to_vec()
}

/// Fragments that a node sends: identification, offset, whether more follow, and bytes.
fn sent_fragments(node: &mut Node, v6: bool) -> Vec<(u32, usize, bool, Vec<u8>)> {
    let word =
        |bytes: &[u8], at: usize| usize::from(u16::from_be_bytes([bytes[at], bytes[at + 1]]));
    let mut all = Vec::new();
    while let Some(frame) = node.transmit(NOW) {
        assert!(frame.len() <= 1514);
        if v6 {
            assert_eq!(
                (frame[20], frame[54], word(&frame, 18)),
                (44, 58, frame.len() - 54)
            );
            let id = u32::from_be_bytes([frame[58], frame[59], frame[60], frame[61]]);
            let at = word(&frame, 56);
            all.push((id, at & !7, at & 1 == 1, frame[62..].to_vec()));
        } else {
            assert_eq!((frame[23], word(&frame, 16)), (1, frame.len() - 14));
            assert_eq!(plain_checksum(&frame[14..34]), 0, "the header's sum");
            let at = word(&frame, 20);
            assert_eq!(at & 0xc000, 0, "a fragment may be cut");
            let (offset, more) = ((at & 0x1fff) * 8, at & 0x2000 != 0);
            all.push((word(&frame, 18) as u32, offset, more, frame[34..].to_vec()));
        }
    }
    all
}

/// RFC 1122, 3.2.2.6; RFC 4443, 4.2: the reply to a fragmented echo request contains all of its
/// data, in fragments (RFC 791, 3.2; RFC 8200, 4.5).
/// Promise 61.
#[test]
fn a_long_echo_request_is_answered_in_fragments() {
    for (v6, len) in [(false, 4000), (true, 4000), (false, 1473), (true, 60_000)] {
        let mut node = node();
        let message = long_echo(v6, len);
        let protocol = if v6 { 58 } else { 1 };
        let mut identifications = Vec::new();
        for id in 0..2 {
            for piece in fragments_of(protocol, v6, &message, 1448, id) {
                node.receive(NOW, &piece);
            }
            let pieces = sent_fragments(&mut node, v6);
            let mut whole = Vec::new();
            for (index, (id, offset, more, bytes)) in pieces.iter().enumerate() {
                assert_eq!((*id, *offset), (pieces[0].0, whole.len()));
                assert_eq!(*more, index + 1 < pieces.len());
                whole.extend(bytes);
            }
            assert_eq!(whole[0], if v6 { 129 } else { 0 });
            assert_eq!(whole[4..], message[4..]);
            let sum = if v6 {
                checksum(ip(0, v6), ip(1, v6), 58, &whole)
            } else {
                plain_checksum(&whole)
            };
            assert_eq!(sum, 0, "the sum over all fragments");
            assert_eq!(
                count(&node, "fragments_sent"),
                pieces.len() as u64 * (u64::from(id) + 1)
            );
            identifications.push(pieces[0].0);
            assert_eq!((node.event(), node.memory.in_stack()), (None, 0));
        }
        assert_ne!(identifications[0], identifications[1]);
    }
}

/// If the queue cannot take all fragments of a reply, none is sent and the buffer is returned.
/// Promise 61.
#[test]
fn an_echo_without_room_gets_no_partial_reply() {
    for v6 in [false, true] {
        let mut settings = crate::support::config(0);
        settings.limits.replies = 4;
        let mut node = Node::new(settings, NOW);
        let protocol = if v6 { 58 } else { 1 };
        for piece in fragments_of(protocol, v6, &long_echo(v6, 9000), 1448, 1) {
            node.receive(NOW, &piece);
        }
        assert_eq!((node.transmit(NOW), node.event()), (None, None));
        assert_eq!(
            (
                count(&node, "reassembled"),
                count(&node, "replies_suppressed")
            ),
            (1, 1)
        );
        assert_eq!(
            (count(&node, "echo_replies"), node.memory.in_stack()),
            (0, 0)
        );
    }
}

/// Random fragments of few datagrams, many of them overlapping, leak nothing (RFC 5722).
/// Promise 61.
#[test]
fn random_fragments_leave_nothing_behind() {
    for v6 in [false, true] {
        let mut node = udp_node(v6);
        let (data, payload) = long_datagram(v6);
        let mut random = Random::new(11);
        let mut handed_up = 0;
        let sizes = [8, 1000, 1448].into_iter();
        let sets: Vec<Vec<Vec<u8>>> = sizes
            .flat_map(|size| (0..6).map(move |id| (size, id)))
            .map(|(size, id)| fragments(v6, &payload, size, id))
            .collect();
        for _ in 0..20_000 {
            let pieces = &sets[random.below(sets.len() as u64) as usize];
            let piece = random.below(pieces.len() as u64) as usize;
            node.receive(NOW, &pieces[piece]);
            while let Some(event) = node.event() {
                let Event::UdpRecv { udp, chunk, .. } = event else {
                    panic!("{event:?}")
                };
                // A delivered datagram is one that was sent: overlaps never mix two.
                assert_eq!(node.memory.read(chunk), data);
                node.memory.free(chunk.buffer);
                node.stack.udp_recv_done(udp, 1);
                handed_up += 1;
            }
            assert_eq!(node.memory.in_stack(), 0);
        }
        assert_eq!(count(&node, "reassembled"), handed_up);
        assert!(handed_up > 0, "none was whole");
        assert!(count(&node, "fragments_dropped") > 0);
        let limit = node.stack.config().limits.reassemblies;
        assert!(node.stack.usage().reassemblies <= limit);
    }
}

/// RFC 6946, 4: an atomic fragment is accepted by itself, even if fragments with the same
/// identification are in reassembly.
/// Promise 61.
#[test]
fn an_atomic_fragment_is_a_packet_of_its_own() {
    let mut node = udp_node(true);
    let (_, long) = long_datagram(true);
    let parts = fragments(true, &long, 1480, 7);
    node.receive(NOW, &parts[0]);
    let short = datagram(true, 53, b"atomic")[54..].to_vec();
    let pieces = fragments(true, &short, 1480, 7);
    assert_eq!(pieces.len(), 1);
    node.receive(NOW, &pieces[0]);
    let Some(Event::UdpRecv { chunk, .. }) = node.event() else {
        panic!("not taken")
    };
    assert_eq!(node.memory.read(chunk), b"atomic");
    node.memory.free(chunk.buffer);
    for part in &parts[1..] {
        node.receive(NOW, part);
    }
    let Some(Event::UdpRecv { chunk, .. }) = node.event() else {
        panic!("the other is lost")
    };
    assert_eq!(chunk.len, 5000);
    node.memory.free(chunk.buffer);
    assert_eq!((node.event(), node.memory.in_stack()), (None, 0));
}
