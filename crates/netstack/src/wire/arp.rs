//! ARP for IPv4 over Ethernet (RFC 826).

use super::address::Addr;
use super::{be16, ethernet};
use crate::api::MacAddress;

pub const BYTES: usize = 28;
pub const REQUEST: u16 = 1;
pub const REPLY: u16 = 2;

/// ARP message.
#[derive(Debug, Clone, Copy)]
pub struct Arp {
    pub operation: u16,
    pub sender_mac: MacAddress,
    pub sender: Addr,
    pub target: Addr,
}

/// Parses the message behind the Ethernet header. Returns `None` if it is too short, for other
/// hardware, or neither a request nor a reply.
pub fn parse(packet: &[u8]) -> Option<Arp> {
    let fixed = packet.get(..BYTES)?;
    if be16(fixed, 0) != 1 || be16(fixed, 2) != ethernet::IPV4 || fixed[4] != 6 || fixed[5] != 4 {
        return None;
    }
    let operation = be16(fixed, 6);
    if !matches!(operation, REQUEST | REPLY) {
        return None;
    }
    Some(Arp {
        operation,
        sender_mac: ethernet::mac_at(fixed, 8),
        sender: Addr::v4_at(fixed, 14),
        target: Addr::v4_at(fixed, 24),
    })
}

impl Arp {
    /// Whether the sender announces its own address (RFC 5227, 3; RFC 2002, 4.6).
    pub fn is_gratuitous(&self) -> bool {
        self.sender == self.target
    }
}

/// Writes a message behind the Ethernet header.
pub fn write(
    out: &mut [u8],
    operation: u16,
    sender: (MacAddress, Addr),
    target: (MacAddress, Addr),
) {
    out[..8].copy_from_slice(&[0, 1, 8, 0, 6, 4, 0, 0]);
    out[6..8].copy_from_slice(&operation.to_be_bytes());
    out[8..14].copy_from_slice(&sender.0.0);
    out[14..18].copy_from_slice(&sender.1.octets4());
    out[18..24].copy_from_slice(&target.0.0);
    out[24..28].copy_from_slice(&target.1.octets4());
}
