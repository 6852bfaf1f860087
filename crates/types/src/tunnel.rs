//! Tunnels between hosts, as far as their packets can be recognized from outside.

/// Encapsulation of a tunnel's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tunnel {
    /// VXLAN (RFC 7348) to this UDP port.
    Vxlan(u16),
    /// Geneve (RFC 8926) to this UDP port.
    Geneve(u16),
    /// IP in IPv4 without anything between (RFC 2003, RFC 4213).
    Ip,
}
