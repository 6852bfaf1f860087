//! Entries of the rings between the dataplane and an application, one cache line each. Calls go in,
//! conditions come out (IX, OSDI'14, table 1).

mod encoding;
mod info;
mod options;
#[cfg(test)]
mod tests;

pub(crate) use info::{Parts, parts};

use cofferdam_netstack::ConnectionOptions;
use std::net::{IpAddr, SocketAddr};

/// One entry of a ring. [`Call`] and [`Condition`] define the meaning of the fields.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    pub(crate) kind: u32,
    pub(crate) len: u32,
    pub(crate) handle: u64,
    pub(crate) cookie: u64,
    pub(crate) offset: u64,
    pub(crate) ip: [u8; 16],
    pub(crate) port: u16,
    pub(crate) reserved: u16,
    pub(crate) value: u32,
    pub(crate) more: u64,
}

const _: () = assert!(size_of::<Entry>() == 64, "one cache line");

/// Number of conditions that together report a connection.
pub const INFO_PARTS: usize = 3;
/// Number of words in each of them.
pub const INFO_WORDS: usize = 10;

/// Sharing of a listening address by sessions of one application that name the same group. The
/// sessions get connections in turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sharing {
    /// A number that is not guessed by accident; 0: the address is not shared.
    pub group: u64,
    /// The session gets connections only while the group has no other.
    pub is_standby: bool,
}

/// A batched system call from an application to the dataplane. There is no return value; a
/// [`Condition`] reports the outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Accept connections to an address; answered by [`Condition::Bound`].
    Listen {
        /// Address and port; 0.0.0.0 and `::` mean every address of the family.
        local: SocketAddr,
        /// Connections that may be pending before `accept`.
        backlog: u32,
        /// Returned with each condition of the listener.
        cookie: u64,
        /// Sessions that may listen at the address too.
        sharing: Sharing,
    },
    /// Receive datagrams for an address; answered by [`Condition::Bound`].
    UdpBind {
        /// Address and port.
        local: SocketAddr,
        /// Returned with each condition of the address.
        cookie: u64,
    },
    /// Release an address of `Listen` or `UdpBind`.
    Unbind {
        /// Name of the address, from [`Condition::Bound`].
        handle: u64,
    },
    /// Open a connection; answered by [`Condition::Connected`] or [`Condition::Dead`].
    Connect {
        /// The peer.
        remote: SocketAddr,
        /// Returned with each condition of the connection.
        cookie: u64,
        /// Settings that replace the dataplane's.
        options: ConnectionOptions,
    },
    /// Accept a connection that knocked; answered by [`Condition::Sent`] with its window.
    Accept {
        /// The connection.
        handle: u64,
        /// Returned with each condition of the connection.
        cookie: u64,
    },
    /// Refuse a connection that knocked.
    Reject {
        /// The connection.
        handle: u64,
    },
    /// Send a range of the application's memory. The dataplane owns it until [`Condition::Sent`]
    /// has counted its bytes. `sendv` is several of these in a row.
    Send {
        /// The connection.
        handle: u64,
        /// Offset of the first byte in the application's memory.
        offset: u64,
        /// Length in bytes.
        len: u32,
    },
    /// Release received data: the frame is free again and the window opens.
    RecvDone {
        /// Frame of [`Condition::Recv`].
        frame: u32,
    },
    /// End our side after the queued data, and continue to receive.
    Shutdown {
        /// The connection.
        handle: u64,
    },
    /// End the connection after the queued data.
    Close {
        /// The connection.
        handle: u64,
    },
    /// End the connection at once.
    Abort {
        /// The connection.
        handle: u64,
    },
    /// Replace all settings of a connection.
    Options {
        /// The connection.
        handle: u64,
        /// The settings.
        options: ConnectionOptions,
    },
    /// Report the state of a connection by [`INFO_PARTS`] conditions [`Condition::Info`] in a row.
    Info {
        /// The connection.
        handle: u64,
    },
    /// Send a datagram; [`Condition::UdpSent`] releases its memory.
    UdpSend {
        /// Name of the address, from [`Condition::Bound`].
        handle: u64,
        /// The receiver.
        remote: SocketAddr,
        /// Source address, where all addresses are bound. `None`: the address of the route to the
        /// receiver.
        source: Option<IpAddr>,
        /// Offset of the first byte in the application's memory.
        offset: u64,
        /// Length in bytes.
        len: u32,
        /// Returned with [`Condition::UdpSent`].
        token: u64,
    },
    /// Release a received datagram.
    UdpRecvDone {
        /// Frame of [`Condition::UdpRecv`].
        frame: u32,
    },
    /// Start a timer.
    Timer {
        /// Delay in nanoseconds.
        delay_ns: u64,
        /// Returned with [`Condition::Timer`].
        cookie: u64,
    },
    /// Marks the last call of this ring for a flow group's connections. The core that has the group
    /// answers with [`Condition::Settled`].
    Passed {
        /// The flow group.
        group: u8,
    },
}

/// An event condition from the dataplane to an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Answer to `Listen` and `UdpBind`.
    Bound {
        /// Cookie of the call.
        cookie: u64,
        /// Name of the address.
        result: Result<u64, Refusal>,
    },
    /// A peer has opened a connection. `Accept` or `Reject` it.
    Knock {
        /// Cookie of the listener.
        cookie: u64,
        /// The connection.
        handle: u64,
        /// The peer.
        remote: SocketAddr,
    },
    /// A connection of `Connect` is open.
    Connected {
        /// Cookie of the call.
        cookie: u64,
        /// Name of the connection.
        handle: u64,
        /// Bytes that may be sent.
        window_bytes: u32,
        /// Own address and port, which the dataplane chose.
        local: SocketAddr,
    },
    /// Received data, in order.
    Recv {
        /// Cookie of the connection.
        cookie: u64,
        /// The connection.
        handle: u64,
        /// Frame with the data, to be released by `RecvDone`.
        frame: u32,
        /// Offset of the first byte in the received memory.
        offset: u64,
        /// Length in bytes.
        len: u32,
    },
    /// The peer has ended its side.
    PeerClosed {
        /// Cookie of the connection.
        cookie: u64,
        /// The connection.
        handle: u64,
    },
    /// The peer has acknowledged data, oldest first. The application owns its memory again.
    Sent {
        /// Cookie of the connection.
        cookie: u64,
        /// The connection.
        handle: u64,
        /// Bytes acknowledged since the previous such condition; may be 0.
        bytes: u32,
        /// Sends that were acknowledged completely since then.
        ranges: u32,
        /// Bytes that may be sent, counted from the opening of the connection, because calls may be
        /// in flight that the dataplane has not read.
        limit_bytes: u64,
    },
    /// A connection has ended, or could not be opened.
    Dead {
        /// Cookie of the connection.
        cookie: u64,
        /// The connection; 0 if it never had a name.
        handle: u64,
        /// Cause of the end.
        reason: Ending,
    },
    /// A part of the answer to `Info`.
    Info {
        /// Cookie of the connection.
        cookie: u64,
        /// The connection.
        handle: u64,
        /// Number of the part, from 0 on.
        part: u16,
        /// Content of the part.
        words: [u32; INFO_WORDS],
    },
    /// A received datagram.
    UdpRecv {
        /// Cookie of the bound address.
        cookie: u64,
        /// Address of the dataplane that it was sent to.
        local: IpAddr,
        /// Frame with the data, to be released by `UdpRecvDone`.
        frame: u32,
        /// Offset of the first byte in the received memory.
        offset: u64,
        /// Length in bytes; may be 0.
        len: u32,
        /// The sender.
        remote: SocketAddr,
    },
    /// A datagram was sent or dropped. The application owns its memory again.
    UdpSent {
        /// Cookie of the bound address.
        cookie: u64,
        /// Token of the call.
        token: u64,
    },
    /// A timer is due.
    Timer {
        /// Cookie of the call.
        cookie: u64,
    },
    /// A flow group has left for another core. No further condition of its connections comes from
    /// here.
    Left {
        /// The flow group.
        group: u8,
    },
    /// A flow group has arrived. Its conditions here follow its `Left` in the ring of core `from`.
    Arrived {
        /// The flow group.
        group: u8,
        /// Core that had the group.
        from: u8,
    },
    /// The calls before `Passed` are done. Calls for the group go through this ring from now on.
    Settled {
        /// The flow group.
        group: u8,
    },
}

/// Cause of a connection's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Ending {
    /// Both sides closed, and all data was delivered.
    Closed = 1,
    /// The peer reset the connection, or the dataplane evicted it.
    Reset = 2,
    /// The peer refused the connection.
    Refused = 3,
    /// The peer did not answer in time.
    TimedOut = 4,
    /// There is no route to the peer.
    Unreachable = 5,
    /// The application ended the connection, or the dataplane ended it for a wrong call.
    Aborted = 6,
    /// The dataplane has no place for the connection, or no free port.
    NoRoom = 7,
    /// The application may not connect.
    Forbidden = 8,
}

/// The reason why an address is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[repr(u32)]
pub enum Refusal {
    /// The address is bound already.
    #[error("the address is in use")]
    InUse = 1,
    /// The dataplane has no such address.
    #[error("the dataplane has no such address")]
    NotOurs = 2,
    /// The configuration does not grant the address to this application.
    #[error("the dataplane's configuration does not give this address to this application")]
    Forbidden = 3,
    /// The address table is full.
    #[error("the dataplane's address table is full")]
    Full = 4,
    /// The address cannot be bound.
    #[error("this address cannot be bound")]
    Invalid = 5,
}
