//! IPv6 (RFC 8200).

use super::address::Addr;
use super::packet::{Fragment, Packet, PacketError};
use super::{be16, be32, icmp, ip, tcp, udp};
use crate::tuning::belief::MOST_EXTENSION_HEADERS;

pub const HEADER_BYTES: usize = 40;
/// Length of the fragment header (RFC 8200, 4.5).
pub const FRAGMENT_HEADER_BYTES: usize = 8;
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const NONE: u8 = 59;
const DESTINATION: u8 = 60;
/// Offset of the payload length in the header.
const LENGTH_AT: usize = 4;
/// Offset of the next header's number in the header.
const NEXT_HEADER_AT: usize = 6;

/// Codes of ICMPv6 parameter problems (RFC 4443, 3.4; RFC 7112, 5).
mod code {
    pub const FIELD: u8 = 0;
    pub const NEXT_HEADER: u8 = 1;
    pub const OPTION: u8 = 2;
    pub const FIRST_FRAGMENT: u8 = 3;
}

/// Parameter problem to report to a packet's sender (RFC 8200, 4; RFC 4443, 3.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Problem {
    /// Code of the ICMPv6 message.
    pub code: u8,
    /// Offset of the wrong field in the packet.
    pub pointer: u32,
    /// Whether the stack also reports the problem if the packet was multicast (RFC 8200, 4.2).
    pub is_for_groups: bool,
}

impl Problem {
    const fn new(code: u8, pointer: usize) -> Self {
        Self {
            code,
            pointer: pointer as u32,
            is_for_groups: false,
        }
    }

    const fn error_at(code: u8, pointer: usize) -> PacketError {
        PacketError::Problem(Self::new(code, pointer))
    }

    /// The problem of a payload whose protocol the stack does not support; `None` if there is no
    /// payload.
    pub fn of_protocol(packet: &Packet) -> Option<Self> {
        (packet.protocol != NONE).then(|| Self::new(code::NEXT_HEADER, packet.protocol_at))
    }

    /// The problem of an invalid fragment (RFC 8200, 4.5): a length that is no multiple of eight
    /// bytes in a fragment that is not the last, or an end beyond the largest packet.
    pub fn of_fragment(packet: &Packet, fragment: &Fragment) -> Option<Self> {
        let len = (packet.end - packet.payload_at) as u32;
        let headers = packet.protocol_at - HEADER_BYTES;
        if fragment.more && !len.is_multiple_of(8) {
            Some(Self::new(code::FIELD, LENGTH_AT))
        } else if headers as u32 + fragment.offset + len > 0xffff {
            Some(Self::new(code::FIELD, packet.protocol_at + 2))
        } else {
            None
        }
    }
}

/// Parses only the fixed header. The protocol is that of the first extension header, if there is
/// one.
pub fn parse_header(bytes: &[u8]) -> Result<Packet, PacketError> {
    let fixed = bytes.get(..HEADER_BYTES).ok_or(PacketError::Malformed)?;
    let end = HEADER_BYTES + usize::from(be16(fixed, LENGTH_AT));
    if fixed[0] >> 4 != 6 || end > bytes.len() {
        return Err(PacketError::Malformed);
    }
    Ok(Packet {
        source: Addr::v6_at(fixed, 8),
        destination: Addr::v6_at(fixed, 24),
        protocol: fixed[6],
        hop_limit: fixed[7],
        is_marked: fixed[1] & 0x30 == 0x30,
        payload_at: HEADER_BYTES,
        end,
        fragment: None,
        protocol_at: NEXT_HEADER_AT,
    })
}

/// Checks the header and the extension headers of the packet in `bytes`, up to a fragment header.
/// The stack supports no routing header and no option but padding.
pub fn parse(bytes: &[u8]) -> Result<Packet, PacketError> {
    let mut packet = parse_header(bytes)?;
    follow(bytes, &mut packet, 0)?;
    if let Some(fragment) = packet.fragment {
        if let Some(problem) = Problem::of_fragment(&packet, &fragment) {
            return Err(PacketError::Problem(problem));
        }
        if fragment.offset == 0 && !has_upper_layer(bytes, &packet) {
            return Err(Problem::error_at(code::FIRST_FRAGMENT, 0));
        }
    }
    Ok(packet)
}

/// Parses the extension headers of a reassembled packet: `bytes` is the content behind the fragment
/// headers. Offsets in a problem assume that only the fixed header precedes it.
pub fn follow_whole(bytes: &[u8], packet: &mut Packet) -> Result<(), PacketError> {
    packet.protocol_at = NEXT_HEADER_AT;
    follow(bytes, packet, HEADER_BYTES)
}

/// Parses the extension headers from the packet's payload on, until a fragment header or the upper
/// layer. `shift` is the number of the packet's bytes that `bytes` lacks at its start.
fn follow(bytes: &[u8], packet: &mut Packet, shift: usize) -> Result<(), PacketError> {
    for _ in 0..=MOST_EXTENSION_HEADERS {
        let at = packet.payload_at;
        let bytes = bytes.get(..packet.end).ok_or(PacketError::Malformed)?;
        match packet.protocol {
            // The hop-by-hop header must be the first (RFC 8200, 4.1); elsewhere its number is
            // unknown.
            HOP_BY_HOP if shift != 0 || at != HEADER_BYTES => {
                return Err(Problem::error_at(code::NEXT_HEADER, packet.protocol_at));
            }
            HOP_BY_HOP | DESTINATION | ROUTING => {
                let (next, len) = extension(bytes, at).ok_or(PacketError::Malformed)?;
                if packet.protocol == ROUTING {
                    // A routing header with segments left must not be ignored (RFC 8200, 4.4).
                    if bytes[at + 3] != 0 {
                        return Err(Problem::error_at(code::FIELD, shift + at + 2));
                    }
                } else {
                    check_options(&bytes[..at + len], at + 2, shift)?;
                }
                (packet.protocol, packet.protocol_at) = (next, shift + at);
                packet.payload_at = at + len;
            }
            FRAGMENT => {
                let header = bytes.get(at..at + FRAGMENT_HEADER_BYTES);
                let header = header.ok_or(PacketError::Malformed)?;
                let word = be16(header, 2);
                let fragment = Fragment {
                    id: be32(header, 4),
                    offset: u32::from(word & 0xfff8),
                    more: word & 1 != 0,
                };
                (packet.protocol, packet.protocol_at) = (header[0], shift + at);
                packet.payload_at = at + FRAGMENT_HEADER_BYTES;
                // A single fragment is a whole packet and is handled as such (RFC 6946).
                if fragment.more || fragment.offset != 0 {
                    packet.fragment = Some(fragment);
                    return Ok(());
                }
            }
            _ => return Ok(()),
        }
    }
    Err(PacketError::Malformed)
}

/// Number of the next header and length of the extension header at `at` (options or routing).
/// Returns `None` if the header is incomplete.
fn extension(bytes: &[u8], at: usize) -> Option<(u8, usize)> {
    let [next, words, ..] = *bytes.get(at..)? else {
        return None;
    };
    let len = 8 + 8 * usize::from(words);
    bytes.get(at..at + len).map(|_| (next, len))
}

/// Protocol and offset of each header from `at` on, unchecked. The upper layer comes last if the
/// chain is complete.
fn headers(bytes: &[u8], protocol: u8, at: usize) -> impl Iterator<Item = (u8, usize)> {
    let next = |&(protocol, at): &(u8, usize)| match protocol {
        HOP_BY_HOP | DESTINATION | ROUTING => {
            extension(bytes, at).map(|(next, len)| (next, at + len))
        }
        FRAGMENT => {
            let header = bytes.get(at..at + FRAGMENT_HEADER_BYTES)?;
            Some((header[0], at + FRAGMENT_HEADER_BYTES))
        }
        _ => None,
    };
    std::iter::successors(Some((protocol, at)), next).take(MOST_EXTENSION_HEADERS + 2)
}

/// Whether a first fragment contains all headers of its packet, including that of the upper layer
/// (RFC 7112, 5; RFC 8200, 4.5).
fn has_upper_layer(bytes: &[u8], packet: &Packet) -> bool {
    let bytes = &bytes[..packet.end];
    let last = headers(bytes, packet.protocol, packet.payload_at).last();
    last.is_some_and(|(protocol, at)| {
        let least = match protocol {
            HOP_BY_HOP | DESTINATION | ROUTING | FRAGMENT => return false,
            ip::TCP => tcp::HEADER_BYTES,
            ip::UDP => udp::HEADER_BYTES,
            ip::ICMPV6 => icmp::HEADER_BYTES,
            _ => 0,
        };
        bytes.len() - at >= least
    })
}

/// Whether the packet has a fragment header, even one of a single fragment (RFC 6946).
pub fn has_fragment_header(bytes: &[u8]) -> bool {
    let has = |packet: Packet| {
        headers(bytes, packet.protocol, packet.payload_at).any(|(kind, _)| kind == FRAGMENT)
    };
    parse_header(bytes).is_ok_and(has)
}

/// Whether the headers from `at` on lead to an ICMPv6 error, which must not be answered with
/// another error (RFC 4443, 2.4 e.1).
pub fn is_icmp_error(bytes: &[u8], protocol: u8, at: usize) -> bool {
    let last = headers(bytes, protocol, at).last();
    last.is_some_and(|(protocol, at)| {
        protocol == ip::ICMPV6 && bytes.get(at).is_some_and(|kind| kind & 0x80 == 0)
    })
}

/// Checks the options of a header, from `at` to the end of `bytes`. The two highest bits of an
/// unknown option determine whether the packet is accepted (RFC 8200, 4.2).
fn check_options(bytes: &[u8], mut at: usize, shift: usize) -> Result<(), PacketError> {
    while let Some(&kind) = bytes.get(at) {
        if kind == 0 {
            at += 1;
            continue;
        }
        let len = usize::from(*bytes.get(at + 1).ok_or(PacketError::Malformed)?);
        if at + 2 + len > bytes.len() {
            return Err(PacketError::Malformed);
        }
        let problem = Problem::new(code::OPTION, shift + at);
        match kind >> 6 {
            0 => {}
            1 => return Err(PacketError::Malformed),
            action => {
                return Err(PacketError::Problem(Problem {
                    is_for_groups: action == 2,
                    ..problem
                }));
            }
        }
        at += 2 + len;
    }
    Ok(())
}

/// Writes a header.
pub fn write(
    out: &mut [u8],
    source: &Addr,
    destination: &Addr,
    protocol: u8,
    hop_limit: u8,
    payload_len: usize,
) {
    out[..4].copy_from_slice(&[0x60, 0, 0, 0]);
    out[4..6].copy_from_slice(&(payload_len as u16).to_be_bytes());
    out[6] = protocol;
    out[7] = hop_limit;
    out[8..24].copy_from_slice(&source.0);
    out[24..40].copy_from_slice(&destination.0);
}

/// Changes the header that was just written into a fragment's (RFC 8200, 4.5).
pub fn make_fragment(packet: &mut [u8], protocol: u8, fragment: &Fragment) {
    packet[6] = FRAGMENT;
    let out = &mut packet[HEADER_BYTES..HEADER_BYTES + FRAGMENT_HEADER_BYTES];
    out[..2].copy_from_slice(&[protocol, 0]);
    out[2..4].copy_from_slice(&(fragment.offset as u16 | u16::from(fragment.more)).to_be_bytes());
    out[4..8].copy_from_slice(&fragment.id.to_be_bytes());
}

/// Sets ECT(0) in the header that was just written: routers may mark the packet (RFC 3168, 5).
pub fn allow_marks(packet: &mut [u8]) {
    packet[1] |= 0x20;
}
