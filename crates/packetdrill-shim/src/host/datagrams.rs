//! A UDP socket, and its control messages.

use super::errors::Result;
use crate::control::Control;
use cofferdam_netstack::{BufferId, Chunk, UdpId};
use nix::errno::Errno;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

/// Number of the one interface, in control messages.
const INTERFACE: i32 = 1;

/// A UDP socket.
#[derive(Debug, Default)]
pub struct Datagrams {
    pub id: Option<UdpId>,
    /// Only with this peer, and to it where no other is named.
    pub remote: Option<SocketAddr>,
    pub arrived: VecDeque<Arrival>,
    /// Handed to the stack, not yet sent.
    pub sending: Vec<BufferId>,
    /// Datagrams that came so far.
    news: u64,
    /// IP_PKTINFO, IPV6_RECVPKTINFO: to which address a datagram went.
    pub tells_address: bool,
}

/// A datagram that waits to be read.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    pub chunk: Chunk,
    pub remote: SocketAddr,
    pub local: IpAddr,
}

/// What a reading call gives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// The data, as much as was requested.
    pub bytes: Vec<u8>,
    /// What the call returns.
    pub reported: usize,
    /// Bytes of the whole datagram.
    pub whole_bytes: usize,
    /// It is from the socket's error queue.
    pub is_error: bool,
    /// The datagram was longer.
    pub is_cut: bool,
    /// Who sent it; a stream does not say.
    pub from: Option<SocketAddr>,
    /// Control messages that the socket requested.
    pub control: Vec<Control>,
}

impl Message {
    /// It is part of a stream.
    pub const fn is_stream(&self) -> bool {
        self.from.is_none() && !self.is_error
    }
}

impl Datagrams {
    /// A datagram has come.
    pub fn arrive(&mut self, arrival: Arrival) {
        self.arrived.push_back(arrival);
        self.news += 1;
    }

    /// What it is ready for: it always takes data.
    pub fn ready(&self) -> (i32, u64) {
        let readable = if self.arrived.is_empty() {
            0
        } else {
            libc::EPOLLIN
        };
        (readable | libc::EPOLLOUT, self.news)
    }

    /// Bytes of the next datagram.
    pub fn next_bytes(&self) -> u32 {
        self.arrived.front().map_or(0, |arrival| arrival.chunk.len)
    }
}

/// The control message with an address (ip(7), ipv6(7)).
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

/// The address that a control message asks to send from.
///
/// # Errors
/// `EOPNOTSUPP` for a message of another kind; `EINVAL` for one that is too short.
pub(super) fn asked_address(control: &[Control]) -> Result<Option<IpAddr>> {
    let mut asked = None;
    for message in control {
        let data = message.data.as_slice();
        asked = Some(match (message.level, message.kind) {
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
    Ok(asked.filter(|ip| !ip.is_unspecified()))
}
