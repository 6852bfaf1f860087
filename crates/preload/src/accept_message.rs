//! Messages in a listener's queue, which accompany connections.

use cofferdam_bsd::Result;
use libc::{c_int, c_void};
use nix::errno::Errno;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// Length of a message in bytes.
const BYTES: usize = 2 * ADDRESS + 5;
/// Length of an address in bytes.
pub const ADDRESS: usize = 19;

/// Message in a listener's queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AcceptMessage {
    /// Connection of the dataplane; its descriptor accompanies the message.
    Connection {
        /// Local address.
        local: SocketAddr,
        /// Address of the peer.
        remote: SocketAddr,
    },
    /// Connection of the kernel; its descriptor accompanies the message.
    Kernel,
    /// Error number with which `accept` fails.
    Failure(i32),
}

impl AcceptMessage {
    /// Bytes of the message.
    pub fn encode(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        match self {
            AcceptMessage::Connection { local, remote } => {
                bytes[0] = 1;
                bytes[5..5 + ADDRESS].copy_from_slice(&address(*local));
                bytes[5 + ADDRESS..].copy_from_slice(&address(*remote));
            }
            AcceptMessage::Kernel => bytes[0] = 2,
            AcceptMessage::Failure(error) => {
                bytes[0] = 3;
                bytes[1..5].copy_from_slice(&error.to_ne_bytes());
            }
        }
        bytes
    }

    /// Receives the next message of a queue and its descriptor, with `flags` of recvmsg(2). The
    /// message is `None` if the queue has ended.
    ///
    /// # Errors
    ///
    /// See recvmsg(2).
    pub fn receive(fd: RawFd, flags: c_int) -> Result<(Option<AcceptMessage>, Option<OwnedFd>)> {
        let mut bytes = [0_u8; BYTES];
        // The buffer is aligned like control messages.
        let mut control = [0_u64; 8];
        let mut part = libc::iovec {
            iov_base: bytes.as_mut_ptr().cast::<c_void>(),
            iov_len: bytes.len(),
        };
        // SAFETY: all zeros are a valid value.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control);
        // SAFETY: the message refers to local buffers.
        let got = Errno::result(unsafe { libc::recvmsg(fd, &raw mut message, flags) })?;
        let mut descriptor = None;
        // SAFETY: the kernel has filled the message; its descriptors are new and have no other
        // owner.
        unsafe {
            let header = libc::CMSG_FIRSTHDR(&raw const message);
            if !header.is_null() && (*header).cmsg_type == libc::SCM_RIGHTS {
                let number = libc::CMSG_DATA(header).cast::<RawFd>().read_unaligned();
                descriptor = Some(OwnedFd::from_raw_fd(number));
            }
        }
        Ok((AcceptMessage::decode(&bytes[..got as usize]), descriptor))
    }

    /// Parses a message; `None` if the bytes are none.
    pub fn decode(bytes: &[u8]) -> Option<AcceptMessage> {
        let bytes: &[u8; BYTES] = bytes.try_into().ok()?;
        Some(match bytes[0] {
            1 => AcceptMessage::Connection {
                local: read(&bytes[5..5 + ADDRESS])?,
                remote: read(&bytes[5 + ADDRESS..])?,
            },
            2 => AcceptMessage::Kernel,
            3 => AcceptMessage::Failure(i32::from_ne_bytes(*bytes[1..5].first_chunk()?)),
            _ => return None,
        })
    }
}

/// Bytes of an address.
pub fn address(address: SocketAddr) -> [u8; ADDRESS] {
    let mut bytes = [0; ADDRESS];
    let ip = match address.ip() {
        IpAddr::V4(v4) => {
            bytes[0] = 4;
            v4.to_ipv6_mapped()
        }
        IpAddr::V6(v6) => {
            bytes[0] = 6;
            v6
        }
    };
    bytes[1..17].copy_from_slice(&ip.octets());
    bytes[17..].copy_from_slice(&address.port().to_ne_bytes());
    bytes
}

/// Parses an address; `None` if the bytes are none.
pub fn read(bytes: &[u8]) -> Option<SocketAddr> {
    let ip = Ipv6Addr::from(*bytes.get(1..)?.first_chunk::<16>()?);
    let port = u16::from_ne_bytes(*bytes.get(17..)?.first_chunk()?);
    let ip = match bytes.first()? {
        4 => IpAddr::V4(ip.to_ipv4_mapped()?),
        6 => IpAddr::V6(ip),
        _ => return None,
    };
    Some(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_decode_to_the_encoded_value() {
        let at = |text: &str| text.parse().expect("an address");
        for message in [
            AcceptMessage::Connection {
                local: at("10.0.0.9:80"),
                remote: at("[fd00::1]:65535"),
            },
            AcceptMessage::Kernel,
            AcceptMessage::Failure(100),
        ] {
            assert_eq!(AcceptMessage::decode(&message.encode()), Some(message));
        }
        for wrong in [&[][..], &[0; BYTES], &[1; BYTES], &[2; BYTES - 1]] {
            assert_eq!(AcceptMessage::decode(wrong), None);
        }
    }
}
