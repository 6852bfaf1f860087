//! IPv4 (RFC 791).

use super::address::Addr;
use super::packet::{Fragment, Packet, Refused};
use super::{be16, checksum};

pub const HEADER_BYTES: usize = 20;
const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;

/// Checks the header of the packet that `bytes` begins with. Options are skipped, as
/// RFC 1122, 3.2.1.8 allows; source routes are not followed.
pub fn parse(bytes: &[u8], verified: bool) -> Result<Packet, Refused> {
    let fixed = bytes.get(..HEADER_BYTES).ok_or(Refused::Malformed)?;
    let header = usize::from(fixed[0] & 15) * 4;
    let total = usize::from(be16(fixed, 2));
    if fixed[0] >> 4 != 4 || header < HEADER_BYTES || total < header || total > bytes.len() {
        return Err(Refused::Malformed);
    }
    if !verified && checksum::sum(&bytes[..header]) != 0xffff {
        return Err(Refused::Checksum);
    }
    let word = be16(fixed, 6);
    let offset = u32::from(word & 0x1fff) * 8;
    let more = word & MORE_FRAGMENTS != 0;
    let fragment = (more || offset != 0).then(|| Fragment {
        id: u32::from(be16(fixed, 4)),
        offset,
        more,
    });
    Ok(Packet {
        source: Addr::v4_at(fixed, 12),
        destination: Addr::v4_at(fixed, 16),
        protocol: fixed[9],
        hop_limit: fixed[8],
        is_marked: fixed[1] & 3 == 3,
        payload_at: header,
        end: total,
        fragment,
        protocol_at: 9,
    })
}

/// Writes a header with "don't fragment" set (RFC 1191); the identification is then free
/// (RFC 6864, 4.1) and stays zero.
pub fn write(
    out: &mut [u8],
    source: &Addr,
    destination: &Addr,
    protocol: u8,
    hop_limit: u8,
    payload_len: usize,
) {
    let total = (HEADER_BYTES + payload_len) as u16;
    let out = &mut out[..HEADER_BYTES];
    out.fill(0);
    out[0] = 0x45;
    out[2..4].copy_from_slice(&total.to_be_bytes());
    out[6..8].copy_from_slice(&DONT_FRAGMENT.to_be_bytes());
    out[8] = hop_limit;
    out[9] = protocol;
    out[12..16].copy_from_slice(&source.octets4());
    out[16..20].copy_from_slice(&destination.octets4());
    let sum = !checksum::sum(out);
    out[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// Makes a packet whose header was just written a part of a larger one (RFC 791, 3.2): it may be
/// cut further, and has an identification.
pub fn make_fragment(packet: &mut [u8], fragment: &Fragment) {
    let out = &mut packet[..HEADER_BYTES];
    let more = if fragment.more { MORE_FRAGMENTS } else { 0 };
    out[4..6].copy_from_slice(&(fragment.id as u16).to_be_bytes());
    out[6..8].copy_from_slice(&((fragment.offset / 8) as u16 | more).to_be_bytes());
    out[10..12].fill(0);
    let sum = !checksum::sum(out);
    out[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// Says in a header that was just written that routers may mark the packet (RFC 3168, 5: ECT(0)).
pub fn allow_marks(packet: &mut [u8]) {
    let out = &mut packet[..HEADER_BYTES];
    out[1] |= 2;
    out[10..12].fill(0);
    let sum = !checksum::sum(out);
    out[10..12].copy_from_slice(&sum.to_be_bytes());
}
