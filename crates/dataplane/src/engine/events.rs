//! Delivery of the stack's events to the applications.

use super::Engine;
use super::bounds::{BindingKind, BoundAddress};
use super::buffers::{buffer_place, unmark};
use super::domain::Domain;
use super::inbox_frames::FrameContent;
use crate::abi::{Condition, Ending};
use cofferdam_netstack::{Chunk, ConnectionId, DeadReason, Event, ListenerId, Time};
use cofferdam_xsk::Port;

impl<P: Port> Engine<P> {
    /// Delivers all events. Returns their number.
    pub(super) fn deliver(&mut self, now: Time) -> usize {
        let mut delivered = 0;
        while let Some(event) = self.stack.poll_event() {
            delivered += 1;
            self.event(now, event);
        }
        self.tally.conditions += delivered as u64;
        delivered
    }

    fn event(&mut self, now: Time, event: Event) {
        match event {
            Event::Knock {
                listener,
                cookie,
                connection,
                remote,
                ..
            } => {
                self.knock(now, (cookie, listener), connection, remote);
            }
            Event::Connected {
                connection,
                window_bytes,
                ..
            } => {
                let Some(local) = self.stack.connection(connection).map(|info| info.local) else {
                    return;
                };
                self.deliver_to_owner(connection, |cookie, owner| Condition::Connected {
                    cookie,
                    handle: owner.handle,
                    window_bytes,
                    local,
                });
            }
            Event::Recv {
                connection, chunk, ..
            } => self.received(now, connection, chunk),
            Event::PeerClosed { connection, .. } => {
                self.deliver_to_owner(connection, |cookie, owner| Condition::PeerClosed {
                    cookie,
                    handle: owner.handle,
                });
            }
            Event::Sent {
                connection,
                bytes,
                ranges,
                window_bytes,
                ..
            } => {
                let domain = self.deliver_to_owner(connection, |cookie, owner| {
                    owner.ranges -= ranges;
                    owner.record_progress(now);
                    let limit_bytes = owner.sent_bytes + u64::from(window_bytes);
                    Condition::Sent {
                        cookie,
                        handle: owner.handle,
                        bytes,
                        ranges,
                        limit_bytes,
                    }
                });
                if let Some(domain) = domain {
                    domain.account.acknowledge(ranges);
                }
            }
            Event::Dead {
                connection, reason, ..
            } => self.dead(connection, reason),
            Event::UdpRecv {
                udp,
                cookie,
                chunk,
                remote,
                local,
            } => {
                let what = FrameContent::Datagram {
                    handle: udp.to_bits(),
                };
                let bound = self.bounds.get(cookie);
                let place = bound.and_then(|b| self.place(chunk, b.domain, what));
                let (Some(bound), Some((frame, offset))) = (bound, place) else {
                    self.tally.over_quota += 1;
                    self.stack.udp_recv_done(udp, 1);
                    return self.free(chunk);
                };
                if let Some(domain) = self.domains.get_mut(bound.domain) {
                    domain.deliver(Condition::UdpRecv {
                        cookie: bound.cookie,
                        local,
                        frame,
                        offset,
                        len: chunk.len,
                        remote,
                    });
                }
            }
            // The rings have no such condition: urgent data is treated as other data (RFC 6093).
            Event::Urgent { .. } => {}
            Event::UdpSent { udp, cookie, token } => {
                let (place, generation, token) = unmark(token);
                // The place may have another owner by now.
                let is_same = |b: &BoundAddress| b.kind == BindingKind::Udp(udp);
                let bound = self.bounds.get(cookie).filter(is_same);
                if let Some(domain) = self.domains.get_generation_mut(place, generation) {
                    domain.account.end_datagram();
                    domain.deliver(Condition::UdpSent {
                        cookie: bound.map_or(0, |b| b.cookie),
                        token,
                    });
                    self.pools.datagrams.give(domain.client());
                }
            }
            Event::Timer { cookie, .. } => {
                let (place, generation, cookie) = unmark(cookie);
                if let Some(domain) = self.domains.get_generation_mut(place, generation) {
                    domain.deliver(Condition::Timer { cookie });
                    self.pools.timers.give(domain.client());
                }
            }
            Event::Release { buffer } => {
                self.memory.give(buffer_place(buffer).0);
            }
        }
    }

    /// Delivers a condition to the owner of a connection, and returns its domain.
    fn deliver_to_owner(
        &mut self,
        connection: ConnectionId,
        condition: impl FnOnce(u64, &mut super::owners::Owner) -> Condition,
    ) -> Option<&mut Domain> {
        let owner = self.owners.get_mut(connection)?;
        let condition = condition(owner.cookie, owner);
        let domain = self.domains.get_mut(owner.domain)?;
        domain.deliver(condition);
        Some(domain)
    }

    fn knock(
        &mut self,
        now: Time,
        (index, listener): (u64, ListenerId),
        connection: ConnectionId,
        remote: std::net::SocketAddr,
    ) {
        let Some(bound) = self.bounds.next(index, listener) else {
            // The listener was closed meanwhile, so that the peer is rejected.
            let _ = self.stack.reject(now, connection);
            return;
        };
        let domain = self.domains.get_mut(bound.domain);
        let client = domain.map_or(0, |domain| domain.client());
        if !self.take_connection_place(now, client, Some(remote.ip()), None) {
            let _ = self.stack.reject(now, connection);
            return;
        }
        let handle = self.assign_opened(now, (client, bound.domain), connection, remote.ip());
        self.stack.set_reader(connection, bound.domain);
        if let Some(domain) = self.domains.get_mut(bound.domain) {
            domain.account.open(0);
            domain.deliver(Condition::Knock {
                cookie: bound.cookie,
                handle,
                remote,
            });
        }
    }

    fn received(&mut self, now: Time, connection: ConnectionId, chunk: Chunk) {
        let owner = self.owners.get_mut(connection).map(|owner| {
            owner.record_progress(now);
            (owner.domain, owner.cookie, owner.handle)
        });
        let len = chunk.len;
        let place = owner.and_then(|(domain, _, handle)| {
            self.place(chunk, domain, FrameContent::Segment { handle, len })
        });
        let (Some((domain, cookie, handle)), Some((frame, offset))) = (owner, place) else {
            // The application is being cleaned up.
            let _ = self.stack.abort(now, connection);
            return self.free(chunk);
        };
        if let Some(domain) = self.domains.get_mut(domain) {
            domain.deliver(Condition::Recv {
                cookie,
                handle,
                frame,
                offset,
                len: chunk.len,
            });
        }
    }

    /// Makes received bytes readable for an application. Returns frame and offset in its inbox. An
    /// application that gets its last frame closes the windows of its TCP connections.
    fn place(&mut self, chunk: Chunk, reader: u8, what: FrameContent) -> Option<(u32, u64)> {
        let (frame, start) = buffer_place(chunk.buffer);
        let start = start + chunk.offset as usize;
        let memory = &mut self.memory;
        let domain = self.domains.get_mut(reader)?;
        if domain.is_leaving() {
            return None;
        }
        let (frame, offset) = domain.hold(memory, frame, start, chunk.len as usize, what)?;
        if domain.inbox.became_full() {
            self.tally.readers_stopped += 1;
            self.stack.stop_reader(reader);
        }
        Some((frame.0, offset))
    }

    fn free(&mut self, chunk: Chunk) {
        self.memory.give(buffer_place(chunk.buffer).0);
    }

    fn dead(&mut self, connection: ConnectionId, reason: DeadReason) {
        let Some(owner) = self.owners.remove(connection) else {
            return;
        };
        self.cores.forget_guest(owner.handle);
        let Some(domain) = self.domains.get_mut(owner.domain) else {
            return;
        };
        domain.account.close(owner.ranges);
        let reason = match reason {
            DeadReason::Closed => Ending::Closed,
            DeadReason::Reset => Ending::Reset,
            DeadReason::Refused => Ending::Refused,
            DeadReason::TimedOut => Ending::TimedOut,
            DeadReason::Unreachable => Ending::Unreachable,
            DeadReason::Aborted => Ending::Aborted,
        };
        domain.deliver(Condition::Dead {
            cookie: owner.cookie,
            handle: owner.handle,
            reason,
        });
        self.pools.connections.give(domain.client());
    }
}
