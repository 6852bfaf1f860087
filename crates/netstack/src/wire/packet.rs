//! What a received IP packet says, of either version.

use super::address::Addr;
use super::ipv6::Problem;

/// A packet's header, of either version.
#[derive(Debug, Clone, Copy)]
pub struct Packet {
    pub source: Addr,
    pub destination: Addr,
    /// Protocol of the payload.
    pub protocol: u8,
    pub hop_limit: u8,
    /// A router has marked it (RFC 3168, 5: CE).
    pub is_marked: bool,
    /// Where the payload begins, from the start of the IP header.
    pub payload_at: usize,
    /// Where it ends. What follows is the link's padding.
    pub end: usize,
    /// Set when this is a part of a larger packet.
    pub fragment: Option<Fragment>,
    /// Where the number of the payload's protocol stands (for ICMPv6's parameter problem).
    pub protocol_at: usize,
}

/// A part of a packet.
#[derive(Debug, Clone, Copy)]
pub struct Fragment {
    pub id: u32,
    /// In bytes.
    pub offset: u32,
    /// More follow.
    pub more: bool,
}

/// Why a packet was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// Too short, or it contradicts itself.
    Malformed,
    /// Wrong header checksum.
    Checksum,
    /// Its sender is to be told (IPv6 only).
    Problem(Problem),
}
