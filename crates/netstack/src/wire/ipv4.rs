//! IPv4 (RFC 791).

use super::address::Addr;
use super::packet::{Fragment, Packet, PacketError};
use super::{be16, checksum};

pub const HEADER_BYTES: usize = 20;
const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;

/// Checks the header of the packet in `bytes`. Skips options, as RFC 1122, 3.2.1.8, allows, and
/// does not follow source routes.
pub fn parse(bytes: &[u8], verified: bool) -> Result<Packet, PacketError> {
    let fixed = bytes.get(..HEADER_BYTES).ok_or(PacketError::Malformed)?;
    let header = usize::from(fixed[0] & 15) * 4;
    let total = usize::from(be16(fixed, 2));
    if fixed[0] >> 4 != 4 || header < HEADER_BYTES || total < header || total > bytes.len() {
        return Err(PacketError::Malformed);
    }
    if !verified && checksum::sum(&bytes[..header]) != 0xffff {
        return Err(PacketError::Checksum);
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

/// Writes a header with "don't fragment" set (RFC 1191). The identification is zero, as such a
/// packet needs none (RFC 6864, 4.1).
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

/// Changes the header that was just written into a fragment's (RFC 791, 3.2): it has an
/// identification, and routers may fragment it further.
pub fn make_fragment(packet: &mut [u8], fragment: &Fragment) {
    let out = &mut packet[..HEADER_BYTES];
    let more = if fragment.more { MORE_FRAGMENTS } else { 0 };
    out[4..6].copy_from_slice(&(fragment.id as u16).to_be_bytes());
    out[6..8].copy_from_slice(&((fragment.offset / 8) as u16 | more).to_be_bytes());
    out[10..12].fill(0);
    let sum = !checksum::sum(out);
    out[10..12].copy_from_slice(&sum.to_be_bytes());
}

/// Sets ECT(0) in the header that was just written: routers may mark the packet (RFC 3168, 5).
pub fn allow_marks(packet: &mut [u8]) {
    let out = &mut packet[..HEADER_BYTES];
    out[1] |= 2;
    out[10..12].fill(0);
    let sum = !checksum::sum(out);
    out[10..12].copy_from_slice(&sum.to_be_bytes());
}
