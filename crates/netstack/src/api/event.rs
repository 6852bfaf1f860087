//! Event conditions (IX, OSDI'14, table 1): reports of the stack to the application.

use super::{BufferId, Chunk, ConnectionId, ListenerId, TimerId, UdpId};
use std::net::{IpAddr, SocketAddr};

/// Event for the application. `cookie` is the value that the application gave with the handle.
///
/// The events of one connection have this order: `Knock` or `Connected`; then `Recv`, `Sent` and
/// `PeerClosed` in any mix; last, exactly once, `Dead`. After that the handle is stale and the
/// stack has no buffer of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A peer opened a connection to a listener. The application accepts or rejects it; until then
    /// the stack buffers its data.
    Knock {
        /// The listener.
        listener: ListenerId,
        /// The listener's cookie.
        cookie: u64,
        /// The new connection.
        connection: ConnectionId,
        /// The peer.
        remote: SocketAddr,
        /// Address that the peer connected to.
        local: SocketAddr,
    },
    /// A connection that `connect` began is open. A failure is [`Event::Dead`].
    Connected {
        /// The connection.
        connection: ConnectionId,
        /// Cookie of the connection.
        cookie: u64,
        /// Bytes that `sendv` accepts now: the peer's window and a little more.
        window_bytes: u32,
    },
    /// Received data, in order. The application owns the buffer. When it has finished, the caller
    /// frees the buffer and calls `recv_done`, which opens the receive window.
    Recv {
        /// The connection.
        connection: ConnectionId,
        /// Cookie of the connection.
        cookie: u64,
        /// The data; never empty.
        chunk: Chunk,
    },
    /// The peer has closed its side and the application has got all its data. The application may
    /// still send.
    PeerClosed {
        /// The connection.
        connection: ConnectionId,
        /// Cookie of the connection.
        cookie: u64,
    },
    /// The peer has acknowledged data: the application owns the oldest `bytes` of its sent data
    /// again. If `bytes` is zero, only the window has changed.
    Sent {
        /// The connection.
        connection: ConnectionId,
        /// Cookie of the connection.
        cookie: u64,
        /// Bytes acknowledged since the last such event.
        bytes: u32,
        /// Ranges of `sendv` that were wholly acknowledged since the last such event. Their places
        /// in the stack's tables are free.
        ranges: u32,
        /// Bytes that `sendv` accepts now: the peer's window and a little more.
        window_bytes: u32,
    },
    /// The peer has announced urgent data (RFC 9293, 3.8.5), or more of it. The data stays in the
    /// stream, and the application decides its meaning (RFC 6093). Precedes the data's `Recv`.
    Urgent {
        /// The connection.
        connection: ConnectionId,
        /// Cookie of the connection.
        cookie: u64,
        /// Number of bytes from the next `Recv` to the end of the urgent data, which may not have
        /// arrived yet. Zero: the application already has it.
        ahead_bytes: u32,
    },
    /// The connection has ended.
    Dead {
        /// The connection; its handle is stale.
        connection: ConnectionId,
        /// Cookie of the connection; zero if it was never accepted.
        cookie: u64,
        /// Reason of the end.
        reason: DeadReason,
    },
    /// A datagram. The application owns the buffer; see [`crate::Stack::udp_recv_done`].
    UdpRecv {
        /// Bound address that received it.
        udp: UdpId,
        /// Cookie of the bound address.
        cookie: u64,
        /// The data; may be empty.
        chunk: Chunk,
        /// The sender.
        remote: SocketAddr,
        /// Address that it was sent to.
        local: IpAddr,
    },
    /// The end of a datagram: `poll_transmit` passed it to the caller, its neighbour did not
    /// answer, or its bound address was closed. The application owns its ranges again. There is one
    /// such event for each datagram that `udp_sendv` accepted.
    UdpSent {
        /// Bound address that sent it, which may be closed by now.
        udp: UdpId,
        /// Cookie of the bound address.
        cookie: u64,
        /// Token of the `udp_sendv` call.
        token: u64,
    },
    /// A timer of the application expired.
    Timer {
        /// The timer; its handle is stale.
        timer: TimerId,
        /// Cookie of the timer.
        cookie: u64,
    },
    /// The stack returns a received buffer to the caller.
    Release {
        /// The buffer.
        buffer: BufferId,
    },
}

/// Reason why a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DeadReason {
    /// Both sides closed and all data was delivered.
    Closed,
    /// The peer reset the connection.
    Reset,
    /// The peer refused the connection: it answered the SYN with an RST or "port unreachable".
    Refused,
    /// The peer did not answer in time.
    TimedOut,
    /// The network reports that the peer is unreachable, or its neighbour did not answer.
    Unreachable,
    /// The application aborted or rejected the connection.
    Aborted,
}
