//! ICMP (RFC 792) and ICMPv6 (RFC 4443).

use super::{be16, be32};

pub const HEADER_BYTES: usize = 8;

/// Meaning of an ICMP or ICMPv6 message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message {
    EchoRequest,
    EchoReply,
    /// No socket is bound to the packet's port.
    PortUnreachable,
    /// The destination or its protocol is unreachable; `hard` if a retry is useless.
    Unreachable {
        hard: bool,
    },
    /// The packet is larger than a link of its path: `mtu_bytes`, or zero if unknown.
    TooBig {
        mtu_bytes: u32,
    },
    /// The hop limit or the reassembly time was exceeded.
    TimeExceeded,
    /// A header field of the packet is wrong.
    ParameterProblem,
    /// Neighbour discovery (133 to 137).
    Neighbour(u8),
    Other,
}

impl Message {
    /// Whether the message is an error, which quotes the packet that caused it.
    pub const fn is_error(self) -> bool {
        matches!(
            self,
            Self::PortUnreachable
                | Self::Unreachable { .. }
                | Self::TooBig { .. }
                | Self::TimeExceeded
                | Self::ParameterProblem
        )
    }
}

/// Meaning of the message in `bytes`; `None` if it is too short.
pub fn parse(bytes: &[u8], v4: bool) -> Option<Message> {
    let [kind, code, ..] = *bytes.get(..HEADER_BYTES)? else {
        return None;
    };
    Some(if v4 {
        match (kind, code) {
            (0, 0) => Message::EchoReply,
            (8, 0) => Message::EchoRequest,
            (3, 4) => Message::TooBig {
                mtu_bytes: u32::from(be16(bytes, 6)),
            },
            (3, 3) => Message::PortUnreachable,
            (3, 2 | 9 | 10 | 13) => Message::Unreachable { hard: true },
            (3, _) => Message::Unreachable { hard: false },
            (11, _) => Message::TimeExceeded,
            (12, _) => Message::ParameterProblem,
            _ => Message::Other,
        }
    } else {
        match (kind, code) {
            (128, 0) => Message::EchoRequest,
            (129, 0) => Message::EchoReply,
            (1, 4) => Message::PortUnreachable,
            (1, 1 | 5 | 6) => Message::Unreachable { hard: true },
            (1, _) => Message::Unreachable { hard: false },
            (2, _) => Message::TooBig {
                mtu_bytes: be32(bytes, 4),
            },
            (3, _) => Message::TimeExceeded,
            (4, _) => Message::ParameterProblem,
            (133..=137, 0) => Message::Neighbour(kind),
            _ => Message::Other,
        }
    })
}

/// Writes a header: type, code, checksum field, and four bytes that depend on the type.
pub fn write(out: &mut [u8], kind: u8, code: u8, sum: u16, rest: [u8; 4]) {
    out[..2].copy_from_slice(&[kind, code]);
    out[2..4].copy_from_slice(&sum.to_be_bytes());
    out[4..8].copy_from_slice(&rest);
}
