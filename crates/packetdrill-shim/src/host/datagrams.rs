//! The state of a UDP socket, and its control messages.

use super::errors::Result;
use crate::control::Control;
use cofferdam_netstack::{BufferId, Chunk, UdpId};
use nix::errno::Errno;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

/// Index of the only interface, in control messages.
const INTERFACE: i32 = 1;

/// State of a UDP socket.
#[derive(Debug, Default)]
pub struct Datagrams {
    pub id: Option<UdpId>,
    /// The connected peer: the only source accepted, and the default destination.
    pub remote: Option<SocketAddr>,
    pub arrived: VecDeque<Arrival>,
    /// Buffers handed to the stack and not sent yet.
    pub sending: Vec<BufferId>,
    /// Number of datagrams received.
    news: u64,
    /// Destination addresses are reported (IP_PKTINFO, IPV6_RECVPKTINFO).
    pub tells_address: bool,
}

/// A datagram that waits to be read.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    pub chunk: Chunk,
    pub remote: SocketAddr,
    pub local: IpAddr,
}

/// Result of a reading call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// The data, up to the requested length.
    pub bytes: Vec<u8>,
    /// Return value of the call.
    pub reported: usize,
    /// Length of the whole datagram in bytes.
    pub whole_bytes: usize,
    /// From the socket's error queue.
    pub is_error: bool,
    /// The datagram did not fit.
    pub is_cut: bool,
    /// Source address; `None` for a stream.
    pub from: Option<SocketAddr>,
    /// Control messages that the socket requested.
    pub control: Vec<Control>,
}

impl Message {
    /// Whether the data is part of a stream.
    pub const fn is_stream(&self) -> bool {
        self.from.is_none() && !self.is_error
    }
}

impl Datagrams {
    /// Queues a datagram.
    pub fn arrive(&mut self, arrival: Arrival) {
        self.arrived.push_back(arrival);
        self.news += 1;
    }

    /// Readiness in `EPOLL` bits, and the number of datagrams received. A UDP socket is always
    /// writable.
    pub fn ready(&self) -> (i32, u64) {
        let readable = if self.arrived.is_empty() {
            0
        } else {
            libc::EPOLLIN
        };
        (readable | libc::EPOLLOUT, self.news)
    }

    /// Length of the next datagram in bytes.
    pub fn next_bytes(&self) -> u32 {
        self.arrived.front().map_or(0, |arrival| arrival.chunk.len)
    }
}

/// Control message with a destination address (ip(7), ipv6(7)).
pub(super) fn address_message(local: IpAddr) -> Control {
    let interface = INTERFACE.to_ne_bytes();
    match local {
        IpAddr::V4(v4) => Control {
            level: libc::IPPROTO_IP,
            kind: libc::IP_PKTINFO,
            data: [interface, v4.octets(), v4.octets()].concat(),
        },
        IpAddr::V6(v6) => Control {
            level: libc::IPPROTO_IPV6,
            kind: libc::IPV6_PKTINFO,
            data: [&v6.octets()[..], &interface].concat(),
        },
    }
}

/// Source address requested by a control message.
///
/// # Errors
/// `EOPNOTSUPP` for another type of message; `EINVAL` if it is too short.
pub(super) fn requested_address(control: &[Control]) -> Result<Option<IpAddr>> {
    let mut requested = None;
    for message in control {
        let data = message.data.as_slice();
        requested = Some(match (message.level, message.kind) {
            (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                let octets: [u8; 4] = *data
                    .get(4..)
                    .and_then(<[u8]>::first_chunk)
                    .ok_or(Errno::EINVAL)?;
                IpAddr::from(octets)
            }
            (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                let octets: [u8; 16] = *data.first_chunk().ok_or(Errno::EINVAL)?;
                IpAddr::from(octets).to_canonical()
            }
            _ => return Err(Errno::EOPNOTSUPP),
        });
    }
    Ok(requested.filter(|ip| !ip.is_unspecified()))
}
