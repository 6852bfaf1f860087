//! Event conditions (IX, OSDI'14, table 1): what the stack reports to the application.

use super::{BufferId, Chunk, ConnectionId, ListenerId, TimerId, UdpId};
use std::net::{IpAddr, SocketAddr};

/// Something the application should know. `cookie` is the value it gave with the handle.
///
/// The events of one connection come in this order: `Knock` or `Connected`; then `Recv`, `Sent`,
/// `PeerClosed` in any mix; `Dead` last, exactly once, after which the handle names nothing and
/// the stack holds no buffer of the connection's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A peer opened a connection to a listener: accept or reject it. Until then its data waits.
    Knock {
        /// The listener.
        listener: ListenerId,
        /// The listener's cookie.
        cookie: u64,
        /// The new connection.
        connection: ConnectionId,
        /// The peer.
        remote: SocketAddr,
        /// The address it asked for.
        local: SocketAddr,
    },
    /// A connection that `connect` began is open. (One that fails is [`Event::Dead`].)
    Connected {
        /// The connection.
        connection: ConnectionId,
        /// Its cookie.
        cookie: u64,
        /// Bytes to hand to `sendv` now, which takes them: what the peer's window does, and a little more.
        window_bytes: u32,
    },
    /// Data in order. The application has the buffer now: the caller frees it when the
    /// application is done, and calls `recv_done` so that the window opens.
    Recv {
        /// The connection.
        connection: ConnectionId,
        /// Its cookie.
        cookie: u64,
        /// The data; never empty.
        chunk: Chunk,
    },
    /// The peer sends no more: all its data has been handed up. Our side may still send.
    PeerClosed {
        /// The connection.
        connection: ConnectionId,
        /// Its cookie.
        cookie: u64,
    },
    /// The peer has acknowledged data: `bytes` of what was sent, oldest first, are the
    /// application's again. With `bytes` zero only the window has changed.
    Sent {
        /// The connection.
        connection: ConnectionId,
        /// Its cookie.
        cookie: u64,
        /// Bytes acknowledged since the last such event.
        bytes: u32,
        /// Ranges given to `sendv` that are wholly acknowledged since then: their places in the
        /// stack's tables are free.
        ranges: u32,
        /// Bytes to hand to `sendv` now, which takes them: what the peer's window does, and a little more.
        window_bytes: u32,
    },
    /// The peer has announced urgent data (RFC 9293, 3.8.5), or more of it. The data stays in the
    /// stream: what it means is the application's (RFC 6093). Comes before the data's `Recv`.
    Urgent {
        /// The connection.
        connection: ConnectionId,
        /// Its cookie.
        cookie: u64,
        /// Urgent data ends with the last of so many bytes that are handed up from now on. Some of them
        /// may not have come yet. Zero: it was handed up before.
        ahead_bytes: u32,
    },
    /// The connection has ended.
    Dead {
        /// The connection. The handle names nothing any more.
        connection: ConnectionId,
        /// Its cookie (zero if it was never accepted).
        cookie: u64,
        /// Why.
        reason: DeadReason,
    },
    /// A datagram. The application has the buffer now; see [`crate::Stack::udp_recv_done`].
    UdpRecv {
        /// The bound address it came to.
        udp: UdpId,
        /// Its cookie.
        cookie: u64,
        /// The data; may be empty.
        chunk: Chunk,
        /// The sender.
        remote: SocketAddr,
        /// The address it was sent to.
        local: IpAddr,
    },
    /// A datagram has been handed to the caller by `poll_transmit`, or given up because nothing
    /// answers for the address, or because the address it was sent from is given back: its chunks
    /// are the application's again. There is one for each datagram that `udp_sendv` took.
    UdpSent {
        /// The bound address it was sent from; it may be gone.
        udp: UdpId,
        /// Its cookie.
        cookie: u64,
        /// What `udp_sendv` was given.
        token: u64,
    },
    /// A timer of the application's is due.
    Timer {
        /// The timer. The handle names nothing any more.
        timer: TimerId,
        /// Its cookie.
        cookie: u64,
    },
    /// A received buffer that the stack held is the caller's again.
    Release {
        /// The buffer.
        buffer: BufferId,
    },
}

/// Why a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeadReason {
    /// Both sides closed and all data was delivered.
    Closed,
    /// The peer reset it.
    Reset,
    /// The peer refused it (RST, or "port unreachable", in answer to our SYN).
    Refused,
    /// The peer did not answer in time.
    TimedOut,
    /// The network says that the peer cannot be reached, or nothing answers for its address.
    Unreachable,
    /// The application aborted or rejected it.
    Aborted,
}
