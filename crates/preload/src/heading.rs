//! What comes before each datagram in the pair of sockets under a UDP socket's descriptor: from whom
//! it is, or where it goes.

use crate::said::{self, ADDRESS};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Bytes of a heading.
pub const BYTES: usize = 2 * ADDRESS + 8;

/// A datagram's heading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heading {
    /// The sender, or the receiver.
    pub remote: SocketAddr,
    /// Our address; the unspecified one where it is not known, or not chosen.
    pub local: IpAddr,
    /// The interface it has come by.
    pub interface: u32,
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
            error,
        }
    }

    /// As bytes.
    pub fn encode(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        bytes[..ADDRESS].copy_from_slice(&said::address(self.remote));
        let local = said::address(SocketAddr::new(self.local, 0));
        bytes[ADDRESS..2 * ADDRESS].copy_from_slice(&local);
        bytes[2 * ADDRESS..][..4].copy_from_slice(&self.interface.to_ne_bytes());
        bytes[2 * ADDRESS + 4..].copy_from_slice(&self.error.to_ne_bytes());
        bytes
    }

    /// From the bytes at the start of a message; none where they are no heading, as of a program that
    /// writes past the library.
    pub fn decode(bytes: &[u8]) -> Option<Heading> {
        let bytes: &[u8; BYTES] = bytes.first_chunk()?;
        Some(Heading {
            remote: said::read(&bytes[..ADDRESS])?,
            local: said::read(&bytes[ADDRESS..2 * ADDRESS])?.ip(),
            interface: u32::from_ne_bytes(*bytes[2 * ADDRESS..].first_chunk()?),
            error: i32::from_ne_bytes(*bytes[2 * ADDRESS + 4..].first_chunk()?),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_come_back_as_they_were_and_others_are_none() {
        let heading = Heading {
            remote: "[fd00::1]:65535".parse().expect("an address"),
            local: "10.0.0.9".parse().expect("an address"),
            interface: u32::MAX,
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
