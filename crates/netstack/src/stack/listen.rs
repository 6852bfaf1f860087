//! Listeners and half-open connections (RFC 9293, 3.10.7.2), SYN cookies under flood (RFC 4987).

use super::connections::Connection;
use super::receive::Datagram;
use super::{Stack, replies};
use crate::api::{BindError, ListenerId, Time};
use crate::core::siphash::Key;
use crate::core::slots::Slots;
use crate::core::table::Table;
use crate::flow::FlowKey;
use crate::tcp::segment::{Incoming, Outgoing, is_opening};
use crate::tcp::state::Tcb;
use crate::tcp::syncookie::Cookies;
use crate::tcp::terms::{agreed_mss, receive_scale};
use crate::tcp::timestamps::Timestamps;
use crate::wire::address::Addr;
use crate::wire::tcp::{ACK, Options, RST, SYN};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A bound address.
#[derive(Debug, Clone, Copy, Default)]
pub struct Listener {
    pub at: Addr,
    pub port: u16,
    pub cookie: u64,
    /// Who sends datagrams from it: see [`super::readers`].
    pub reader: u8,
    pub backlog: u32,
    /// Half-open connections.
    pub half_open: u32,
    /// Open ones that were not accepted yet.
    pub pending: u32,
}

/// Bound addresses, found by address and port in O(1).
#[derive(Debug)]
pub struct Listeners {
    pub all: Vec<Listener>,
    pub slots: Slots,
    /// Half-open connections of all.
    half_open: u32,
    table: Table,
    key: Key,
}

/// The address that stands for all of its family.
pub fn any(v4: bool) -> Addr {
    Addr::from(if v4 {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED)
    } else {
        IpAddr::V6(Ipv6Addr::UNSPECIFIED)
    })
}

impl Listeners {
    pub fn new(count: u32, secret: &[u8; 16]) -> Self {
        Self {
            all: vec![Listener::default(); count as usize],
            slots: Slots::new(count),
            half_open: 0,
            table: Table::new(count as usize),
            key: Key::new(secret, 8),
        }
    }

    fn exact(&self, at: &Addr, port: u16) -> (u64, Option<u32>) {
        let words = u128::from_ne_bytes(at.0);
        let hash = self
            .key
            .hash(&[words as u64, (words >> 64) as u64, u64::from(port)]);
        let is = |slot: u32| {
            let listener = &self.all[slot as usize];
            listener.at == *at && listener.port == port
        };
        (hash, self.table.find(hash, is))
    }

    /// Who has an address and port: by address first.
    pub fn find(&self, at: &Addr, port: u16) -> Option<u32> {
        self.exact(at, port)
            .1
            .or_else(|| self.exact(&any(at.is_v4()), port).1)
    }

    /// A connection of this one is half-open.
    pub fn add_half_open(&mut self, slot: u32) {
        self.half_open += 1;
        self.all[slot as usize].half_open += 1;
    }

    /// A half-open connection of this one is open, or has ended.
    fn drop_half_open(&mut self, slot: u32) {
        self.half_open -= 1;
        self.all[slot as usize].half_open -= 1;
    }

    /// Binds; `None` when the table is full, `Err` when it is taken.
    pub fn bind(&mut self, listener: Listener, full: u32) -> Result<u32, BindError> {
        let (hash, found) = self.exact(&listener.at, listener.port);
        if found.is_some() {
            return Err(BindError::InUse(SocketAddr::new(
                listener.at.ip(),
                listener.port,
            )));
        }
        let slot = self.slots.take().ok_or(BindError::Full(full))?;
        self.all[slot as usize] = listener;
        self.table.insert(hash, slot);
        Ok(slot)
    }

    pub fn unbind(&mut self, slot: u32) {
        let Listener { at, port, .. } = self.all[slot as usize];
        let (hash, _) = self.exact(&at, port);
        self.table.remove(hash, slot);
        self.slots.free(slot);
    }
}

impl Stack {
    /// Checks an address to bind.
    pub(super) fn check_bind(&self, at: SocketAddr) -> Result<Addr, BindError> {
        if at.port() == 0 {
            return Err(BindError::NoPort);
        }
        let ip = Addr::from(at.ip());
        let ours = if ip.is_unspecified() {
            self.routes.has_family(at.is_ipv4())
        } else {
            self.routes.is_ours(&ip)
        };
        if ours {
            Ok(ip)
        } else {
            Err(BindError::NotOurs(at.ip()))
        }
    }

    /// Accepts connections to an address; the unspecified address means all of its family.
    /// `backlog`: open connections that wait for `accept`, at most.
    ///
    /// # Errors
    /// When it is in use, not ours, or the table is full.
    pub fn listen(
        &mut self,
        at: SocketAddr,
        backlog: u32,
        cookie: u64,
    ) -> Result<ListenerId, BindError> {
        let ip = self.check_bind(at)?;
        let listener = Listener {
            at: ip,
            port: at.port(),
            cookie,
            backlog,
            ..Listener::default()
        };
        let slot = self
            .listeners
            .bind(listener, self.config.limits.listeners)?;
        Ok(ListenerId {
            slot,
            generation: self.listeners.slots.generation(slot),
        })
    }

    /// Stops accepting; connections that were not accepted yet are reset.
    pub fn unlisten(&mut self, now: Time, listener: ListenerId) -> bool {
        let Some(_) = self
            .listeners
            .slots
            .check(listener.slot, listener.generation)
        else {
            return false;
        };
        for slot in 0..self.connections.count() {
            let theirs = self.connections.get(slot).listener() == Some(listener.slot);
            if theirs && self.connections.is_alive(slot) {
                self.reset(slot, now);
            }
        }
        self.listeners.unbind(listener.slot);
        true
    }

    /// A segment for which there is no connection. The slot of the one that it opens, if it
    /// returns a cookie.
    pub(super) fn no_connection(
        &mut self,
        now: Time,
        datagram: &Datagram<'_>,
        key: &FlowKey,
        segment: &Incoming,
    ) -> Option<u32> {
        let listener = self.listeners.find(&key.local, key.local_port);
        if let Some(listener) = listener
            && !segment.is(RST)
        {
            if is_opening(segment.header.flags) {
                self.syn(now, datagram, key, segment, listener, None);
                return None;
            }
            if segment.is(ACK)
                && !segment.is(SYN)
                && let Some(opened) = self.cookie(now, datagram, key, segment, listener)
            {
                return opened;
            }
        }
        if listener.is_none() {
            self.counters.no_listener += 1;
        }
        self.refuse(now, datagram, key, segment);
        None
    }

    /// Answers a segment that belongs to nothing with an RST.
    pub(super) fn refuse(
        &mut self,
        now: Time,
        datagram: &Datagram<'_>,
        key: &FlowKey,
        segment: &Incoming,
    ) {
        let Some(reset) = crate::tcp::segment::reset_for(segment) else {
            return;
        };
        if !self.reset_limit.allow(now) {
            self.counters.replies_suppressed += 1;
            return;
        }
        self.counters.resets_sent += 1;
        self.reply_segment(datagram, key, &reset);
    }

    /// A SYN to a listener. `after`: our number must be behind this one (TIME_WAIT used again).
    pub(super) fn syn(
        &mut self,
        now: Time,
        datagram: &Datagram<'_>,
        key: &FlowKey,
        segment: &Incoming,
        listener: u32,
        after: Option<u32>,
    ) {
        let Listener {
            backlog,
            half_open,
            pending,
            ..
        } = self.listeners.all[listener as usize];
        if pending >= backlog {
            self.counters.backlog_full += 1;
            return;
        }
        // Many listeners together must leave room for connections, too.
        let limits = &self.config.limits;
        if half_open >= limits.half_open
            || self.listeners.half_open >= limits.connections.div_ceil(2)
            || self.connections.is_full()
        {
            return self.send_cookie(now, datagram, key, segment);
        }
        let connection = self.half_open(now, datagram, key, segment, listener, after);
        if let Some(slot) = self.insert(connection) {
            self.listeners.add_half_open(listener);
            self.settle(slot);
        }
    }

    fn half_open(
        &self,
        now: Time,
        datagram: &Datagram<'_>,
        key: &FlowKey,
        segment: &Incoming,
        listener: u32,
        after: Option<u32>,
    ) -> Connection {
        let mut iss = self.numbers.initial(key, now);
        if let Some(after) = after
            && crate::tcp::seq::lt(iss, after)
        {
            iss = after;
        }
        let mss = self.our_mss(key.local.is_v4());
        let clock = Timestamps::new(self.numbers.timestamp_offset(key), now);
        let tcp = &self.config.tcp;
        let mut tcb =
            Tcb::new(*key, tcp, mss, now).answering(&segment.header, iss, clock, tcp, now);
        if let Some(mtu) = self.paths.get(&key.remote, now) {
            tcb.fit_path(mtu);
        }
        let mut connection = Connection::new(tcb, self.flows.hash(key));
        connection.set_listener(listener);
        // The way back is the way it came, until a neighbour says otherwise.
        connection.came_from(datagram.mac);
        connection
    }

    /// Answers a SYN and forgets it.
    fn send_cookie(
        &mut self,
        now: Time,
        datagram: &Datagram<'_>,
        key: &FlowKey,
        segment: &Incoming,
    ) {
        let theirs = &segment.header.options;
        let tcp = &self.config.tcp;
        let ours = self.our_mss(key.local.is_v4());
        let mss = agreed_mss(theirs.mss, ours, key.local.is_v4());
        let seq = self.cookies.make(key, segment.header.seq, mss, now);
        let offset = self.numbers.timestamp_offset(key);
        let stamps = theirs.timestamps.filter(|_| tcp.timestamps);
        // Without a timestamp there is no room for the other options: none is agreed.
        let scale = theirs
            .scale
            .filter(|_| tcp.window_scaling && stamps.is_some());
        let sack = tcp.sack && theirs.sack_permitted && stamps.is_some();
        let options = Options {
            mss: Some(ours),
            scale: scale.map(|_| receive_scale(tcp)),
            sack_permitted: sack,
            timestamps: stamps
                .map(|(value, _)| (Cookies::timestamp(now, offset, scale, sack), value)),
            ..Options::default()
        };
        self.counters.cookies_sent += 1;
        let answer = Outgoing {
            seq,
            ack: segment.header.seq.wrapping_add(1),
            flags: SYN | ACK,
            window: tcp.receive_window_bytes.min(0xffff) as u16,
            options,
            ..Outgoing::default()
        };
        self.reply_segment(datagram, key, &answer);
    }

    /// An ACK that may return a cookie: `None` when it does not, else the slot of the connection
    /// that it opens, if there is room.
    fn cookie(
        &mut self,
        now: Time,
        datagram: &Datagram<'_>,
        key: &FlowKey,
        segment: &Incoming,
        listener: u32,
    ) -> Option<Option<u32>> {
        let header = &segment.header;
        let (irs, iss) = (header.seq.wrapping_sub(1), header.ack.wrapping_sub(1));
        let Some(mss) = self.cookies.check(key, irs, iss, now) else {
            self.counters.cookies_refused += 1;
            return None;
        };
        let Listener {
            backlog, pending, ..
        } = self.listeners.all[listener as usize];
        if pending >= backlog || self.connections.is_full() {
            // The peer believes that it is open; its data comes again, and with it the cookie.
            self.counters.backlog_full += 1;
            return Some(None);
        }
        let remembered = Cookies::remembered(mss, header.options.timestamps.map(|(_, echo)| echo));
        let mut syn = *segment;
        syn.header.seq = irs;
        syn.header.options = Options {
            mss: Some(remembered.mss),
            scale: remembered.scale,
            sack_permitted: remembered.sack,
            timestamps: header.options.timestamps,
            ..Options::default()
        };
        let mut connection = self.half_open(now, datagram, key, &syn, listener, None);
        connection.tcb.answered_by_cookie(iss);
        let slot = self.insert(connection)?;
        self.counters.cookies_accepted += 1;
        self.listeners.add_half_open(listener);
        Some(Some(slot))
    }

    /// A connection left its listener: it was opened, accepted or ended.
    pub(super) fn leave_listener(&mut self, slot: u32) {
        let connection = self.connections.get_mut(slot);
        let Some(listener) = connection.take_listener() else {
            return;
        };
        if connection.tcb.notices.is_half_open() {
            self.listeners.drop_half_open(listener);
        } else {
            self.listeners.all[listener as usize].pending -= 1;
        }
    }

    /// A half-open connection of a listener is open now.
    pub(super) fn count_opened(&mut self, slot: u32) {
        if let Some(listener) = self.connections.get(slot).listener() {
            self.listeners.all[listener as usize].pending += 1;
            self.listeners.drop_half_open(listener);
        }
    }

    /// Sends a segment that belongs to no connection back to where `datagram` came from.
    pub(super) fn reply_segment(
        &mut self,
        datagram: &Datagram<'_>,
        key: &FlowKey,
        segment: &Outgoing,
    ) {
        let header = crate::wire::tcp::Segment {
            source_port: key.local_port,
            destination_port: key.remote_port,
            seq: segment.seq,
            ack: segment.ack,
            flags: segment.flags,
            window: segment.window,
            header_len: 0,
            options: segment.options,
        };
        let len = crate::wire::tcp::HEADER_BYTES + header.options.len();
        let sum = crate::wire::ip::pseudo_sum(&key.local, &key.remote, crate::wire::ip::TCP, len);
        let outline = replies::Outline {
            source: &key.local,
            destination: &key.remote,
            protocol: crate::wire::ip::TCP,
            hop_limit: super::transmit::HOP_LIMIT,
        };
        let v4 = key.local.is_v4();
        let mut reply = replies::Reply::ip(datagram.mac, self.config.mac, &outline, len, 0);
        crate::wire::tcp::write(reply.body(v4), &header, sum);
        if self.replies.push(reply.with_checksum(v4, 16)) {
            self.counters.segments_sent += 1;
        } else {
            self.counters.replies_suppressed += 1;
        }
    }
}
