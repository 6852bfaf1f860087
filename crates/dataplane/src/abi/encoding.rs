//! Calls and conditions as entries of a ring, in both directions. An entry of an application is not
//! trusted: an unknown kind is not a call.

use super::{Call, Condition, Ending, Entry, INFO_PARTS, INFO_WORDS, Refusal, Sharing, options};
use std::net::{IpAddr, SocketAddr};

macro_rules! kinds {
    ($($name:ident = $number:literal),* $(,)?) => { $(const $name: u32 = $number;)* };
}
kinds! {
    LISTEN = 1, UDP_BIND = 2, UNBIND = 3, CONNECT = 4, ACCEPT = 5, REJECT = 6, SEND = 7,
    RECV_DONE = 8, SHUTDOWN = 9, CLOSE = 10, ABORT = 11, UDP_SEND = 12, UDP_RECV_DONE = 13,
    TIMER = 14, PASSED = 15, OPTIONS = 16, INFO = 17,
    BOUND = 32, KNOCK = 33, CONNECTED = 34, RECV = 35, PEER_CLOSED = 36, SENT = 37, DEAD = 38,
    UDP_RECV = 39, UDP_SENT = 40, TIMER_DUE = 41, LEFT = 42, ARRIVED = 43, SETTLED = 44,
    INFO_PART = 45,
}

impl Entry {
    pub(super) fn new(kind: u32) -> Entry {
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
        self.ip = octets(address.ip());
        self.port = address.port();
        self
    }

    /// Sets a second address, in the fields `handle` and `more`; all zeros mean none.
    fn beside(mut self, ip: Option<IpAddr>) -> Entry {
        let bits = ip.map_or(0, |ip| u128::from_be_bytes(octets(ip)));
        (self.handle, self.more) = ((bits >> 64) as u64, bits as u64);
        self
    }

    fn second(&self) -> Option<IpAddr> {
        let bits = u128::from(self.handle) << 64 | u128::from(self.more);
        (bits != 0).then(|| IpAddr::from(bits.to_be_bytes()).to_canonical())
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

    /// Sets all fields except kind, names and port.
    fn words(mut self, part: u16, words: [u32; INFO_WORDS]) -> Entry {
        let [len, value, a, b, c, d, e, f, g, h] = words;
        let pair = |low: u32, high: u32| u64::from(high) << 32 | u64::from(low);
        (self.len, self.value, self.reserved) = (len, value, part);
        (self.offset, self.more) = (pair(a, b), pair(c, d));
        for (to, word) in self.ip.chunks_exact_mut(4).zip([e, f, g, h]) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        self
    }

    fn all_words(&self) -> [u32; INFO_WORDS] {
        let (low, high) = (|both: u64| both as u32, |both: u64| (both >> 32) as u32);
        let ip = |at: usize| {
            let bytes = self.ip.get(at..).and_then(|rest| rest.first_chunk());
            bytes.map_or(0, |bytes| u32::from_ne_bytes(*bytes))
        };
        let (offset, more) = (self.offset, self.more);
        [
            self.len,
            self.value,
            low(offset),
            high(offset),
            low(more),
            high(more),
            ip(0),
            ip(4),
            ip(8),
            ip(12),
        ]
    }
}

// Inlined, so that the compiler resolves the kind where a call or a condition is made.
impl From<Call> for Entry {
    #[inline(always)]
    fn from(call: Call) -> Entry {
        match call {
            Call::Listen {
                local,
                backlog,
                cookie,
                sharing,
            } => Entry::of(LISTEN, 0, cookie)
                .at(local)
                .value(backlog)
                .range(0, sharing.is_standby.into())
                .more(sharing.group),
            Call::UdpBind { local, cookie } => Entry::of(UDP_BIND, 0, cookie).at(local),
            Call::Unbind { handle } => Entry::of(UNBIND, handle, 0),
            Call::Connect {
                remote,
                cookie,
                options,
            } => options::put(Entry::of(CONNECT, 0, cookie).at(remote), options),
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
            Call::Options { handle, options } => {
                options::put(Entry::of(OPTIONS, handle, 0), options)
            }
            Call::Info { handle } => Entry::of(INFO, handle, 0),
            Call::UdpSend {
                handle,
                remote,
                source,
                offset,
                len,
                token,
            } => Entry::of(UDP_SEND, 0, token)
                .at(remote)
                .range(offset, len)
                // Names of addresses are small numbers.
                .value(u32::try_from(handle).unwrap_or(u32::MAX))
                .beside(source),
            Call::UdpRecvDone { frame } => Entry::new(UDP_RECV_DONE).value(frame),
            Call::Timer { delay_ns, cookie } => Entry::of(TIMER, 0, cookie).more(delay_ns),
            Call::Passed { group } => Entry::new(PASSED).value(u32::from(group)),
        }
    }
}

impl Call {
    /// Decodes an entry of an application; `None` if it is not a call.
    #[inline(always)]
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
                sharing: Sharing {
                    group: entry.more,
                    is_standby: match len {
                        0 => false,
                        1 => true,
                        _ => return None,
                    },
                },
            },
            UDP_BIND => Call::UdpBind {
                local: entry.address(),
                cookie,
            },
            UNBIND => Call::Unbind { handle },
            CONNECT => Call::Connect {
                remote: entry.address(),
                cookie,
                options: options::get(entry)?,
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
            OPTIONS => Call::Options {
                handle,
                options: options::get(entry)?,
            },
            INFO => Call::Info { handle },
            UDP_SEND => Call::UdpSend {
                handle: value.into(),
                remote: entry.address(),
                source: entry.second(),
                offset,
                len,
                token: cookie,
            },
            UDP_RECV_DONE => Call::UdpRecvDone { frame: value },
            TIMER => Call::Timer {
                delay_ns: entry.more,
                cookie,
            },
            PASSED => Call::Passed {
                group: flow_group(value)?,
            },
            _ => return None,
        })
    }
}

impl From<Condition> for Entry {
    #[inline(always)]
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
                local,
            } => Entry::of(CONNECTED, handle, cookie)
                .value(window_bytes)
                .at(local),
            Condition::Info {
                cookie,
                handle,
                part,
                words,
            } => Entry::of(INFO_PART, handle, cookie).words(part, words),
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
                ranges,
                limit_bytes,
            } => Entry::of(SENT, handle, cookie)
                .range(0, bytes)
                .value(ranges)
                .more(limit_bytes),
            Condition::Dead {
                cookie,
                handle,
                reason,
            } => Entry::of(DEAD, handle, cookie).value(reason as u32),
            Condition::UdpRecv {
                cookie,
                local,
                frame,
                offset,
                len,
                remote,
            } => Entry::of(UDP_RECV, 0, cookie)
                .range(offset, len)
                .value(frame)
                .at(remote)
                .beside(Some(local)),
            Condition::UdpSent { cookie, token } => Entry::of(UDP_SENT, 0, cookie).more(token),
            Condition::Timer { cookie } => Entry::of(TIMER_DUE, 0, cookie),
            Condition::Left { group } => Entry::new(LEFT).value(u32::from(group)),
            Condition::Arrived { group, from } => Entry::new(ARRIVED)
                .value(u32::from(group))
                .range(0, u32::from(from)),
            Condition::Settled { group } => Entry::new(SETTLED).value(u32::from(group)),
        }
    }
}

impl Condition {
    /// Decodes an entry of the dataplane; `None` for a kind that this version does not know.
    #[inline(always)]
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
                local: entry.address(),
            },
            INFO_PART => Condition::Info {
                cookie,
                handle,
                part: (usize::from(entry.reserved) < INFO_PARTS).then_some(entry.reserved)?,
                words: entry.all_words(),
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
                ranges: value,
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
                local: entry.second()?,
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
            LEFT => Condition::Left {
                group: flow_group(value)?,
            },
            ARRIVED => Condition::Arrived {
                group: flow_group(value)?,
                from: u8::try_from(len).ok()?,
            },
            SETTLED => Condition::Settled {
                group: flow_group(value)?,
            },
            _ => return None,
        })
    }
}

/// An address as 16 bytes; IPv4 becomes IPv4-mapped IPv6.
fn octets(ip: IpAddr) -> [u8; 16] {
    match ip {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
        IpAddr::V6(v6) => v6.octets(),
    }
}

/// Number of a flow group, checked.
fn flow_group(value: u32) -> Option<u8> {
    let group = u8::try_from(value).ok()?;
    (group < cofferdam_netstack::FLOW_GROUPS).then_some(group)
}
