//! TCP Fast Open (RFC 7413): the cookies that we give, and those that servers gave us.

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

/// What a SYN's option leads to.
#[derive(Debug, Clone, Copy)]
pub enum Decision {
    /// Nothing: a handshake as any other.
    Ignore,
    /// The SYN+ACK has a cookie; the data is not taken.
    Offer(FastOpenOption),
    /// The data is taken. The SYN+ACK has a cookie where the old one was made with the key before.
    Take(Option<FastOpenOption>),
}

/// A cookie for the client at `remote` (RFC 7413, 4.1.2: encrypted so that no other host can make
/// it): SipHash-2-4 of both addresses.
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

/// Decides about the option of a SYN with or without data. `may_open`: there is room for a
/// connection that the application has before the handshake is done.
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
        // RFC 7413, 4.2: too many requests: as if there was no option.
        (true, false) => Decision::Ignore,
        (false, _) => Decision::Offer(offer),
    }
}

/// A server that gave us a cookie, or none.
#[derive(Debug, Clone, Copy, Default)]
struct Server {
    ip: Addr,
    /// The cookie; empty where none was given.
    option: FastOpenOption,
    /// The segment size that it offered.
    mss: u16,
    /// It has answered neither number of the option: the other one is not tried again.
    has_refused: bool,
}

/// What servers said: a fixed number of places, one an address; a later address takes the place.
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

    fn place(&self, ip: &Addr) -> usize {
        let words = u128::from_ne_bytes(ip.0);
        self.key.hash(&[words as u64, (words >> 64) as u64]) as usize % SERVERS
    }

    /// The option for a SYN to `ip`, and the segment size that it offered last, if that is known. An
    /// option without a cookie asks for one.
    fn option(&self, ip: &Addr) -> (FastOpenOption, Option<u16>) {
        let server = &self.all[self.place(ip)];
        if server.ip == *ip {
            (server.option, Some(server.mss))
        } else {
            (FastOpenOption::default(), None)
        }
    }

    /// A server at `ip` answered our SYN. `ours`: the option that it had, `None` if it was sent again
    /// without. `theirs`: its cookie, if we asked for one.
    fn learn(
        &mut self,
        ip: &Addr,
        ours: Option<FastOpenOption>,
        theirs: Option<FastOpenOption>,
        mss: u16,
    ) {
        let place = self.place(ip);
        let known = Some(self.all[place]).filter(|known| known.ip == *ip);
        let mut has_refused = known.is_some_and(|known| known.has_refused);
        let known = known.map(|known| known.option).unwrap_or_default();
        let option = match (theirs, ours) {
            (Some(option), _) if !option.cookie().is_empty() => option,
            // A server that says nothing of a wish for a cookie may know the option by the other
            // number (RFC 7413, 4.1.1; RFC 6994), which is tried once.
            (_, Some(ours)) if ours.cookie().is_empty() => {
                has_refused |= ours.is_experimental;
                FastOpenOption::new(&[], !has_refused)
            }
            _ => known,
        };
        self.all[place] = Server {
            ip: *ip,
            option,
            mss,
            has_refused,
        };
    }

    /// What servers said is forgotten.
    fn clear(&mut self) {
        self.all.fill(Server::default());
    }
}

impl Stack {
    /// How a listener takes data in a SYN (RFC 7413); at first as
    /// [`TcpConfig::fast_open`](crate::TcpConfig::fast_open) says. `false` when the handle names none.
    pub fn set_fast_open(&mut self, listener: ListenerId, server: FastOpenServer) -> bool {
        let found = self.listeners.check(listener.slot, listener.generation);
        if let Some(slot) = found {
            self.listeners.get_mut(slot).set_fast_open(server);
        }
        found.is_some()
    }

    /// Forgets the cookies that servers gave.
    pub fn forget_fast_open(&mut self) {
        self.servers.clear();
    }

    /// What a SYN's option leads to at a listener.
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

    /// Opens a connection by a SYN with a cookie. Says whether its buffer is kept.
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
        let held = connection.tcb.open_early(segment, context);
        self.counters.fast_opened += 1;
        let slot = self.insert(connection);
        let slot = slot.expect("the caller has seen that there is room");
        self.listeners.get_mut(listener).add_pending();
        self.listeners.add_early();
        self.settle(slot);
        held
    }

    /// The option for our SYN to a server, and how much data may go with it.
    pub(super) fn fast_open_to(&self, remote: &Addr, mss: u16) -> (Option<FastOpenOption>, u32) {
        let (option, theirs) = self.servers.option(remote);
        // Options may take 40 bytes of the segment.
        let room = |mss: u16| u32::from(mss).saturating_sub(40);
        if !option.cookie().is_empty() {
            return (Some(option), room(theirs.unwrap_or(mss).min(mss)));
        }
        if self.config.tcp.fast_open_without_cookie {
            return (None, room(theirs.unwrap_or(mss).min(mss)));
        }
        (Some(option), 0)
    }

    /// A server has answered our SYN.
    pub(super) fn learn_fast_open(&mut self, slot: u32, segment: &Incoming) {
        let tcb = self.connections.tcb(slot);
        let fast_open = tcb.fast_open();
        if !fast_open.is_learning() {
            return;
        }
        let theirs = &segment.header.options;
        let mss = theirs.mss.unwrap_or(tcb.terms().mss());
        // A cookie that was not asked for is none.
        let cookie = theirs.fast_open.filter(|_| fast_open.has_asked());
        let remote = tcb.key.remote;
        self.servers.learn(&remote, fast_open.option(), cookie, mss);
    }
}
