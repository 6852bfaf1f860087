//! What goes through the rings between the dataplane and an application: entries of one cache
//! line. Calls go in, conditions come out (IX, OSDI'14, table 1).

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

/// A batched system call: what an application asks of the dataplane. There is no return value;
/// what came of it is told by a [`Condition`].
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
    /// End our side after what is queued; go on receiving.
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
    /// Send a datagram; [`Condition::UdpSent`] gives the memory back.
    UdpSend {
        /// From [`Condition::Bound`].
        handle: u64,
        /// The receiver.
        remote: SocketAddr,
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
}

/// An event condition: what the dataplane tells an application.
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
    /// A datagram.
    UdpRecv {
        /// The bound address's.
        cookie: u64,
        /// The bound address.
        handle: u64,
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
    #[error("the dataplane has no room for another address")]
    Full = 4,
    /// Not an address that can be bound.
    #[error("this address cannot be bound")]
    Invalid = 5,
}

macro_rules! kinds {
    ($($name:ident = $number:literal),* $(,)?) => { $(const $name: u32 = $number;)* };
}
kinds! {
    LISTEN = 1, UDP_BIND = 2, UNBIND = 3, CONNECT = 4, ACCEPT = 5, REJECT = 6, SEND = 7,
    RECV_DONE = 8, SHUTDOWN = 9, CLOSE = 10, ABORT = 11, UDP_SEND = 12, UDP_RECV_DONE = 13,
    TIMER = 14,
    BOUND = 32, KNOCK = 33, CONNECTED = 34, RECV = 35, PEER_CLOSED = 36, SENT = 37, DEAD = 38,
    UDP_RECV = 39, UDP_SENT = 40, TIMER_DUE = 41,
}

impl Entry {
    fn new(kind: u32) -> Entry {
        Entry {
            kind,
            ..Entry::default()
        }
    }

    fn of(kind: u32, handle: u64, cookie: u64) -> Entry {
        Entry {
            kind,
            handle,
            cookie,
            ..Entry::default()
        }
    }

    fn at(mut self, address: SocketAddr) -> Entry {
        self.ip = match address.ip() {
            IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
            IpAddr::V6(v6) => v6.octets(),
        };
        self.port = address.port();
        self
    }

    fn address(&self) -> SocketAddr {
        SocketAddr::new(IpAddr::from(self.ip).to_canonical(), self.port)
    }

    fn range(mut self, offset: u64, len: u32) -> Entry {
        (self.offset, self.len) = (offset, len);
        self
    }

    fn value(mut self, value: u32) -> Entry {
        self.value = value;
        self
    }

    fn more(mut self, more: u64) -> Entry {
        self.more = more;
        self
    }
}

impl From<Call> for Entry {
    fn from(call: Call) -> Entry {
        match call {
            Call::Listen {
                local,
                backlog,
                cookie,
            } => Entry::of(LISTEN, 0, cookie).at(local).value(backlog),
            Call::UdpBind { local, cookie } => Entry::of(UDP_BIND, 0, cookie).at(local),
            Call::Unbind { handle } => Entry::of(UNBIND, handle, 0),
            Call::Connect { remote, cookie } => Entry::of(CONNECT, 0, cookie).at(remote),
            Call::Accept { handle, cookie } => Entry::of(ACCEPT, handle, cookie),
            Call::Reject { handle } => Entry::of(REJECT, handle, 0),
            Call::Send {
                handle,
                offset,
                len,
            } => Entry::of(SEND, handle, 0).range(offset, len),
            Call::RecvDone { frame } => Entry::new(RECV_DONE).value(frame),
            Call::Shutdown { handle } => Entry::of(SHUTDOWN, handle, 0),
            Call::Close { handle } => Entry::of(CLOSE, handle, 0),
            Call::Abort { handle } => Entry::of(ABORT, handle, 0),
            Call::UdpSend {
                handle,
                remote,
                offset,
                len,
                token,
            } => Entry::of(UDP_SEND, handle, token)
                .at(remote)
                .range(offset, len),
            Call::UdpRecvDone { frame } => Entry::new(UDP_RECV_DONE).value(frame),
            Call::Timer { delay_ns, cookie } => Entry::of(TIMER, 0, cookie).more(delay_ns),
        }
    }
}

impl Call {
    /// Reads an entry that an application wrote; `None` when it is no call.
    pub fn decode(entry: &Entry) -> Option<Call> {
        let Entry {
            handle,
            cookie,
            offset,
            len,
            value,
            ..
        } = *entry;
        Some(match entry.kind {
            LISTEN => Call::Listen {
                local: entry.address(),
                backlog: value,
                cookie,
            },
            UDP_BIND => Call::UdpBind {
                local: entry.address(),
                cookie,
            },
            UNBIND => Call::Unbind { handle },
            CONNECT => Call::Connect {
                remote: entry.address(),
                cookie,
            },
            ACCEPT => Call::Accept { handle, cookie },
            REJECT => Call::Reject { handle },
            SEND => Call::Send {
                handle,
                offset,
                len,
            },
            RECV_DONE => Call::RecvDone { frame: value },
            SHUTDOWN => Call::Shutdown { handle },
            CLOSE => Call::Close { handle },
            ABORT => Call::Abort { handle },
            UDP_SEND => Call::UdpSend {
                handle,
                remote: entry.address(),
                offset,
                len,
                token: cookie,
            },
            UDP_RECV_DONE => Call::UdpRecvDone { frame: value },
            TIMER => Call::Timer {
                delay_ns: entry.more,
                cookie,
            },
            _ => return None,
        })
    }
}

impl From<Condition> for Entry {
    fn from(condition: Condition) -> Entry {
        match condition {
            Condition::Bound {
                cookie,
                result: Ok(handle),
            } => Entry::of(BOUND, handle, cookie),
            Condition::Bound {
                cookie,
                result: Err(why),
            } => Entry::of(BOUND, 0, cookie).value(why as u32),
            Condition::Knock {
                cookie,
                handle,
                remote,
            } => Entry::of(KNOCK, handle, cookie).at(remote),
            Condition::Connected {
                cookie,
                handle,
                window_bytes,
            } => Entry::of(CONNECTED, handle, cookie).value(window_bytes),
            Condition::Recv {
                cookie,
                handle,
                frame,
                offset,
                len,
            } => Entry::of(RECV, handle, cookie)
                .range(offset, len)
                .value(frame),
            Condition::PeerClosed { cookie, handle } => Entry::of(PEER_CLOSED, handle, cookie),
            Condition::Sent {
                cookie,
                handle,
                bytes,
                limit_bytes,
            } => Entry::of(SENT, handle, cookie)
                .range(0, bytes)
                .more(limit_bytes),
            Condition::Dead {
                cookie,
                handle,
                reason,
            } => Entry::of(DEAD, handle, cookie).value(reason as u32),
            Condition::UdpRecv {
                cookie,
                handle,
                frame,
                offset,
                len,
                remote,
            } => Entry::of(UDP_RECV, handle, cookie)
                .range(offset, len)
                .value(frame)
                .at(remote),
            Condition::UdpSent { cookie, token } => Entry::of(UDP_SENT, 0, cookie).more(token),
            Condition::Timer { cookie } => Entry::of(TIMER_DUE, 0, cookie),
        }
    }
}

impl Condition {
    /// Reads an entry that the dataplane wrote; `None` for a kind that this version does not
    /// know.
    pub fn decode(entry: &Entry) -> Option<Condition> {
        let Entry {
            handle,
            cookie,
            offset,
            len,
            value,
            ..
        } = *entry;
        Some(match entry.kind {
            BOUND => Condition::Bound {
                cookie,
                result: match value {
                    0 => Ok(handle),
                    1 => Err(Refusal::InUse),
                    2 => Err(Refusal::NotOurs),
                    3 => Err(Refusal::Forbidden),
                    4 => Err(Refusal::Full),
                    _ => Err(Refusal::Invalid),
                },
            },
            KNOCK => Condition::Knock {
                cookie,
                handle,
                remote: entry.address(),
            },
            CONNECTED => Condition::Connected {
                cookie,
                handle,
                window_bytes: value,
            },
            RECV => Condition::Recv {
                cookie,
                handle,
                frame: value,
                offset,
                len,
            },
            PEER_CLOSED => Condition::PeerClosed { cookie, handle },
            SENT => Condition::Sent {
                cookie,
                handle,
                bytes: len,
                limit_bytes: entry.more,
            },
            DEAD => Condition::Dead {
                cookie,
                handle,
                reason: match value {
                    1 => Ending::Closed,
                    2 => Ending::Reset,
                    3 => Ending::Refused,
                    4 => Ending::TimedOut,
                    5 => Ending::Unreachable,
                    7 => Ending::NoRoom,
                    8 => Ending::Forbidden,
                    _ => Ending::Aborted,
                },
            },
            UDP_RECV => Condition::UdpRecv {
                cookie,
                handle,
                frame: value,
                offset,
                len,
                remote: entry.address(),
            },
            UDP_SENT => Condition::UdpSent {
                cookie,
                token: entry.more,
            },
            TIMER_DUE => Condition::Timer { cookie },
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded_and_nothing_else() {
        let v4: SocketAddr = "10.1.2.3:80".parse().expect("an address");
        let v6: SocketAddr = "[fd00::1]:443".parse().expect("an address");
        for call in [
            Call::Listen {
                local: v4,
                backlog: 9,
                cookie: 1,
            },
            Call::UdpBind {
                local: v6,
                cookie: u64::MAX,
            },
            Call::Unbind { handle: 1 },
            Call::Connect {
                remote: v6,
                cookie: 2,
            },
            Call::Accept {
                handle: 3,
                cookie: 4,
            },
            Call::Reject { handle: 5 },
            Call::Send {
                handle: 6,
                offset: 1 << 40,
                len: 7,
            },
            Call::RecvDone { frame: 8 },
            Call::Shutdown { handle: 9 },
            Call::Close { handle: 10 },
            Call::Abort { handle: 11 },
            Call::UdpSend {
                handle: 12,
                remote: v4,
                offset: 13,
                len: 14,
                token: 15,
            },
            Call::UdpRecvDone { frame: 16 },
            Call::Timer {
                delay_ns: 17,
                cookie: 18,
            },
        ] {
            assert_eq!(Call::decode(&call.into()), Some(call));
            assert_eq!(
                Condition::decode(&call.into()),
                None,
                "no call is a condition"
            );
        }
        for condition in [
            Condition::Bound {
                cookie: 1,
                result: Ok(2),
            },
            Condition::Bound {
                cookie: 1,
                result: Err(Refusal::Forbidden),
            },
            Condition::Knock {
                cookie: 1,
                handle: 2,
                remote: v6,
            },
            Condition::Connected {
                cookie: 1,
                handle: 2,
                window_bytes: 3,
            },
            Condition::Recv {
                cookie: 1,
                handle: 2,
                frame: 3,
                offset: 4,
                len: 5,
            },
            Condition::PeerClosed {
                cookie: 1,
                handle: 2,
            },
            Condition::Sent {
                cookie: 1,
                handle: 2,
                bytes: 3,
                limit_bytes: 1 << 40,
            },
            Condition::Dead {
                cookie: 1,
                handle: 2,
                reason: Ending::NoRoom,
            },
            Condition::UdpRecv {
                cookie: 1,
                handle: 2,
                frame: 3,
                offset: 4,
                len: 5,
                remote: v4,
            },
            Condition::UdpSent {
                cookie: 1,
                token: 2,
            },
            Condition::Timer { cookie: 1 },
        ] {
            assert_eq!(Condition::decode(&condition.into()), Some(condition));
            assert_eq!(
                Call::decode(&condition.into()),
                None,
                "no condition is a call"
            );
        }
        assert_eq!(Call::decode(&Entry::new(0)), None);
        assert_eq!(Call::decode(&Entry::new(u32::MAX)), None);
    }
}
