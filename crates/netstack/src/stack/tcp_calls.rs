//! Calls of the application for TCP.

use super::Stack;
use super::connection::Connection;
use super::flows::Place;
use super::ports::PORTS;
use super::transmit::segment_bytes;
use crate::api::*;
use crate::flow::FlowKey;
use crate::tcp::context::Context;
use crate::tcp::state::Tcb;
use crate::tcp::timestamps::Timestamps;
use crate::wire::address::Addr;
use std::net::SocketAddr;

/// Result of a search for a local port.
enum PortChoice {
    /// A port was found and is in the key. The number is a lower bound of our sequence number if
    /// the port was in TIME_WAIT.
    Found(Option<u32>),
    /// All ports are in use.
    Exhausted,
    /// The search is not finished.
    Unfinished,
}

impl Stack {
    /// Opens a connection. `local` is its address and port; with port 0 or `None` the stack
    /// chooses. [`Event::Connected`] or [`Event::Dead`] follows.
    ///
    /// # Errors
    ///
    /// If there is no route, no free port or no free entry.
    pub fn connect(
        &mut self,
        now: Time,
        local: Option<SocketAddr>,
        remote: SocketAddr,
        cookie: u64,
    ) -> Result<ConnectionId, ConnectError> {
        let mut search = PortSearch::complete();
        let connection = self.new_connection(now, (local, remote), cookie, &mut search)?;
        self.start(connection.ok_or(ConnectError::InUse(remote))?)
    }

    /// Opens a connection like [`Self::connect`], for a caller that limits its work: the call
    /// examines no more ports than `search` allows. Returns `None` if the search is not finished;
    /// the caller repeats the call with the same remote and a new allowance.
    ///
    /// # Errors
    ///
    /// See [`Self::connect`].
    pub fn connect_by(
        &mut self,
        now: Time,
        remote: SocketAddr,
        cookie: u64,
        search: &mut PortSearch,
    ) -> Result<Option<ConnectionId>, ConnectError> {
        let connection = self.new_connection(now, (None, remote), cookie, search)?;
        connection.map(|found| self.start(found)).transpose()
    }

    /// Opens a connection like [`Self::connect`], with data for the SYN (TCP Fast Open, RFC 7413).
    /// If the server has given a cookie, the stack accepts the data that fits into the SYN, as
    /// [`Self::sendv`] does. Otherwise it accepts none, and the SYN requests a cookie. Returns the
    /// number of accepted bytes.
    ///
    /// # Errors
    ///
    /// If there is no route, no free port or no free entry.
    pub fn connect_with(
        &mut self,
        now: Time,
        local: Option<SocketAddr>,
        remote: SocketAddr,
        cookie: u64,
        data: &[Chunk],
    ) -> Result<(ConnectionId, u32), ConnectError> {
        let mut search = PortSearch::complete();
        let found = self.new_connection(now, (local, remote), cookie, &mut search)?;
        let mut connection = found.ok_or(ConnectError::InUse(remote))?;
        let tcb = &mut connection.tcb;
        let (option, most) = self.fast_open_to(&tcb.key.remote, tcb.terms().mss());
        tcb.ask_fast_open(option);
        if self.connections.is_full() {
            return Err(ConnectError::Full(self.config.limits.connections));
        }
        let context = &mut self.ranges.context(&self.config, &mut self.counters, now);
        let taken = tcb.take_for_syn(data, most, context);
        Ok((self.start(connection)?, taken))
    }

    /// Whether [`Self::connect_with`] would accept data now.
    pub fn knows_cookie(&self, remote: SocketAddr) -> bool {
        self.fast_open_to(&Addr::from(remote.ip()), u16::MAX).1 > 0
    }

    fn start(&mut self, connection: Connection) -> Result<ConnectionId, ConnectError> {
        let slot = self
            .insert(connection)
            .ok_or(ConnectError::Full(self.config.limits.connections))?;
        self.update_tables(slot);
        Ok(self.connections.id_of(slot))
    }

    /// Prepares a connection that is in no table yet. Returns `None` if the search is not finished.
    fn new_connection(
        &mut self,
        now: Time,
        (local, remote): (Option<SocketAddr>, SocketAddr),
        cookie: u64,
        search: &mut PortSearch,
    ) -> Result<Option<Connection>, ConnectError> {
        let to = Addr::from(remote.ip());
        let odd = !to.is_unicast() || self.routes.is_broadcast(&to) || self.routes.is_ours(&to);
        if odd || remote.port() == 0 || (remote.is_ipv6() && to.is_v4()) {
            return Err(ConnectError::Remote(remote));
        }
        let source = self
            .routes
            .source_for(&to)
            .ok_or(ConnectError::NoRoute(remote.ip()))?;
        let from = match local {
            Some(local) if !local.ip().is_unspecified() => Addr::from(local.ip()),
            _ => source,
        };
        if !self.routes.is_ours(&from) || from.is_v4() != to.is_v4() {
            return Err(ConnectError::NotOurs(from.ip()));
        }
        let mut key = FlowKey {
            local: from,
            remote: to,
            local_port: 0,
            remote_port: remote.port(),
        };
        let wanted = local.map_or(0, |local| local.port());
        let after = match self.choose_port(&mut key, wanted, search) {
            PortChoice::Found(after) => after,
            PortChoice::Exhausted => return Err(ConnectError::InUse(remote)),
            PortChoice::Unfinished => return Ok(None),
        };
        let clock = Timestamps::new(self.numbers.timestamp_offset(&key), now);
        let mut iss = self.numbers.initial(&key, now);
        if let Some(after) = after
            && crate::tcp::seq::lt(iss, after)
        {
            iss = after;
        }
        let mss = segment_bytes(self.routes.mtu_bytes(&from), from.is_v4());
        let mut tcb = Tcb::new(key, &self.config.tcp, mss, now).connecting(iss, clock);
        if let Some(mtu) = self.paths.get(&to, now) {
            tcb.fit_path(mtu);
        }
        let mut connection = Connection::new(tcb, self.flows.hash(&key));
        connection.own(cookie);
        Ok(Some(connection))
    }

    /// Finds a free port whose flow group this stack owns. If `wanted` is 0, any port is suitable.
    fn choose_port(
        &mut self,
        key: &mut FlowKey,
        wanted: u16,
        search: &mut PortSearch,
    ) -> PortChoice {
        if wanted != 0 {
            key.local_port = wanted;
            return match self.find(key) {
                None => PortChoice::Found(None),
                // A port in TIME_WAIT is reused only if the caller asked for it.
                Some(Place::TimeWait(place)) => {
                    let after = self.time_wait.get(place).snd_nxt.wrapping_add(0x2_0000);
                    self.remove_time_wait(place);
                    self.counters.time_wait_reused += 1;
                    PortChoice::Found(Some(after))
                }
                Some(_) => PortChoice::Exhausted,
            };
        }
        let order = self.ports.order(key);
        let first = *search.first.get_or_insert_with(|| self.ports.first(order));
        while search.tried < PORTS {
            if search.most == 0 {
                return PortChoice::Unfinished;
            }
            let position = first.wrapping_add(search.tried as u16);
            (search.tried, search.most) = (search.tried + 1, search.most - 1);
            key.local_port = order.port(position);
            if self.flows.has_group(self.flows.hash(key)) && self.find(key).is_none() {
                self.ports.continue_behind(order, position);
                return PortChoice::Found(None);
            }
        }
        PortChoice::Exhausted
    }

    /// Accepts a connection after its `Knock`. Returns the bytes that `sendv` accepts now. Its data
    /// and other events follow.
    ///
    /// # Errors
    ///
    /// If the connection has ended or was already accepted.
    pub fn accept(
        &mut self,
        _now: Time,
        connection: ConnectionId,
        cookie: u64,
    ) -> Result<u32, GoneError> {
        let slot = self.knocking(connection)?;
        self.leave_listener(slot);
        let connection = self.connections.get_mut(slot);
        connection.own(cookie);
        let room = connection.tcb.sender().writable_bytes(&self.config.tcp);
        self.update_tables(slot);
        Ok(room)
    }

    fn knocking(&self, connection: ConnectionId) -> Result<u32, GoneError> {
        let slot = self.slot_of(connection).ok_or(GoneError)?;
        let tcb = self.connections.tcb(slot);
        if tcb.notices.is_knocking() {
            Ok(slot)
        } else {
            Err(GoneError)
        }
    }

    /// Resets a connection after its `Knock`. No `Dead` event follows.
    ///
    /// # Errors
    ///
    /// If the connection has ended or was already accepted.
    pub fn reject(&mut self, now: Time, connection: ConnectionId) -> Result<(), GoneError> {
        let slot = self.knocking(connection)?;
        self.reset(slot, now);
        self.connections.tcb_mut(slot).notices.end_silently();
        Ok(())
    }

    fn owned(&self, connection: ConnectionId) -> Option<u32> {
        self.slot_of(connection)
            .filter(|slot| self.connections.tcb(*slot).notices.is_owned())
    }

    /// Sends ranges of the application's memory, in order. Returns the length of the accepted
    /// prefix in bytes. It is limited by `send_window_bytes` and by the stack's ranges
    /// ([`Limits::chunks`]); `window_bytes` of `Sent` is the useful amount.
    ///
    /// # Errors
    ///
    /// If the connection is not open, or our side is closed.
    pub fn sendv(
        &mut self,
        now: Time,
        connection: ConnectionId,
        data: &[Chunk],
    ) -> Result<u32, SendError> {
        self.send(now, connection, data, Tcb::take)
    }

    /// Sends data like [`Self::sendv`], and marks its last byte as the end of urgent data (RFC
    /// 9293, 3.8.5). The peer learns of it before it gets the data.
    ///
    /// # Errors
    ///
    /// If the connection is not open, or our side is closed.
    pub fn send_urgent(
        &mut self,
        now: Time,
        connection: ConnectionId,
        data: &[Chunk],
    ) -> Result<u32, SendError> {
        self.send(now, connection, data, Tcb::take_urgent)
    }

    #[inline]
    fn send(
        &mut self,
        now: Time,
        connection: ConnectionId,
        data: &[Chunk],
        take: impl FnOnce(&mut Tcb, &[Chunk], &mut Context<'_>) -> u32,
    ) -> Result<u32, SendError> {
        let slot = self.owned(connection).ok_or(SendError::Gone)?;
        let tcb = self.connections.tcb_mut(slot);
        if !tcb.is_open() {
            return Err(SendError::Gone);
        }
        if tcb.sender().is_closed() {
            return Err(SendError::Closed);
        }
        let context = &mut self.ranges.context(&self.config, &mut self.counters, now);
        let taken = take(tcb, data, context);
        if taken > 0 {
            self.update_tables(slot);
        }
        Ok(taken)
    }

    /// Records that the application has finished with `bytes` of received data in `buffers` buffers
    /// (one for each `Recv`), which opens the window. Larger counts than were delivered are
    /// limited.
    ///
    /// # Errors
    ///
    /// If the connection has ended.
    pub fn recv_done(
        &mut self,
        _now: Time,
        connection: ConnectionId,
        bytes: u32,
        buffers: u32,
    ) -> Result<(), GoneError> {
        let slot = self.owned(connection).ok_or(GoneError)?;
        let tcb = self.connections.tcb_mut(slot);
        if tcb.read(bytes, buffers, &self.config.tcp) {
            self.update_tables(slot);
        }
        Ok(())
    }

    /// Closes our side after the queued data (FIN); the peer may still send.
    ///
    /// # Errors
    ///
    /// If the connection has ended or is not open.
    pub fn shutdown(&mut self, _now: Time, connection: ConnectionId) -> Result<(), GoneError> {
        let slot = self.owned(connection).ok_or(GoneError)?;
        let tcb = self.connections.tcb_mut(slot);
        if !tcb.is_open() {
            return Err(GoneError);
        }
        tcb.queue_fin();
        self.update_tables(slot);
        Ok(())
    }

    /// Closes the connection after the queued data. No more data is delivered. If data arrives or
    /// is undelivered, the peer is reset (RFC 9293, 3.6.1; RFC 2525, 2.17). A `Dead` event follows.
    ///
    /// # Errors
    ///
    /// If the connection has ended.
    pub fn close(&mut self, now: Time, connection: ConnectionId) -> Result<(), GoneError> {
        let slot = self.owned(connection).ok_or(GoneError)?;
        let tcb = self.connections.tcb_mut(slot);
        if tcb.close(&self.config.tcp, now) {
            self.update_tables(slot);
        } else {
            self.reset(slot, now);
        }
        Ok(())
    }

    /// Resets the connection. A `Dead` event follows.
    ///
    /// # Errors
    ///
    /// If the connection has ended.
    pub fn abort(&mut self, now: Time, connection: ConnectionId) -> Result<(), GoneError> {
        let slot = self.owned(connection).ok_or(GoneError)?;
        self.connections.tcb_mut(slot).stop_receiving();
        self.reset(slot, now);
        Ok(())
    }
}
