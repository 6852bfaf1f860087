//! IPv6 (RFC 8200).

use super::address::Addr;
use super::packet::{Fragment, Packet, Refused};
use super::{be16, be32, icmp, ip, tcp, udp};
use crate::tuning::belief::MOST_EXTENSION_HEADERS;

pub const HEADER_BYTES: usize = 40;
/// RFC 8200, 4.5.
pub const FRAGMENT_HEADER_BYTES: usize = 8;
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const NONE: u8 = 59;
const DESTINATION: u8 = 60;
/// Where the payload length stands in the header.
const LENGTH_AT: usize = 4;
/// And the protocol of what comes next.
const NEXT_HEADER_AT: usize = 6;

/// Codes of ICMPv6's parameter problem (RFC 4443, 3.4; RFC 7112, 5).
mod code {
    pub const FIELD: u8 = 0;
    pub const NEXT_HEADER: u8 = 1;
    pub const OPTION: u8 = 2;
    pub const FIRST_FRAGMENT: u8 = 3;
}

/// A packet that its sender is to be told of (RFC 8200, 4; RFC 4443, 3.4: parameter problem).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Problem {
    /// Of the message.
    pub code: u8,
    /// Where in the packet the problem is.
    pub pointer: u32,
    /// Also where the packet went to a group (RFC 8200, 4.2).
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

    const fn refused(code: u8, pointer: usize) -> Refused {
        Refused::Problem(Self::new(code, pointer))
    }

    /// The protocol of the payload is none that is spoken here, if it is one at all.
    pub fn of_protocol(packet: &Packet) -> Option<Self> {
        (packet.protocol != NONE).then(|| Self::new(code::NEXT_HEADER, packet.protocol_at))
    }

    /// A fragment that can be no part of a packet: its length is not a multiple of eight bytes though
    /// more follow, or it ends behind the largest packet (RFC 8200, 4.5).
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

/// The header alone, with what it says comes next as the payload's protocol.
pub fn parse_header(bytes: &[u8]) -> Result<Packet, Refused> {
    let fixed = bytes.get(..HEADER_BYTES).ok_or(Refused::Malformed)?;
    let end = HEADER_BYTES + usize::from(be16(fixed, LENGTH_AT));
    if fixed[0] >> 4 != 6 || end > bytes.len() {
        return Err(Refused::Malformed);
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

/// Checks the header and the extension headers of the packet that `bytes` begins with, up to a
/// fragment's. We follow no routing header, and know no option but padding.
pub fn parse(bytes: &[u8]) -> Result<Packet, Refused> {
    let mut packet = parse_header(bytes)?;
    follow(bytes, &mut packet, 0)?;
    if let Some(fragment) = packet.fragment {
        if let Some(problem) = Problem::of_fragment(&packet, &fragment) {
            return Err(Refused::Problem(problem));
        }
        if fragment.offset == 0 && !has_upper_layer(bytes, &packet) {
            return Err(Problem::refused(code::FIRST_FRAGMENT, 0));
        }
    }
    Ok(packet)
}

/// Goes on in a packet that was put together: `bytes` are what lay behind the fragment headers.
/// Places in a problem are those of the packet with nothing but a header before them.
pub fn follow_whole(bytes: &[u8], packet: &mut Packet) -> Result<(), Refused> {
    packet.protocol_at = NEXT_HEADER_AT;
    follow(bytes, packet, HEADER_BYTES)
}

/// Follows the extension headers from the packet's payload on, until a fragment's or one that is
/// none. `shift`: what `bytes` lack of the packet at its start.
fn follow(bytes: &[u8], packet: &mut Packet, shift: usize) -> Result<(), Refused> {
    for _ in 0..=MOST_EXTENSION_HEADERS {
        let at = packet.payload_at;
        let bytes = bytes.get(..packet.end).ok_or(Refused::Malformed)?;
        match packet.protocol {
            // Only the first may be (RFC 8200, 4.1); elsewhere it is no header that can be known.
            HOP_BY_HOP if shift != 0 || at != HEADER_BYTES => {
                return Err(Problem::refused(code::NEXT_HEADER, packet.protocol_at));
            }
            HOP_BY_HOP | DESTINATION | ROUTING => {
                let (next, len) = extension(bytes, at).ok_or(Refused::Malformed)?;
                if packet.protocol == ROUTING {
                    // RFC 8200, 4.4: with segments left it cannot be ignored.
                    if bytes[at + 3] != 0 {
                        return Err(Problem::refused(code::FIELD, shift + at + 2));
                    }
                } else {
                    check_options(&bytes[..at + len], at + 2, shift)?;
                }
                (packet.protocol, packet.protocol_at) = (next, shift + at);
                packet.payload_at = at + len;
            }
            FRAGMENT => {
                let header = bytes.get(at..at + FRAGMENT_HEADER_BYTES);
                let header = header.ok_or(Refused::Malformed)?;
                let word = be16(header, 2);
                let fragment = Fragment {
                    id: be32(header, 4),
                    offset: u32::from(word & 0xfff8),
                    more: word & 1 != 0,
                };
                (packet.protocol, packet.protocol_at) = (header[0], shift + at);
                packet.payload_at = at + FRAGMENT_HEADER_BYTES;
                // One fragment is the whole packet (RFC 6946): handled as if unfragmented.
                if fragment.more || fragment.offset != 0 {
                    packet.fragment = Some(fragment);
                    return Ok(());
                }
            }
            _ => return Ok(()),
        }
    }
    Err(Refused::Malformed)
}

/// What an extension header (of options, or for routing) at `at` says comes next, and its length,
/// if all of it is there.
fn extension(bytes: &[u8], at: usize) -> Option<(u8, usize)> {
    let [next, words, ..] = *bytes.get(at..)? else {
        return None;
    };
    let len = 8 + 8 * usize::from(words);
    bytes.get(at..at + len).map(|_| (next, len))
}

/// The headers from the one at `at` on, whatever they say: protocol and place of each, that of the
/// upper layer last, as far as they are there.
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

/// Whether a first fragment has all headers of its packet, that of the upper layer included
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

/// Whether a packet has a fragment header, also one that makes no fragment of it (RFC 6946).
pub fn has_fragment_header(bytes: &[u8]) -> bool {
    let has = |packet: Packet| {
        headers(bytes, packet.protocol, packet.payload_at).any(|(kind, _)| kind == FRAGMENT)
    };
    parse_header(bytes).is_ok_and(has)
}

/// Whether what begins at `at` ends in an ICMPv6 error, which is never answered by one (RFC 4443,
/// 2.4 e.1).
pub fn is_icmp_error(bytes: &[u8], protocol: u8, at: usize) -> bool {
    let last = headers(bytes, protocol, at).last();
    last.is_some_and(|(protocol, at)| {
        protocol == ip::ICMPV6 && bytes.get(at).is_some_and(|kind| kind & 0x80 == 0)
    })
}

/// Looks at the options of a header, from `at` to the end of `bytes`: the two highest bits of an
/// option that is not known say what becomes of the packet (RFC 8200, 4.2).
fn check_options(bytes: &[u8], mut at: usize, shift: usize) -> Result<(), Refused> {
    while let Some(&kind) = bytes.get(at) {
        if kind == 0 {
            at += 1;
            continue;
        }
        let len = usize::from(*bytes.get(at + 1).ok_or(Refused::Malformed)?);
        if at + 2 + len > bytes.len() {
            return Err(Refused::Malformed);
        }
        let problem = Problem::new(code::OPTION, shift + at);
        match kind >> 6 {
            0 => {}
            1 => return Err(Refused::Malformed),
            action => {
                return Err(Refused::Problem(Problem {
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

/// Makes a packet whose header was just written a part of a larger one (RFC 8200, 4.5).
pub fn make_fragment(packet: &mut [u8], protocol: u8, fragment: &Fragment) {
    packet[6] = FRAGMENT;
    let out = &mut packet[HEADER_BYTES..HEADER_BYTES + FRAGMENT_HEADER_BYTES];
    out[..2].copy_from_slice(&[protocol, 0]);
    out[2..4].copy_from_slice(&(fragment.offset as u16 | u16::from(fragment.more)).to_be_bytes());
    out[4..8].copy_from_slice(&fragment.id.to_be_bytes());
}

/// Says in a header that was just written that routers may mark the packet (RFC 3168, 5: ECT(0)).
pub fn allow_marks(packet: &mut [u8]) {
    packet[1] |= 0x20;
}
