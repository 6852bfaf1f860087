//! Events, and the handles in them.

use super::Received;
use crate::abi::{Ending, Refusal};
use cofferdam_netstack::ConnectionInfo;
use std::net::{IpAddr, SocketAddr};

/// A connection of this application. The handle of one that ended names nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Connection(pub(crate) u64);

impl Connection {
    /// Its place among the application's connections: a small number, used again when it has
    /// ended. An array by it is faster than a map.
    pub fn place(self) -> usize {
        self.0 as u32 as usize
    }
}

/// A bound address: of a listener or for datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bound(pub(crate) u64);

/// A connection that a peer opened and that waits for an answer.
#[derive(Debug)]
pub struct Knock {
    pub(super) handle: u64,
    /// The listener.
    pub listener: Bound,
    /// The peer.
    pub remote: SocketAddr,
}

/// What is reported to an application.
#[derive(Debug)]
pub enum Event {
    /// The answer to `listen` or `udp_bind`.
    Bound {
        /// Which.
        bound: Bound,
        /// Whether it worked.
        result: Result<(), Refusal>,
    },
    /// A peer opened a connection: `accept` or `reject` it.
    Knock(Knock),
    /// A connection that `connect` began is open.
    Connected {
        /// Which.
        connection: Connection,
        /// Our side: the dataplane chose the port.
        local: SocketAddr,
    },
    /// Data, in order. It lies in the received memory until it is dropped.
    Received {
        /// From whom.
        connection: Connection,
        /// The data.
        data: Received,
    },
    /// The peer sends no more; our side may.
    PeerClosed(Connection),
    /// The peer has acknowledged data, its window has grown, or there is memory again to send from.
    Sent {
        /// Which.
        connection: Connection,
        /// Bytes acknowledged.
        bytes: u32,
        /// Bytes that go out at once now; more is queued.
        window_bytes: u32,
    },
    /// The answer to `ask_info`.
    Info {
        /// Which.
        connection: Connection,
        /// As it was when the dataplane answered.
        info: Box<ConnectionInfo>,
    },
    /// A connection has ended, or could not be opened.
    Dead {
        /// Which.
        connection: Connection,
        /// Why.
        reason: Ending,
    },
    /// A datagram.
    Datagram {
        /// To which address.
        bound: Bound,
        /// The data.
        data: Received,
        /// The sender.
        remote: SocketAddr,
        /// The dataplane's address that it was sent to.
        local: IpAddr,
    },
    /// A timer is due.
    Timer(u64),
}
