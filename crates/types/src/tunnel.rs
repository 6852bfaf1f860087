//! Tunnels between hosts, as far as the packets inside them can be told from outside.

/// What a tunnel's packets are wrapped in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tunnel {
    /// VXLAN (RFC 7348) to this UDP port.
    Vxlan(u16),
    /// Geneve (RFC 8926) to this UDP port.
    Geneve(u16),
    /// IP in IPv4 without anything between (RFC 2003, RFC 4213).
    Ip,
}
