//! The applications' batched calls: each is checked, then done.

use super::domain::{Domain, Holding, Offence};
use super::{Engine, MOST_APPLICATIONS};
use crate::abi::{Call, Condition, Ending, Refusal};
use crate::handle;
use crate::policy::Transport;
use cofferdam_netstack::{
    BindError, BufferId, BufferPool, Chunk, ConnectError, ConnectionId, ListenerId, Stack, Time,
    UdpId,
};
use cofferdam_xsk::{Frame, Port, Spans};
use std::net::SocketAddr;
use std::time::Duration;

/// Calls of one application that are done in one turn at most: nobody keeps the loop for himself.
const MOST_CALLS: u32 = 1024;

/// What tells an application's buffers from received frames in the stack's names.
const APPLICATION: u64 = 1 << 63;
/// Tokens and timers carry the application above these bits.
const COOKIE_BITS: u32 = 48;

/// A bound address and its owner.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    pub domain: u8,
    pub cookie: u64,
    pub kind: Kind,
}

/// What it was bound for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Listener(ListenerId),
    Udp(UdpId),
}

/// The stack's name for a received frame.
pub(super) fn received_buffer(frame: Frame, start: u32) -> BufferId {
    BufferId(u64::from(frame.0) | u64::from(start) << 32)
}

/// Where datagrams that came in fragments are put together.
pub(super) struct Whole<'a>(pub &'a mut Spans);

impl BufferPool for Whole<'_> {
    fn copy_in(&mut self, bytes: &[u8]) -> Option<BufferId> {
        self.0.store(bytes).map(|span| received_buffer(span, 0))
    }
}

/// The stack's name for an application's memory.
fn application_buffer(domain: u8, generation: u8) -> BufferId {
    BufferId(APPLICATION | u64::from(generation) << 8 | u64::from(domain))
}

/// Which application's memory a buffer is, and its generation; `None` for a received frame.
pub(super) fn buffer_owner(buffer: BufferId) -> Option<(u8, u8)> {
    (buffer.0 & APPLICATION != 0).then_some((buffer.0 as u8, (buffer.0 >> 8) as u8))
}

/// Marks a cookie with its application.
fn mark(domain: u8, generation: u8, cookie: u64) -> u64 {
    let low = cookie & ((1 << COOKIE_BITS) - 1);
    u64::from(generation) << 56 | u64::from(domain) << COOKIE_BITS | low
}

/// Splits what `mark` made: application, generation, cookie.
pub(super) fn unmark(marked: u64) -> (u8, u8, u64) {
    let domain = (marked >> COOKIE_BITS) as u8;
    (
        domain,
        (marked >> 56) as u8,
        marked & ((1 << COOKIE_BITS) - 1),
    )
}

impl<P: Port> Engine<P> {
    /// Does what the applications have asked for; returns how many calls.
    pub(super) fn take_calls(&mut self, now: Time) -> usize {
        let mut done = 0;
        for place in 0..MOST_APPLICATIONS {
            // Taken out for the while: the rest of the engine is needed beside it.
            let Some(mut domain) = self.domains[place].take() else {
                continue;
            };
            if domain.life.has_ended() {
                domain.end(Offence::Gone);
            }
            if !domain.is_leaving() {
                done += self.calls_of(now, place as u8, &mut domain);
            }
            if !domain.is_leaving() || !self.clean_up(now, place as u8, &mut domain) {
                self.domains[place] = Some(domain);
            }
        }
        self.tally.calls += done as u64;
        done
    }

    fn calls_of(&mut self, now: Time, place: u8, domain: &mut Domain) -> usize {
        let Ok(waiting) = domain.inside.end.waiting() else {
            domain.end(Offence::Ring);
            return 0;
        };
        let many = self.cores.is_many();
        let mut count = waiting.min(MOST_CALLS);
        if many {
            // A call may become a letter to another core, and none is lost.
            count = count.min(self.cores.room());
        }
        for _ in 0..count {
            let entry = domain.inside.end.take();
            let outcome = match Call::decode(&entry) {
                Some(call) if many && self.divert(domain, &call, entry) => Ok(()),
                Some(call) => self.call(now, place, domain, call),
                None => Err(Offence::Call),
            };
            if let Err(offence) = outcome {
                domain.end(offence);
                break;
            }
        }
        if count > 0 {
            domain.inside.end.release();
        }
        count as usize
    }

    pub(super) fn call(
        &mut self,
        now: Time,
        place: u8,
        domain: &mut Domain,
        call: Call,
    ) -> Result<(), Offence> {
        match call {
            Call::Listen {
                local,
                backlog,
                cookie,
            } => {
                let result = self.bind(place, domain, Transport::Tcp, local, backlog, cookie);
                domain.tell(Condition::Bound { cookie, result });
            }
            Call::UdpBind { local, cookie } => {
                let result = self.bind(place, domain, Transport::Udp, local, 0, cookie);
                domain.tell(Condition::Bound { cookie, result });
            }
            Call::Unbind { handle } => self.unbind(now, place, domain.client, handle),
            Call::Connect { remote, cookie } => self.connect(now, place, domain, remote, cookie),
            Call::Accept { handle, cookie } => {
                let Some(connection) = self.own(place, handle)? else {
                    domain.tell(Condition::Dead {
                        cookie,
                        handle,
                        reason: Ending::Reset,
                    });
                    return Ok(());
                };
                match self.stack.accept(now, connection, cookie) {
                    Ok(window) => {
                        if let Some(owner) = self.owners.get_mut(connection) {
                            owner.cookie = cookie;
                        }
                        let limit_bytes = u64::from(window);
                        domain.tell(Condition::Sent {
                            cookie,
                            handle,
                            bytes: 0,
                            ranges: 0,
                            limit_bytes,
                        });
                    }
                    Err(_) => {
                        self.forget(domain, connection);
                        domain.tell(Condition::Dead {
                            cookie,
                            handle,
                            reason: Ending::Reset,
                        });
                    }
                }
            }
            Call::Reject { handle } => {
                if let Some(connection) = self.own(place, handle)?
                    && self.stack.reject(now, connection).is_ok()
                {
                    self.forget(domain, connection);
                }
            }
            Call::Send {
                handle,
                offset,
                len,
            } => {
                return self.send(now, place, domain, handle, offset, len);
            }
            Call::RecvDone { frame } | Call::UdpRecvDone { frame } => {
                let held = domain.release(&mut self.memory, frame);
                if domain.has_room_again() {
                    self.stack.resume_reader(place);
                }
                match held {
                    Holding::Nothing => return Err(Offence::Frame),
                    Holding::Segment { handle, len } => {
                        self.recv_done(now, handle, len);
                    }
                    Holding::Datagram { handle } => {
                        self.stack.udp_recv_done(UdpId::from_bits(handle), 1);
                    }
                }
            }
            // Each may come after the end that the application has not heard of.
            Call::Shutdown { handle } => {
                if let Some(connection) = self.own(place, handle)? {
                    let _ = self.stack.shutdown(now, connection);
                }
            }
            Call::Close { handle } => {
                if let Some(connection) = self.own(place, handle)? {
                    let _ = self.stack.close(now, connection);
                }
            }
            Call::Abort { handle } => {
                if let Some(connection) = self.own(place, handle)? {
                    let _ = self.stack.abort(now, connection);
                }
            }
            Call::UdpSend {
                handle,
                remote,
                offset,
                len,
                token,
            } => {
                self.udp_send(now, place, domain, handle, remote, (offset, len), token)?;
            }
            Call::Timer { delay_ns, cookie } => {
                let at = now + Duration::from_nanos(delay_ns);
                let marked = mark(place, domain.seat.generation, cookie);
                let has_room = self.pools.timers.take(domain.client);
                if !has_room || self.stack.set_timer(at, marked).is_none() {
                    if has_room {
                        self.pools.timers.give(domain.client);
                    }
                    // Too early is better than never.
                    self.tally.timers_refused += 1;
                    domain.tell(Condition::Timer { cookie });
                }
            }
            // Behind all calls that were made where the group was before.
            Call::Passed { group } => domain.tell(Condition::Settled { group }),
        }
        Ok(())
    }

    /// The connection with this handle: `None` when it has ended.
    fn own(&mut self, place: u8, handle: u64) -> Result<Option<ConnectionId>, Offence> {
        let found = self.local(handle);
        let owner = found.and_then(|connection| self.owners.get_mut(connection));
        match owner {
            Some(owner) if owner.domain == place => Ok(found),
            Some(_) => Err(Offence::Connection),
            None => {
                self.tally.stale_calls += 1;
                Ok(None)
            }
        }
    }

    /// The connection of this core's stack that applications know by this name.
    pub(super) fn local(&self, handle: u64) -> Option<ConnectionId> {
        let connection = handle::connection(handle);
        if handle::core(handle) == self.cores.me && self.owners.has(connection, handle) {
            return Some(connection);
        }
        if !self.cores.is_many() {
            return None;
        }
        self.cores.guests.get(&handle).copied()
    }

    /// The name of a connection that this core's stack has just opened.
    pub(super) fn name(&self, connection: ConnectionId) -> u64 {
        let group = self.stack.group_of(connection).unwrap_or_default();
        handle::of(self.cores.me, group, connection)
    }

    fn forget(&mut self, domain: &mut Domain, connection: ConnectionId) {
        if let Some(owner) = self.owners.remove(connection) {
            self.forget_guest(owner.handle);
            self.pools.connections.give(domain.client);
            domain.connections -= 1;
            domain.ranges -= owner.ranges;
        }
    }

    pub(super) fn forget_guest(&mut self, handle: u64) {
        if self.cores.is_many() {
            self.cores.guests.remove(&handle);
        }
    }

    fn bind(
        &mut self,
        place: u8,
        domain: &Domain,
        transport: Transport,
        local: SocketAddr,
        backlog: u32,
        cookie: u64,
    ) -> Result<u64, Refusal> {
        if !domain.rights.may_bind(transport, local) {
            return Err(Refusal::Forbidden);
        }
        let free = self.bounds.iter().position(Option::is_none);
        let index = free.ok_or(Refusal::Full)?;
        let pool = self.pools.addresses(transport);
        if !pool.take(domain.client) {
            return Err(Refusal::Full);
        }
        let kind = match transport {
            Transport::Tcp => self
                .stack
                .listen(local, backlog, index as u64)
                .map(Kind::Listener),
            Transport::Udp => self.stack.udp_bind(local, index as u64).map(Kind::Udp),
        };
        let kind = kind.map_err(|error| {
            self.pools.addresses(transport).give(domain.client);
            match error {
                BindError::InUse(_) => Refusal::InUse,
                BindError::NotOurs(_) => Refusal::NotOurs,
                BindError::NoPort => Refusal::Invalid,
                BindError::Full(_) => Refusal::Full,
            }
        })?;
        if let Kind::Udp(udp) = kind {
            self.stack.set_udp_reader(udp, place);
        }
        if let Some(place_of) = self.bounds.get_mut(index) {
            *place_of = Some(Bound {
                domain: place,
                cookie,
                kind,
            });
        }
        Ok(index as u64)
    }

    fn unbind(&mut self, now: Time, place: u8, client: u8, index: u64) {
        let Some(slot) = self.bounds.get_mut(index as usize) else {
            return;
        };
        let Some(bound) = slot.filter(|b| b.domain == place) else {
            return;
        };
        *slot = None;
        let transport = match bound.kind {
            Kind::Listener(listener) => {
                self.stack.unlisten(now, listener);
                Transport::Tcp
            }
            Kind::Udp(udp) => {
                self.stack.udp_unbind(udp);
                Transport::Udp
            }
        };
        self.pools.addresses(transport).give(client);
    }

    fn connect(
        &mut self,
        now: Time,
        place: u8,
        domain: &mut Domain,
        remote: SocketAddr,
        cookie: u64,
    ) {
        let refused = |reason| Condition::Dead {
            cookie,
            handle: 0,
            reason,
        };
        if !domain.rights.connect {
            return domain.tell(refused(Ending::Forbidden));
        }
        if !self.pools.connections.take(domain.client) {
            self.tally.connections_refused += 1;
            return domain.tell(refused(Ending::NoRoom));
        }
        let connected = self.stack.connect(now, None, remote, cookie);
        if connected.is_err() {
            self.pools.connections.give(domain.client);
        }
        match connected {
            Ok(connection) => {
                let handle = self.name(connection);
                self.owners.set(connection, handle, place, cookie);
                self.stack.set_reader(connection, place);
                domain.connections += 1;
            }
            Err(ConnectError::Full(_) | ConnectError::InUse(_)) => {
                domain.tell(refused(Ending::NoRoom));
            }
            Err(_) => domain.tell(refused(Ending::Unreachable)),
        }
    }

    fn send(
        &mut self,
        now: Time,
        place: u8,
        domain: &mut Domain,
        handle: u64,
        offset: u64,
        len: u32,
    ) -> Result<(), Offence> {
        if len == 0 || domain.range(offset, len).is_none() {
            return Err(Offence::Memory);
        }
        let Some(connection) = self.own(place, handle)? else {
            return Ok(());
        };
        let chunk = Chunk {
            buffer: application_buffer(place, domain.seat.generation),
            // The range was checked: memory is smaller than 4 GiB.
            offset: offset as u32,
            len,
        };
        let has_room = domain.ranges < domain.most_ranges;
        let taken = if has_room {
            self.stack.sendv(now, connection, &[chunk])
        } else {
            Ok(0)
        };
        match taken {
            Ok(taken) if taken == len => {
                if let Some(owner) = self.owners.get_mut(connection) {
                    owner.sent(len);
                    domain.ranges += 1;
                }
            }
            // More than the window, or than its share of the tables: what comes next would be
            // torn out of its place in the stream.
            Ok(_) => {
                self.tally.overruns += 1;
                let _ = self.stack.abort(now, connection);
            }
            // It ended, or was shut down: told already.
            Err(_) => self.tally.stale_calls += 1,
        }
        Ok(())
    }

    #[allow(clippy::too_many_arguments)]
    fn udp_send(
        &mut self,
        now: Time,
        place: u8,
        domain: &mut Domain,
        handle: u64,
        remote: SocketAddr,
        (offset, len): (u64, u32),
        token: u64,
    ) -> Result<(), Offence> {
        if domain.range(offset, len).is_none() {
            return Err(Offence::Memory);
        }
        let bound = self.bounds.get(handle as usize).copied().flatten();
        let bound = bound.filter(|b| b.domain == place);
        let cookie = bound.map_or(0, |b| b.cookie);
        let given_up = Condition::UdpSent { cookie, token };
        let Some(Bound {
            kind: Kind::Udp(udp),
            ..
        }) = bound
        else {
            self.tally.stale_calls += 1;
            domain.tell(given_up);
            return Ok(());
        };
        let chunk = Chunk {
            buffer: application_buffer(place, domain.seat.generation),
            offset: offset as u32,
            len,
        };
        let marked = mark(place, domain.seat.generation, token);
        let has_room = self.pools.datagrams.take(domain.client);
        let send = |stack: &mut Stack| stack.udp_sendv(now, udp, None, remote, &[chunk], marked);
        if has_room && send(&mut self.stack).is_ok() {
            domain.datagrams += 1;
            return Ok(());
        }
        if has_room {
            self.pools.datagrams.give(domain.client);
        }
        self.tally.datagrams_refused += 1;
        domain.tell(given_up);
        Ok(())
    }

    fn cancel_timers(&mut self, place: u8, domain: &Domain) {
        let owner = (place, domain.seat.generation);
        let is_theirs = |cookie| {
            let (place, generation, _) = unmark(cookie);
            (place, generation) == owner
        };
        (0..self.stack.cancel_timers(is_theirs))
            .for_each(|_| self.pools.timers.give(domain.client));
    }

    /// Ends what an application has left. True when nothing refers to it any more; then it may go.
    fn clean_up(&mut self, now: Time, place: u8, domain: &mut Domain) -> bool {
        for index in 0..self.bounds.len() as u64 {
            self.unbind(now, place, domain.client, index);
        }
        self.cancel_timers(place, domain);
        if domain.held_frames > 0 {
            domain.release_all(&mut self.memory);
        }
        self.stack.resume_reader(place);
        if domain.connections > 0 {
            let own: Vec<ConnectionId> = self.owners.of(place).collect();
            for connection in own {
                // One that knocked is rejected, which is silent; others die with an event.
                let rejected = self.stack.reject(now, connection).is_ok();
                if rejected || self.stack.abort(now, connection).is_err() {
                    self.forget(domain, connection);
                }
            }
        }
        // Its domains on other cores end as well, and it is told.
        if domain.life.end() {
            self.cores.hub.wake_control();
        }
        if domain.is_referred_to() {
            return false;
        }
        self.tally.ended += 1;
        if !matches!(domain.offence, None | Some(Offence::Gone)) {
            self.tally.offences += 1;
            self.tally.offence_number = self.cores.hub.next_offence();
            self.tally.last_offence = domain.offence.map(|o| format!("{}: {o}", domain.name));
        }
        true
    }
}
