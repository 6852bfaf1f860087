//! What goes through the rings between the dataplane and an application: entries of one cache
//! line. Calls go in, conditions come out (IX, OSDI'14, table 1).

mod encoding;
mod info;
mod options;
#[cfg(test)]
mod tests;

pub(crate) use info::{Parts, parts};

use cofferdam_netstack::ConnectionOptions;
use std::net::{IpAddr, SocketAddr};

/// One entry of a ring. Meaning of the fields: see [`Call`] and [`Condition`].
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

/// Conditions that together report a connection, and words of each.
pub const INFO_PARTS: usize = 3;
/// See [`INFO_PARTS`].
pub const INFO_WORDS: usize = 10;

/// Who may listen at an address beside others: sessions of one application that name the same group.
/// They get connections by turns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sharing {
    /// A name that is not easily guessed by accident; 0: nobody else.
    pub group: u64,
    /// It gets connections only while the group has no other.
    pub is_standby: bool,
}

/// A batched system call: what an application asks of the dataplane. There is no return value;
/// a [`Condition`] reports what came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// Accept connections to an address; answered by [`Condition::Bound`].
    Listen {
        /// Address and port; 0.0.0.0 and `::` mean every address of the family.
        local: SocketAddr,
        /// Connections that may wait for `accept`.
        backlog: u32,
        /// Comes back with each condition of the listener.
        cookie: u64,
        /// Who else may listen there.
        sharing: Sharing,
    },
    /// Take the datagrams for an address; answered by [`Condition::Bound`].
    UdpBind {
        /// Address and port.
        local: SocketAddr,
        /// Comes back with each condition.
        cookie: u64,
    },
    /// Give back what `Listen` or `UdpBind` gave.
    Unbind {
        /// From [`Condition::Bound`].
        handle: u64,
    },
    /// Open a connection; answered by [`Condition::Connected`] or [`Condition::Dead`].
    Connect {
        /// The peer.
        remote: SocketAddr,
        /// Comes back with each condition of the connection.
        cookie: u64,
        /// In place of the dataplane's settings.
        options: ConnectionOptions,
    },
    /// Take a connection that knocked; answered by [`Condition::Sent`] with its window.
    Accept {
        /// The connection.
        handle: u64,
        /// Comes back with each condition of the connection.
        cookie: u64,
    },
    /// Refuse a connection that knocked.
    Reject {
        /// The connection.
        handle: u64,
    },
    /// Send a range of the application's memory. It belongs to the dataplane until
    /// [`Condition::Sent`] has counted its bytes. `sendv` is several of these in a row.
    Send {
        /// The connection.
        handle: u64,
        /// First byte in the application's memory.
        offset: u64,
        /// Length in bytes.
        len: u32,
    },
    /// Received data is no longer needed: the frame goes back and the window opens.
    RecvDone {
        /// The frame of [`Condition::Recv`].
        frame: u32,
    },
    /// End our side after what is queued; keep receiving.
    Shutdown {
        /// The connection.
        handle: u64,
    },
    /// End the connection after what is queued.
    Close {
        /// The connection.
        handle: u64,
    },
    /// End the connection at once.
    Abort {
        /// The connection.
        handle: u64,
    },
    /// Settings of a connection in place of the dataplane's, all of them.
    Options {
        /// The connection.
        handle: u64,
        /// The settings.
        options: ConnectionOptions,
    },
    /// Report a connection as it is now, by [`INFO_PARTS`] conditions [`Condition::Info`] in a row.
    Info {
        /// The connection.
        handle: u64,
    },
    /// Send a datagram; [`Condition::UdpSent`] gives the memory back.
    UdpSend {
        /// From [`Condition::Bound`].
        handle: u64,
        /// The receiver.
        remote: SocketAddr,
        /// The dataplane's address to send from, where all addresses are bound; none: the one
        /// that the way to the receiver says.
        source: Option<IpAddr>,
        /// First byte in the application's memory.
        offset: u64,
        /// Length in bytes.
        len: u32,
        /// Comes back with [`Condition::UdpSent`].
        token: u64,
    },
    /// A received datagram is no longer needed.
    UdpRecvDone {
        /// The frame of [`Condition::UdpRecv`].
        frame: u32,
    },
    /// Start a timer.
    Timer {
        /// Nanoseconds from now.
        delay_ns: u64,
        /// Comes back with [`Condition::Timer`].
        cookie: u64,
    },
    /// All calls for a flow group's connections that go through this ring have been made; answered
    /// by [`Condition::Settled`] where the group is.
    Passed {
        /// The flow group.
        group: u8,
    },
}

/// An event condition: what the dataplane reports to an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Answer to `Listen` and `UdpBind`.
    Bound {
        /// As given.
        cookie: u64,
        /// Names the address from now on.
        result: Result<u64, Refusal>,
    },
    /// A peer opened a connection: `Accept` or `Reject` it.
    Knock {
        /// The listener's.
        cookie: u64,
        /// The connection.
        handle: u64,
        /// The peer.
        remote: SocketAddr,
    },
    /// A connection that `Connect` began is open.
    Connected {
        /// As given.
        cookie: u64,
        /// Names the connection from now on.
        handle: u64,
        /// Bytes that may be sent now.
        window_bytes: u32,
        /// Our side: address and port that the dataplane chose.
        local: SocketAddr,
    },
    /// Data, in order.
    Recv {
        /// The connection's.
        cookie: u64,
        /// The connection.
        handle: u64,
        /// Where it lies: the frame, to be given back by `RecvDone`.
        frame: u32,
        /// First byte in the received memory.
        offset: u64,
        /// Length in bytes.
        len: u32,
    },
    /// The peer sends no more.
    PeerClosed {
        /// The connection's.
        cookie: u64,
        /// The connection.
        handle: u64,
    },
    /// So many bytes, oldest first, are acknowledged: their memory is the application's again.
    Sent {
        /// The connection's.
        cookie: u64,
        /// The connection.
        handle: u64,
        /// Bytes acknowledged since the last such condition; may be 0.
        bytes: u32,
        /// Sends that are wholly acknowledged since then.
        ranges: u32,
        /// Bytes that may have been sent since the connection opened. Counted from the start,
        /// because calls may be under way that the dataplane has not seen.
        limit_bytes: u64,
    },
    /// A connection has ended, or could not be opened.
    Dead {
        /// The connection's.
        cookie: u64,
        /// The connection; 0 when it never had a name.
        handle: u64,
        /// Why.
        reason: Ending,
    },
    /// A part of the answer to `Info`.
    Info {
        /// The connection's.
        cookie: u64,
        /// The connection.
        handle: u64,
        /// Which part, from 0 on.
        part: u16,
        /// What it says.
        words: [u32; INFO_WORDS],
    },
    /// A datagram.
    UdpRecv {
        /// The bound address's.
        cookie: u64,
        /// The dataplane's address that it was sent to.
        local: IpAddr,
        /// The frame, to be given back by `UdpRecvDone`.
        frame: u32,
        /// First byte in the received memory.
        offset: u64,
        /// Length in bytes; may be 0.
        len: u32,
        /// The sender.
        remote: SocketAddr,
    },
    /// A datagram is sent, or given up: its memory is the application's again.
    UdpSent {
        /// The bound address's.
        cookie: u64,
        /// As given.
        token: u64,
    },
    /// A timer is due.
    Timer {
        /// As given.
        cookie: u64,
    },
    /// A flow group has left for another core: nothing more of its connections comes here.
    Left {
        /// The flow group.
        group: u8,
    },
    /// A flow group has arrived: what follows comes after its `Left` in the ring of core `from`.
    Arrived {
        /// The flow group.
        group: u8,
        /// The core that it comes from.
        from: u8,
    },
    /// The calls up to `Passed` are done: those for the group go through this ring now.
    Settled {
        /// The flow group.
        group: u8,
    },
}

/// Why a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Ending {
    /// Both sides closed, all was delivered.
    Closed = 1,
    /// The peer reset it.
    Reset = 2,
    /// The peer refused it.
    Refused = 3,
    /// The peer did not answer in time.
    TimedOut = 4,
    /// No way to the peer.
    Unreachable = 5,
    /// The application, or the dataplane for it, ended it.
    Aborted = 6,
    /// The dataplane has no room for it, or no free port.
    NoRoom = 7,
    /// This application may not connect.
    Forbidden = 8,
}

/// Why an address was not given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[repr(u32)]
pub enum Refusal {
    /// Somebody has it.
    #[error("the address is in use")]
    InUse = 1,
    /// The dataplane has no such address.
    #[error("the dataplane has no such address")]
    NotOurs = 2,
    /// The policy does not give it to this application.
    #[error("the dataplane's configuration does not give this address to this application")]
    Forbidden = 3,
    /// No room.
    #[error("the dataplane's address table is full")]
    Full = 4,
    /// Not an address that can be bound.
    #[error("this address cannot be bound")]
    Invalid = 5,
}
