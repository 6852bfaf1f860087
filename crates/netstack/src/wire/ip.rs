//! Functions for both versions of IP; the address determines the version.

use super::address::Addr;
use super::packet::Fragment;
use super::{checksum, ipv4, ipv6};

pub const ICMP: u8 = 1;
pub const TCP: u8 = 6;
pub const UDP: u8 = 17;
pub const ICMPV6: u8 = 58;

/// Sum of the pseudo header (RFC 9293, 3.1; RFC 8200, 8.1), folded and not inverted.
pub fn pseudo_sum(source: &Addr, destination: &Addr, protocol: u8, len: usize) -> u16 {
    let addresses = if source.is_v4() {
        checksum::add(
            checksum::sum(&source.0[12..]),
            checksum::sum(&destination.0[12..]),
        )
    } else {
        checksum::add(checksum::sum(&source.0), checksum::sum(&destination.0))
    };
    let len = checksum::add((len >> 16) as u16, len as u16);
    checksum::add(addresses, checksum::add(u16::from(protocol), len))
}

/// Length of an IP header without options.
pub fn header_bytes(v4: bool) -> usize {
    if v4 {
        ipv4::HEADER_BYTES
    } else {
        ipv6::HEADER_BYTES
    }
}

/// Additional header bytes of a fragment, compared with a whole packet.
pub fn fragment_bytes(v4: bool) -> usize {
    if v4 { 0 } else { ipv6::FRAGMENT_HEADER_BYTES }
}

/// Changes the header that was just written into a fragment's. IPv6 needs a fragment header, in
/// bytes that were counted as payload.
pub fn make_fragment(packet: &mut [u8], protocol: u8, v4: bool, fragment: &Fragment) {
    if v4 {
        ipv4::make_fragment(packet, fragment);
    } else {
        ipv6::make_fragment(packet, protocol, fragment);
    }
}

/// Writes an IP header without options for `payload_len` bytes of `protocol`.
pub fn write(
    out: &mut [u8],
    source: &Addr,
    destination: &Addr,
    protocol: u8,
    hop_limit: u8,
    payload_len: usize,
) {
    if source.is_v4() {
        ipv4::write(out, source, destination, protocol, hop_limit, payload_len);
    } else {
        ipv6::write(out, source, destination, protocol, hop_limit, payload_len);
    }
}

/// Sets ECT(0) in the header that was just written: routers may mark the packet (RFC 3168, 5).
pub fn allow_marks(packet: &mut [u8], v4: bool) {
    if v4 {
        ipv4::allow_marks(packet);
    } else {
        ipv6::allow_marks(packet);
    }
}
