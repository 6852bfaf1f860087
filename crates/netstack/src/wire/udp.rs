//! UDP (RFC 768).

use super::be16;

pub const HEADER_BYTES: usize = 8;

/// Header of a datagram.
#[derive(Debug, Clone, Copy)]
pub struct Udp {
    pub source_port: u16,
    pub destination_port: u16,
    /// Length of header and data; the rest of the packet is padding.
    pub len: usize,
    /// Whether the sender computed a checksum, which is optional in IPv4.
    pub has_checksum: bool,
}

/// Parses the header. Returns `None` if it is too short or its length is wrong.
pub fn parse(bytes: &[u8]) -> Option<Udp> {
    let len = usize::from(be16(bytes, 4));
    if bytes.len() < HEADER_BYTES || len < HEADER_BYTES || len > bytes.len() {
        return None;
    }
    Some(Udp {
        source_port: be16(bytes, 0),
        destination_port: be16(bytes, 2),
        len,
        has_checksum: be16(bytes, 6) != 0,
    })
}

/// Writes a header with `sum` in its checksum field.
pub fn write(out: &mut [u8], source_port: u16, destination_port: u16, len: usize, sum: u16) {
    out[..2].copy_from_slice(&source_port.to_be_bytes());
    out[2..4].copy_from_slice(&destination_port.to_be_bytes());
    out[4..6].copy_from_slice(&(len as u16).to_be_bytes());
    out[6..8].copy_from_slice(&sum.to_be_bytes());
}
