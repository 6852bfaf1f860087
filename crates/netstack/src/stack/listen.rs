//! Listeners and half-open connections (RFC 9293, 3.10.7.2), with SYN cookies during a flood (RFC
//! 4987).

use super::Stack;
use super::connection::Connection;
use super::fast_open::Decision;
use super::listeners::Listener;
use super::receive::Datagram;
use super::transmit::segment_bytes;
use crate::api::{BindError, ListenerId, Time};
use crate::flow::FlowKey;
use crate::tcp::segment::{Incoming, is_opening};
use crate::tcp::state::Tcb;
use crate::tcp::timestamps::Timestamps;
use crate::wire::address::Addr;
use crate::wire::tcp::{ACK, RST, SYN};
use std::net::SocketAddr;

/// Result of a segment without a connection.
#[derive(Debug, Clone, Copy)]
pub enum OpenResult {
    Nothing,
    /// A SYN that may have opened a connection, which then keeps the segment's buffer or not.
    BySyn {
        keeps_buffer: bool,
    },
    /// The connection in this slot, opened by a cookie, which must process the segment.
    ByCookie(u32),
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

    /// Accepts connections to an address; the unspecified address stands for all of its family.
    /// `backlog` is the largest number of open connections that wait for `accept`.
    ///
    /// # Errors
    ///
    /// If the address is in use or not the stack's, or the table is full.
    pub fn listen(
        &mut self,
        at: SocketAddr,
        backlog: u32,
        cookie: u64,
    ) -> Result<ListenerId, BindError> {
        let ip = self.check_bind(at)?;
        let mut listener = Listener::new(ip, at.port(), cookie, backlog);
        listener.set_fast_open(self.config.tcp.fast_open);
        let slot = self
            .listeners
            .bind(listener, self.config.limits.listeners)?;
        Ok(ListenerId {
            slot,
            generation: self.listeners.generation(slot),
        })
    }

    /// Closes a listener, and resets its connections that were not accepted. Returns the number of
    /// connection slots that were examined.
    pub fn unlisten(&mut self, now: Time, listener: ListenerId) -> u32 {
        let found = self.listeners.check(listener.slot, listener.generation);
        if found.is_none() {
            return 0;
        }
        // Most listeners have no such connections, and the table is not searched.
        let mut left = self.listeners.get(listener.slot).waiting();
        let mut slots = 0..self.connections.count();
        while left > 0
            && let Some(slot) = slots.next()
        {
            let theirs = self.connections.get(slot).listener() == Some(listener.slot);
            if theirs && self.connections.is_alive(slot) {
                left -= 1;
                self.reset(slot, now);
            }
        }
        self.listeners.unbind(listener.slot);
        slots.start
    }

    /// Processes a segment without a connection.
    pub(super) fn no_connection(
        &mut self,
        now: Time,
        datagram: &Datagram<'_>,
        key: &FlowKey,
        segment: &Incoming,
    ) -> OpenResult {
        let listener = self.listeners.find(&key.local, key.local_port);
        if let Some(listener) = listener {
            if is_opening(segment.header.flags) {
                let keeps_buffer = self.syn(now, datagram, key, segment, listener, None);
                return OpenResult::BySyn { keeps_buffer };
            }
            // RFC 9293, 3.10.7.2: only an ACK is answered with an RST. A FIN without ACK is
            // dropped, and so is SYN+FIN, which no TCP sends.
            if segment.is(RST) || !segment.is(ACK) {
                return OpenResult::Nothing;
            }
            if !segment.is(SYN)
                && let Some(opened) = self.cookie(now, datagram, key, segment, listener)
            {
                return opened.map_or(OpenResult::Nothing, OpenResult::ByCookie);
            }
        } else {
            self.counters.no_listener += 1;
        }
        self.refuse(now, datagram, key, segment);
        OpenResult::Nothing
    }

    /// Processes a SYN to a listener. `after` is a lower bound of our sequence number (reuse of a
    /// TIME_WAIT entry). Returns whether the connection keeps the buffer.
    pub(super) fn syn(
        &mut self,
        now: Time,
        datagram: &Datagram<'_>,
        key: &FlowKey,
        segment: &Incoming,
        listener: u32,
        after: Option<u32>,
    ) -> bool {
        let bound = self.listeners.get(listener);
        if bound.is_full() {
            self.counters.backlog_full += 1;
            return false;
        }
        // All listeners together must leave slots for open connections.
        let limits = &self.config.limits;
        if bound.half_open() >= limits.half_open
            || self.listeners.half_open() >= limits.most_half_open()
            || self.connections.is_full()
        {
            self.send_cookie(now, datagram, key, segment);
            return false;
        }
        let mut offered = None;
        match self.fast_open(key, segment, listener) {
            Decision::Ignore => {}
            Decision::Offer(option) => offered = Some(option),
            Decision::Take(option) => {
                let place = (listener, after);
                return self.open_early(now, datagram, key, segment, place, option);
            }
        }
        let mut connection = self.half_open(now, datagram, key, segment, listener, after);
        if let Some(option) = offered {
            connection.tcb.offer_fast_open(option);
        }
        if let Some(slot) = self.insert(connection) {
            self.listeners.add_half_open(listener);
            self.update_tables(slot);
        }
        false
    }

    pub(super) fn half_open(
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
        let mss = segment_bytes(self.routes.mtu_bytes(&key.local), key.local.is_v4());
        let clock = Timestamps::new(self.numbers.timestamp_offset(key), now);
        let tcp = &self.config.tcp;
        let mut tcb =
            Tcb::new(*key, tcp, mss, now).answering(&segment.header, iss, clock, tcp, now);
        if let Some(mtu) = self.paths.get(&key.remote, now) {
            tcb.fit_path(mtu);
        }
        tcb.set_options(self.listeners.get(listener).options(), tcp, now);
        let mut connection = Connection::new(tcb, self.flows.hash(key));
        connection.set_listener(listener);
        // Answers go to the SYN's sender until the neighbour table has an address.
        connection.set_peer_mac(datagram.mac);
        connection
    }

    /// Removes a connection from its listener when it is accepted or ends.
    pub(super) fn leave_listener(&mut self, slot: u32) {
        let connection = self.connections.get_mut(slot);
        let Some(listener) = connection.take_listener() else {
            return;
        };
        if connection.tcb.notices.is_half_open() {
            self.listeners.drop_half_open(listener);
        } else {
            self.listeners.get_mut(listener).take_pending(1);
        }
    }

    /// Records that a half-open connection of a listener is open.
    pub(super) fn count_opened(&mut self, slot: u32) {
        if let Some(listener) = self.connections.get(slot).listener() {
            self.listeners.get_mut(listener).add_pending();
            self.listeners.drop_half_open(listener);
        }
    }
}
