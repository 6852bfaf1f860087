//! Parsed header of a received IP packet.

use super::address::Addr;
use super::ipv6::Problem;

/// Header of an IPv4 or IPv6 packet.
#[derive(Debug, Clone, Copy)]
pub struct Packet {
    pub source: Addr,
    pub destination: Addr,
    /// Protocol of the payload.
    pub protocol: u8,
    pub hop_limit: u8,
    /// Whether a router has marked the packet (CE; RFC 3168, 5).
    pub is_marked: bool,
    /// Offset of the payload from the start of the IP header.
    pub payload_at: usize,
    /// Offset of the payload's end. The link's padding follows.
    pub end: usize,
    /// Set if the packet is a fragment.
    pub fragment: Option<Fragment>,
    /// Offset of the payload's protocol number (for ICMPv6's parameter problem).
    pub protocol_at: usize,
}

/// Fields of a fragment.
#[derive(Debug, Clone, Copy)]
pub struct Fragment {
    pub id: u32,
    /// Offset in bytes.
    pub offset: u32,
    /// Whether more fragments follow.
    pub more: bool,
}

/// Reason why the stack rejects a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketError {
    /// The packet is too short or contradicts itself.
    Malformed,
    /// The header checksum is wrong.
    Checksum,
    /// The packet has a problem that is reported to its sender (IPv6 only).
    Problem(Problem),
}
