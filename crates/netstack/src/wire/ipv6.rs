//! IPv6 (RFC 8200).

use super::address::Addr;
use super::packet::{Fragment, Packet, Refused};
use super::{be16, be32};
use crate::tuning::belief::MOST_EXTENSION_HEADERS;

pub const HEADER_BYTES: usize = 40;
/// RFC 8200, 4.5.
pub const FRAGMENT_HEADER_BYTES: usize = 8;
const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION: u8 = 60;

/// Checks the header and the extension headers of the packet that `bytes` begins with.
/// A routing header with segments left and an option that must be understood make the packet
/// malformed: we follow none.
pub fn parse(bytes: &[u8]) -> Result<Packet, Refused> {
    let fixed = bytes.get(..HEADER_BYTES).ok_or(Refused::Malformed)?;
    let end = HEADER_BYTES + usize::from(be16(fixed, 4));
    if fixed[0] >> 4 != 6 || end > bytes.len() {
        return Err(Refused::Malformed);
    }
    let mut packet = Packet {
        source: Addr::v6_at(fixed, 8),
        destination: Addr::v6_at(fixed, 24),
        protocol: fixed[6],
        hop_limit: fixed[7],
        is_marked: fixed[1] & 0x30 == 0x30,
        payload_at: HEADER_BYTES,
        end,
        fragment: None,
        protocol_at: 6,
    };
    for count in 0..=MOST_EXTENSION_HEADERS {
        let at = packet.payload_at;
        let bytes = bytes.get(..end).ok_or(Refused::Malformed)?;
        match packet.protocol {
            HOP_BY_HOP if count > 0 => return Err(Refused::Malformed),
            HOP_BY_HOP | DESTINATION | ROUTING => {
                let next = *bytes.get(at).ok_or(Refused::Malformed)?;
                let len = 8 + 8 * usize::from(*bytes.get(at + 1).ok_or(Refused::Malformed)?);
                let body = bytes.get(at + 2..at + len).ok_or(Refused::Malformed)?;
                let fine = match packet.protocol {
                    ROUTING => body.get(1) == Some(&0),
                    _ => options_may_be_skipped(body),
                };
                if !fine {
                    return Err(Refused::Malformed);
                }
                (packet.protocol, packet.protocol_at, packet.payload_at) = (next, at, at + len);
            }
            FRAGMENT => {
                let header = bytes.get(at..at + 8).ok_or(Refused::Malformed)?;
                let word = be16(header, 2);
                let fragment = Fragment {
                    id: be32(header, 4),
                    offset: u32::from(word & 0xfff8),
                    more: word & 1 != 0,
                };
                (packet.protocol, packet.protocol_at, packet.payload_at) = (header[0], at, at + 8);
                // One fragment is the whole packet (RFC 6946): handled as if unfragmented.
                if fragment.more || fragment.offset != 0 {
                    packet.fragment = Some(fragment);
                    return Ok(packet);
                }
            }
            _ => return Ok(packet),
        }
    }
    Err(Refused::Malformed)
}

/// Whether all options of a header may be skipped by a host that does not know them (RFC 8200, 4.2:
/// the two highest bits of the type are zero).
fn options_may_be_skipped(mut body: &[u8]) -> bool {
    while let [kind, rest @ ..] = body {
        if *kind == 0 {
            body = rest;
            continue;
        }
        let [len, rest @ ..] = rest else { return false };
        let Some(after) = rest.get(usize::from(*len)..) else {
            return false;
        };
        if kind >> 6 != 0 {
            return false;
        }
        body = after;
    }
    true
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
