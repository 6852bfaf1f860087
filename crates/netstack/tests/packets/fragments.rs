//! Datagrams and segments in pieces.

use crate::support::faults::Random;
use crate::support::node::Node;
use crate::support::segment::{Segment, flags, frame, plain_checksum};
use crate::support::{at, ip};
use crate::{MACS, NOW, count, datagram, node, syn};
use cofferdam_netstack::*;

/// Fragments of a packet: bytes of each, and whether more follow.
pub fn fragments(v6: bool, payload: &[u8], size: usize, id: u16) -> Vec<Vec<u8>> {
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

pub fn long_datagram(v6: bool) -> (Vec<u8>, Vec<u8>) {
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
        options: vec![(2, vec![5, 160])],
        ..syn(9)
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
