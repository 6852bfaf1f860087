//! Parses a captured frame to its 5-tuple. Accepts any bytes: truncated, inconsistent, nested.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;
/// Types of 802.1Q and 802.1ad.
const VLAN: [u16; 2] = [0x8100, 0x88a8];
/// Most VLAN tags or IPv6 extension headers; a packet with more is unattributed.
const MOST_NESTED: usize = 8;

/// Bytes of struct virtio_net_hdr, which precedes the frame (PACKET_VNET_HDR).
const VNET_BYTES: usize = 10;
const ETHERNET_BYTES: usize = 14;
/// Length of an IPv6 header with extension headers and of TCP with options.
const MOST_HEADER_BYTES: usize = 160;

/// 5-tuple of a packet. Later fragments of a datagram have no ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Flow {
    /// Number of the protocol above IP.
    pub protocol: u8,
    /// Sender.
    pub source: IpAddr,
    /// Receiver.
    pub destination: IpAddr,
    /// Ports of sender and receiver; `None` if the protocol has none or the packet does not contain
    /// them.
    pub ports: Option<(u16, u16)>,
    /// Whether it is part of a fragmented datagram.
    pub fragment: bool,
}

/// One captured packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The 5-tuple; `None` if it is not IP, or if it was cut off before its addresses.
    pub flow: Option<Flow>,
    /// Packets on the wire that GRO or TSO merged into it, at least 1.
    pub segments: u32,
}

/// Parses a frame from the packet socket: struct virtio_net_hdr, then an Ethernet header if
/// `ethernet`, then the IP packet. `length_bytes` is the frame's own length, which may be more than
/// the captured bytes.
pub fn packet(captured: &[u8], length_bytes: usize, ethernet: bool) -> Packet {
    let (vnet, frame) = captured.split_at(captured.len().min(VNET_BYTES));
    let link_bytes = if ethernet { ETHERNET_BYTES } else { 0 };
    Packet {
        flow: if ethernet {
            of_ethernet(frame)
        } else {
            of_ip(frame, None)
        },
        segments: segments(vnet, length_bytes.saturating_sub(link_bytes)),
    }
}

/// Reads linux/virtio_net.h: flags, gso_type, hdr_len, gso_size, csum_start, csum_offset; native
/// byte order.
fn segments(vnet: &[u8], ip_bytes: usize) -> u32 {
    let &[_, gso_type, h0, h1, g0, g1, ..] = vnet else {
        return 1;
    };
    let gso_bytes = usize::from(u16::from_ne_bytes([g0, g1]));
    if gso_type == 0 || gso_bytes == 0 {
        return 1;
    }
    // hdr_len is the linear part from the link header on. That is the headers alone if GRO or TCP
    // built the packet; otherwise assume IPv4 and TCP with timestamps.
    let stated = usize::from(u16::from_ne_bytes([h0, h1])).saturating_sub(ETHERNET_BYTES);
    let header_bytes = if (28..=MOST_HEADER_BYTES).contains(&stated) {
        stated
    } else {
        52
    };
    let count = ip_bytes.saturating_sub(header_bytes).div_ceil(gso_bytes);
    u32::try_from(count)
        .unwrap_or(u32::MAX)
        .clamp(1, u32::from(u16::MAX))
}

fn of_ethernet(frame: &[u8]) -> Option<Flow> {
    let mut at = 12;
    for _ in 0..MOST_NESTED {
        let ether_type = u16_at(frame, at)?;
        if !VLAN.contains(&ether_type) {
            return of_ip(frame.get(at + 2..)?, Some(ether_type));
        }
        at += 4;
    }
    None
}

/// `ether_type` is `None` on devices without a link header.
fn of_ip(packet: &[u8], ether_type: Option<u16>) -> Option<Flow> {
    match (packet.first()? >> 4, ether_type) {
        (4, None | Some(IPV4)) => of_ipv4(packet),
        (6, None | Some(IPV6)) => of_ipv6(packet),
        _ => None,
    }
}

fn of_ipv4(packet: &[u8]) -> Option<Flow> {
    let header_bytes = usize::from(packet.first()? & 0xf) * 4;
    if header_bytes < 20 {
        return None;
    }
    let address = |at| Some(IpAddr::from(Ipv4Addr::from(bytes_at::<4>(packet, at)?)));
    // RFC 791: flags and fragment offset.
    let fragmentation = u16_at(packet, 6)?;
    let (more, offset) = (fragmentation & 0x2000 != 0, fragmentation & 0x1fff);
    let protocol = *packet.get(9)?;
    Some(Flow {
        protocol,
        source: address(12)?,
        destination: address(16)?,
        ports: (offset == 0)
            .then(|| ports(packet, header_bytes, protocol))
            .flatten(),
        fragment: more || offset != 0,
    })
}

fn of_ipv6(packet: &[u8]) -> Option<Flow> {
    let address = |at| Some(IpAddr::from(Ipv6Addr::from(bytes_at::<16>(packet, at)?)));
    let mut flow = Flow {
        protocol: *packet.get(6)?,
        source: address(8)?,
        destination: address(24)?,
        ports: None,
        fragment: false,
    };
    let (mut at, mut first) = (40, true);
    for _ in 0..MOST_NESTED {
        // RFC 8200, 4: hop-by-hop, routing, destination options; fragment. RFC 4302:
        // authentication.
        let length_bytes = match flow.protocol {
            0 | 43 | 60 => packet.get(at + 1).map(|n| (usize::from(*n) + 1) * 8),
            51 => packet.get(at + 1).map(|n| (usize::from(*n) + 2) * 4),
            44 => {
                let offset = u16_at(packet, at + 2);
                first = offset.is_some_and(|offset| offset & 0xfff8 == 0);
                // An atomic fragment (RFC 6946) is a whole datagram.
                flow.fragment = offset.is_none_or(|offset| offset & 0xfff9 != 0);
                Some(8)
            }
            _ => {
                flow.ports = first.then(|| ports(packet, at, flow.protocol)).flatten();
                return Some(flow);
            }
        };
        // Cut off among the headers: the addresses are valid.
        let (Some(next), Some(length_bytes)) = (packet.get(at), length_bytes) else {
            return Some(flow);
        };
        flow.protocol = *next;
        at += length_bytes;
        if !first {
            return Some(flow);
        }
    }
    Some(flow)
}

/// Reads the ports. TCP, UDP, DCCP, SCTP and UDP-Lite have them at the same place.
fn ports(packet: &[u8], at: usize, protocol: u8) -> Option<(u16, u16)> {
    if !matches!(protocol, 6 | 17 | 33 | 132 | 136) {
        return None;
    }
    Some((u16_at(packet, at)?, u16_at(packet, at + 2)?))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes_at(bytes, at).map(u16::from_be_bytes)
}

fn bytes_at<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

#[cfg(test)]
mod tests;
