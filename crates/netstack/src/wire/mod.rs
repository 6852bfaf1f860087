//! Wire formats: parsers that check received bytes, and writers.

pub mod address;
pub mod arp;
pub mod checksum;
pub mod ethernet;
pub mod icmp;
pub mod ip;
pub mod ipv4;
pub mod ipv6;
pub mod ndp;
pub mod packet;
pub mod tcp;
pub mod udp;

/// The two bytes at `at` in network order; zero if `bytes` is too short.
pub(crate) fn be16(bytes: &[u8], at: usize) -> u16 {
    match bytes.get(at..at + 2) {
        Some(&[a, b]) => u16::from_be_bytes([a, b]),
        _ => 0,
    }
}

/// The four bytes at `at` in network order; zero if `bytes` is too short.
pub(crate) fn be32(bytes: &[u8], at: usize) -> u32 {
    match bytes.get(at..at + 4) {
        Some(&[a, b, c, d]) => u32::from_be_bytes([a, b, c, d]),
        _ => 0,
    }
}

#[cfg(test)]
mod tests;
