//! The link layer that packetdrill lacks: Ethernet headers, and one neighbour for all addresses.

use crate::flags::OURS;
use cofferdam_netstack::{Checksum, MacAddress};

/// Ethernet address of the neighbour, which answers every request, whatever address it is for.
const THEIRS: MacAddress = MacAddress([2, 0, 0, 0, 0, 2]);
const ETHERNET_BYTES: usize = 14;
const ARP: [u8; 2] = [8, 6];
const IPV4: [u8; 2] = [8, 0];
const IPV6: [u8; 2] = [0x86, 0xdd];

fn header(to: MacAddress, kind: [u8; 2]) -> Vec<u8> {
    [&to.0[..], &THEIRS.0, &kind].concat()
}

/// Wraps an IP packet in a frame to us; `None` if it is neither IPv4 nor IPv6.
pub fn frame(packet: &[u8]) -> Option<Vec<u8>> {
    let kind = match packet.first()? >> 4 {
        4 => IPV4,
        6 => IPV6,
        _ => return None,
    };
    let mut frame = header(OURS, kind);
    frame.extend(packet);
    Some(frame)
}

/// A classified frame from the stack.
#[derive(Debug, PartialEq, Eq)]
pub enum LinkFrame {
    /// An IP packet for packetdrill.
    Packet(Vec<u8>),
    /// A request for the owner of an address; the value is its answer.
    Question(Vec<u8>),
    /// Another neighbour message, which needs no answer.
    Nothing,
}

/// Classifies a frame from the stack.
pub fn classify(frame: &[u8]) -> LinkFrame {
    let Some((link, packet)) = frame.split_at_checked(ETHERNET_BYTES) else {
        return LinkFrame::Nothing;
    };
    match [link[12], link[13]] {
        ARP => arp_reply(packet).map_or(LinkFrame::Nothing, LinkFrame::Question),
        IPV6 if is_neighbour_message(packet) => {
            advertisement(packet).map_or(LinkFrame::Nothing, LinkFrame::Question)
        }
        _ => LinkFrame::Packet(packet.to_vec()),
    }
}

/// Answers an ARP request: sender and target change places (RFC 826).
fn arp_reply(request: &[u8]) -> Option<Vec<u8>> {
    let (sender, target) = (request.get(14..18)?, request.get(24..28)?);
    if request.get(6..8)? != [0, 1] {
        return None;
    }
    let mut reply = header(OURS, ARP);
    reply.extend([0, 1, 8, 0, 6, 4, 0, 2]);
    reply.extend(THEIRS.0);
    reply.extend(target);
    reply.extend(OURS.0);
    reply.extend(sender);
    Some(reply)
}

/// Whether it is a neighbour discovery message, ICMPv6 type 133 to 137 (RFC 4861, 4).
fn is_neighbour_message(packet: &[u8]) -> bool {
    packet.get(6) == Some(&58)
        && packet
            .get(40)
            .is_some_and(|kind| (133..=137).contains(kind))
}

/// Answers a neighbour solicitation with the neighbour's address [`THEIRS`] and the flags solicited
/// and override (RFC 4861, 4.4).
fn advertisement(solicitation: &[u8]) -> Option<Vec<u8>> {
    let (source, target) = (solicitation.get(8..24)?, solicitation.get(48..64)?);
    if solicitation.get(40) != Some(&135) {
        return None;
    }
    const ADVERTISEMENT_BYTES: u8 = 32;
    let mut reply = header(OURS, IPV6);
    reply.extend([0x60, 0, 0, 0, 0, ADVERTISEMENT_BYTES, 58, 255]);
    reply.extend(target);
    reply.extend(source);
    let pseudo = (source.chunks(2).chain(target.chunks(2)))
        .map(|word| u32::from(word[0]) << 8 | u32::from(word[1]))
        .sum::<u32>()
        + u32::from(ADVERTISEMENT_BYTES)
        + 58;
    let pseudo = (pseudo & 0xffff) + (pseudo >> 16);
    let pseudo = ((pseudo & 0xffff) + (pseudo >> 16)) as u16;
    reply.extend([136, 0]);
    reply.extend(pseudo.to_be_bytes());
    reply.extend([0x60, 0, 0, 0]);
    reply.extend(target);
    reply.extend([2, 1]);
    reply.extend(THEIRS.0);
    let checksum = Checksum {
        start: (ETHERNET_BYTES + 40) as u16,
        offset: 2,
        zero_means_none: false,
    };
    checksum.complete(&mut reply);
    Some(reply)
}
