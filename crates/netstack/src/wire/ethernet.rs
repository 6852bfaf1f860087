//! Ethernet II.

use crate::api::MacAddress;

pub const HEADER_BYTES: usize = 14;
pub const IPV4: u16 = 0x0800;
pub const ARP: u16 = 0x0806;
pub const IPV6: u16 = 0x86dd;

/// Header of a frame.
#[derive(Debug, Clone, Copy)]
pub struct Ethernet {
    pub destination: MacAddress,
    pub source: MacAddress,
    pub kind: u16,
}

/// The address at offset `at`; zero if `bytes` is too short.
pub fn mac_at(bytes: &[u8], at: usize) -> MacAddress {
    let mut mac = [0; 6];
    if let Some(found) = bytes.get(at..at + 6) {
        mac.copy_from_slice(found);
    }
    MacAddress(mac)
}

/// Parses the header; `None` if the frame is too short.
pub fn parse(frame: &[u8]) -> Option<Ethernet> {
    if frame.len() < HEADER_BYTES {
        return None;
    }
    Some(Ethernet {
        destination: mac_at(frame, 0),
        source: mac_at(frame, 6),
        kind: super::be16(frame, 12),
    })
}

/// Writes a header to the start of `out`.
pub fn write(out: &mut [u8], destination: MacAddress, source: MacAddress, kind: u16) {
    out[..6].copy_from_slice(&destination.0);
    out[6..12].copy_from_slice(&source.0);
    out[12..14].copy_from_slice(&kind.to_be_bytes());
}

/// Ethernet group of an IPv6 multicast address (RFC 2464, 7).
pub fn multicast6(to: &super::address::Addr) -> MacAddress {
    MacAddress([0x33, 0x33, to.0[12], to.0[13], to.0[14], to.0[15]])
}
