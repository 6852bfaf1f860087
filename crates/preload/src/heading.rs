//! Heading of each datagram in the pair of sockets under a UDP socket's descriptor: its source or
//! its destination.

use crate::accept_message::{self, ADDRESS};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV6};

/// Length of a heading in bytes.
pub const BYTES: usize = 2 * ADDRESS + 12;

/// Heading of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heading {
    /// Source of a received datagram, or destination of one to send.
    pub remote: SocketAddr,
    /// Local address, or the unspecified one if it is unknown or not chosen.
    pub local: IpAddr,
    /// Interface that received the datagram.
    pub interface: u32,
    /// Scope of a source address that is valid on one interface only (RFC 4007), else 0.
    pub scope: u32,
    /// Error number of the call that reads the heading, or 0.
    pub error: i32,
}

impl Heading {
    /// A heading that reports an error in place of a datagram.
    pub fn of_error(error: i32) -> Heading {
        let nobody = IpAddr::from(Ipv4Addr::UNSPECIFIED);
        Heading {
            remote: SocketAddr::new(nobody, 0),
            local: nobody,
            interface: 0,
            scope: 0,
            error,
        }
    }

    /// Source address as calls return it.
    pub fn name(&self) -> SocketAddr {
        match self.remote {
            SocketAddr::V6(v6) => SocketAddrV6::new(*v6.ip(), v6.port(), 0, self.scope).into(),
            v4 => v4,
        }
    }

    /// Bytes of the heading.
    pub fn encode(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..ADDRESS].copy_from_slice(&accept_message::address(self.remote));
        let local = accept_message::address(SocketAddr::new(self.local, 0));
        bytes[ADDRESS..2 * ADDRESS].copy_from_slice(&local);
        let numbers = [self.interface, self.scope, self.error as u32];
        for (place, number) in bytes[2 * ADDRESS..].chunks_exact_mut(4).zip(numbers) {
            place.copy_from_slice(&number.to_ne_bytes());
        }
        bytes
    }

    /// Parses a heading at the start of a message. `None` if the message has none, as one of a
    /// program that bypasses the library.
    pub fn decode(bytes: &[u8]) -> Option<Heading> {
        let bytes: &[u8; BYTES] = bytes.first_chunk()?;
        let number = |place: usize| {
            let bytes = bytes[2 * ADDRESS + 4 * place..].first_chunk();
            bytes.map_or(0, |bytes| u32::from_ne_bytes(*bytes))
        };
        Some(Heading {
            remote: accept_message::read(&bytes[..ADDRESS])?,
            local: accept_message::read(&bytes[ADDRESS..2 * ADDRESS])?.ip(),
            interface: number(0),
            scope: number(1),
            error: number(2) as i32,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise 53.
    #[test]
    fn headings_decode_to_the_encoded_value() {
        let heading = Heading {
            remote: "[fd00::1]:65535".parse().expect("an address"),
            local: "10.0.0.9".parse().expect("an address"),
            interface: u32::MAX,
            scope: 3,
            error: 0,
        };
        for heading in [heading, Heading::of_error(111)] {
            let mut bytes = heading.encode().to_vec();
            bytes.extend_from_slice(b"data");
            assert_eq!(Heading::decode(&bytes), Some(heading));
            assert_eq!(Heading::decode(&bytes[..BYTES - 1]), None);
        }
        assert_eq!(Heading::decode(&[0; BYTES]), None);
        assert_eq!(Heading::decode(b"raw"), None);
    }
}
