//! Events, and the handles in them.

use super::ReceivedData;
use crate::abi::{Ending, Refusal};
use cofferdam_netstack::ConnectionInfo;
use std::net::{IpAddr, SocketAddr};

/// A connection of this application. The handle of an ended connection names none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Connection(pub(crate) u64);

impl Connection {
    /// Index among the application's connections. It is small and is used again after the end, so
    /// that an array by it is faster than a map.
    pub fn place(self) -> usize {
        self.0 as u32 as usize
    }
}

/// A bound address: of a listener or for datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BoundAddress(pub(crate) u64);

/// A connection of a peer that waits for an answer.
#[derive(Debug)]
pub struct Knock {
    pub(super) handle: u64,
    /// Listener of the connection.
    pub listener: BoundAddress,
    /// Address of the peer.
    pub remote: SocketAddr,
}

/// An event for an application.
#[derive(Debug)]
pub enum Event {
    /// Answer to `listen` or `udp_bind`.
    Bound {
        /// Name of the address.
        bound: BoundAddress,
        /// Outcome of the call.
        result: Result<(), Refusal>,
    },
    /// A peer has opened a connection. `accept` or `reject` it.
    Knock(Knock),
    /// A connection of `connect` is open.
    Connected {
        /// Name of the connection.
        connection: Connection,
        /// Own address, with the port that the dataplane chose.
        local: SocketAddr,
    },
    /// Received data, in order. It stays in the received memory until it is dropped.
    Received {
        /// Connection of the data.
        connection: Connection,
        /// Received bytes.
        data: ReceivedData,
    },
    /// The peer has ended its side; our side may continue to send.
    PeerClosed(Connection),
    /// The peer has acknowledged data, its window has grown, or memory for sending is free again.
    Sent {
        /// Name of the connection.
        connection: Connection,
        /// Bytes acknowledged.
        bytes: u32,
        /// Bytes that can be sent at once; more are queued.
        window_bytes: u32,
    },
    /// Answer to `ask_info`.
    Info {
        /// Name of the connection.
        connection: Connection,
        /// State when the dataplane answered.
        info: Box<ConnectionInfo>,
    },
    /// A connection has ended, or could not be opened.
    Dead {
        /// Name of the connection.
        connection: Connection,
        /// Cause of the end.
        reason: Ending,
    },
    /// A received datagram.
    Datagram {
        /// Bound address that received it.
        bound: BoundAddress,
        /// Received bytes.
        data: ReceivedData,
        /// Address of the sender.
        remote: SocketAddr,
        /// Address of the dataplane that it was sent to.
        local: IpAddr,
    },
    /// A timer is due.
    Timer(u64),
}
