//! What comes before each datagram in the pair of sockets under a UDP socket's descriptor: from whom
//! it is, or where it goes.

use crate::said::{self, ADDRESS};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV6};

/// Bytes of a heading.
pub const BYTES: usize = 2 * ADDRESS + 12;

/// A datagram's heading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heading {
    /// The sender, or the receiver.
    pub remote: SocketAddr,
    /// Our address; the unspecified one where it is not known, or not chosen.
    pub local: IpAddr,
    /// The interface it has come by.
    pub interface: u32,
    /// Of a sender's address that only names a host on one interface (RFC 4007): which; else 0.
    pub scope: u32,
    /// The call that reads it fails with this error; 0: it does not.
    pub error: i32,
}

impl Heading {
    /// An error in the place of a datagram.
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

    /// The sender, as calls name it.
    pub fn name(&self) -> SocketAddr {
        match self.remote {
            SocketAddr::V6(v6) => SocketAddrV6::new(*v6.ip(), v6.port(), 0, self.scope).into(),
            v4 => v4,
        }
    }

    /// As bytes.
    pub fn encode(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..ADDRESS].copy_from_slice(&said::address(self.remote));
        let local = said::address(SocketAddr::new(self.local, 0));
        bytes[ADDRESS..2 * ADDRESS].copy_from_slice(&local);
        let numbers = [self.interface, self.scope, self.error as u32];
        for (place, number) in bytes[2 * ADDRESS..].chunks_exact_mut(4).zip(numbers) {
            place.copy_from_slice(&number.to_ne_bytes());
        }
        bytes
    }

    /// From the bytes at the start of a message; none where they are no heading, as of a program that
    /// writes past the library.
    pub fn decode(bytes: &[u8]) -> Option<Heading> {
        let bytes: &[u8; BYTES] = bytes.first_chunk()?;
        let number = |place: usize| {
            let bytes = bytes[2 * ADDRESS + 4 * place..].first_chunk();
            bytes.map_or(0, |bytes| u32::from_ne_bytes(*bytes))
        };
        Some(Heading {
            remote: said::read(&bytes[..ADDRESS])?,
            local: said::read(&bytes[ADDRESS..2 * ADDRESS])?.ip(),
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
    fn headings_come_back_as_they_were_and_others_are_none() {
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
