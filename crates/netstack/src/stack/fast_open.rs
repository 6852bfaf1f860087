//! TCP Fast Open (RFC 7413): cookies for clients, and cookies from servers.

use super::Stack;
use super::receive::Datagram;
use crate::api::{FastOpenServer, ListenerId, Time};
use crate::core::siphash::Key;
use crate::flow::FlowKey;
use crate::tcp::segment::Incoming;
use crate::tuning::fast_open::SERVERS;
use crate::wire::address::Addr;
use crate::wire::tcp::FastOpenOption;
use siphasher::sip::SipHasher24;
use std::hash::Hasher;

/// Reaction to the Fast Open option of a SYN.
#[derive(Debug, Clone, Copy)]
pub enum Decision {
    /// Ordinary handshake.
    Ignore,
    /// The SYN+ACK has a cookie, and the data is not accepted.
    Offer(FastOpenOption),
    /// The data is accepted. The SYN+ACK has a new cookie if the client's was made with the
    /// previous key.
    Take(Option<FastOpenOption>),
}

/// Cookie for the client at `remote`: SipHash-2-4 of both addresses. No other host can compute it
/// (RFC 7413, 4.1.2).
fn cookie(secret: &[u8; 16], local: &Addr, remote: &Addr) -> [u8; 8] {
    let mut hasher = SipHasher24::new_with_key(secret);
    if local.is_v4() {
        hasher.write(&remote.octets4());
        hasher.write(&local.octets4());
    } else {
        hasher.write(&remote.0);
        hasher.write(&local.0);
    }
    hasher.finish().to_le_bytes()
}

/// Reaction to the option of a SYN with or without data. `may_open`: the listener may have another
/// connection that the application gets before the handshake is complete.
fn decide(
    server: &FastOpenServer,
    secret: [u8; 16],
    key: &FlowKey,
    option: Option<FastOpenOption>,
    has_data: bool,
    may_open: bool,
) -> Decision {
    let [current, previous] = server.keys;
    let make = |secret: &[u8; 16]| cookie(secret, &key.local, &key.remote);
    let fresh = make(&current.unwrap_or(secret));
    let Some(option) = option else {
        let takes = server.without_cookie && has_data && may_open;
        return if takes {
            Decision::Take(None)
        } else {
            Decision::Ignore
        };
    };
    let offer = FastOpenOption::new(&fresh, option.is_experimental);
    let is_current = option.cookie() == fresh;
    let is_known = is_current || previous.is_some_and(|key| option.cookie() == make(&key));
    match (is_known || server.without_cookie && has_data, may_open) {
        (true, true) => Decision::Take(Some(offer).filter(|_| is_known && !is_current)),
        // Too many connections are pending, so the option is ignored (RFC 7413, 4.2).
        (true, false) => Decision::Ignore,
        (false, _) => Decision::Offer(offer),
    }
}

/// Fast Open data of one server.
#[derive(Debug, Clone, Copy, Default)]
struct Server {
    ip: Addr,
    /// The server's cookie; empty if it sent none.
    option: FastOpenOption,
    /// Segment size that the server announced.
    mss: u16,
    /// Whether the server has ignored the option with either number. It is then not tried again.
    has_refused: bool,
}

/// Fast Open data of servers in a fixed number of entries, indexed by a hash of the address. A new
/// server replaces the old one of its entry.
#[derive(Debug)]
pub struct Servers {
    all: Vec<Server>,
    key: Key,
}

impl Servers {
    pub fn new(secret: &[u8; 16]) -> Self {
        Self {
            all: vec![Server::default(); SERVERS],
            key: Key::new(secret, 9),
        }
    }

    fn index_of(&self, ip: &Addr) -> usize {
        let words = u128::from_ne_bytes(ip.0);
        self.key.hash(&[words as u64, (words >> 64) as u64]) as usize % SERVERS
    }

    /// Option for a SYN to `ip`, and the segment size that the server announced last, if known. An
    /// option without a cookie requests one.
    fn option(&self, ip: &Addr) -> (FastOpenOption, Option<u16>) {
        let server = &self.all[self.index_of(ip)];
        if server.ip == *ip {
            (server.option, Some(server.mss))
        } else {
            (FastOpenOption::default(), None)
        }
    }

    /// Records a server's answer to our SYN. `ours` is the option of the SYN, `None` if the SYN was
    /// retransmitted without it. `theirs` is the server's cookie if it was requested.
    fn learn(
        &mut self,
        ip: &Addr,
        ours: Option<FastOpenOption>,
        theirs: Option<FastOpenOption>,
        mss: u16,
    ) {
        let index = self.index_of(ip);
        let entry = Some(self.all[index]).filter(|entry| entry.ip == *ip);
        let mut has_refused = entry.is_some_and(|entry| entry.has_refused);
        let old_option = entry.map(|entry| entry.option).unwrap_or_default();
        let option = match (theirs, ours) {
            (Some(option), _) if !option.cookie().is_empty() => option,
            // A server that ignores the request may know the option by the other number (RFC 7413,
            // 4.1.1; RFC 6994), which is tried once.
            (_, Some(ours)) if ours.cookie().is_empty() => {
                has_refused |= ours.is_experimental;
                FastOpenOption::new(&[], !has_refused)
            }
            _ => old_option,
        };
        self.all[index] = Server {
            ip: *ip,
            option,
            mss,
            has_refused,
        };
    }

    /// Forgets all servers.
    fn clear(&mut self) {
        self.all.fill(Server::default());
    }
}

impl Stack {
    /// Sets how a listener accepts data in a SYN (RFC 7413). The initial value is
    /// [`TcpConfig::fast_open`](crate::TcpConfig::fast_open). Returns `false` if the handle is
    /// stale.
    pub fn set_fast_open(&mut self, listener: ListenerId, server: FastOpenServer) -> bool {
        let found = self.listeners.check(listener.slot, listener.generation);
        if let Some(slot) = found {
            self.listeners.get_mut(slot).set_fast_open(server);
        }
        found.is_some()
    }

    /// Forgets the cookies of all servers.
    pub fn forget_fast_open(&mut self) {
        self.servers.clear();
    }

    /// Reaction of a listener to the Fast Open option of a SYN.
    pub(super) fn fast_open(&self, key: &FlowKey, segment: &Incoming, listener: u32) -> Decision {
        let server = self.listeners.get(listener).fast_open();
        if server.most_pending == 0 {
            return Decision::Ignore;
        }
        let may_open = self.listeners.early() < server.most_pending;
        decide(
            server,
            self.config.fast_open_secret(),
            key,
            segment.header.options.fast_open,
            segment.payload.len > 0,
            may_open,
        )
    }

    /// Opens a connection by a SYN with a cookie. Returns whether the connection keeps the SYN's
    /// buffer.
    pub(super) fn open_early(
        &mut self,
        now: Time,
        datagram: &Datagram<'_>,
        key: &FlowKey,
        segment: &Incoming,
        (listener, after): (u32, Option<u32>),
        option: Option<FastOpenOption>,
    ) -> bool {
        let mut connection = self.half_open(now, datagram, key, segment, listener, after);
        if let Some(option) = option {
            connection.tcb.offer_fast_open(option);
        }
        let context = &mut self.ranges.context(&self.config, &mut self.counters, now);
        let keeps_buffer = connection.tcb.open_early(segment, context);
        self.counters.fast_opened += 1;
        let slot = self.insert(connection);
        let slot = slot.expect("the caller has seen that there is room");
        self.listeners.get_mut(listener).add_pending();
        self.listeners.add_early();
        self.update_tables(slot);
        keeps_buffer
    }

    /// Fast Open option for our SYN to a server, and the largest amount of data for it.
    pub(super) fn fast_open_to(&self, remote: &Addr, mss: u16) -> (Option<FastOpenOption>, u32) {
        let (option, theirs) = self.servers.option(remote);
        // Options may occupy 40 bytes of the segment.
        let room = |mss: u16| u32::from(mss).saturating_sub(40);
        if !option.cookie().is_empty() {
            return (Some(option), room(theirs.unwrap_or(mss).min(mss)));
        }
        if self.config.tcp.fast_open_without_cookie {
            return (None, room(theirs.unwrap_or(mss).min(mss)));
        }
        (Some(option), 0)
    }

    /// Records a server's answer to our SYN.
    pub(super) fn learn_fast_open(&mut self, slot: u32, segment: &Incoming) {
        let tcb = self.connections.tcb(slot);
        let fast_open = tcb.fast_open();
        if !fast_open.is_learning() {
            return;
        }
        let theirs = &segment.header.options;
        let mss = theirs.mss.unwrap_or(tcb.terms().mss());
        // A cookie that was not requested is ignored.
        let cookie = theirs.fast_open.filter(|_| fast_open.has_asked());
        let remote = tcb.key.remote;
        self.servers.learn(&remote, fast_open.option(), cookie, mss);
    }
}
