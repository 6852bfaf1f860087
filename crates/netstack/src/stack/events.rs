//! Events for the application.

use super::Stack;
use crate::api::{Event, Time};
use crate::tcp::state::State;
use std::net::SocketAddr;

impl Stack {
    /// Next event for the application. The caller repeats this until `None` after each batch of
    /// `handle_*` calls and commands.
    pub fn poll_event(&mut self) -> Option<Event> {
        while let Some(slot) = self.connections.first_news() {
            if !self.connections.tcb_mut(slot).notices.silence_end()
                && let Some(event) = self.connection_event(slot)
            {
                return Some(event);
            }
            self.connections.pop_news();
            self.connections.free_if_done(slot);
        }
        if let Some(event) = self.udp.poll().or_else(|| self.app_timers.poll()) {
            return Some(event);
        }
        let buffer = self.ranges.next_released()?;
        Some(Event::Release { buffer })
    }

    /// Next event of one connection, in the order that [`Event`] guarantees.
    fn connection_event(&mut self, slot: u32) -> Option<Event> {
        let connection = self.connections.id_of(slot);
        let entry = self.connections.get_mut(slot);
        let cookie = entry.cookie();
        let tcb = &mut entry.tcb;
        if tcb.notices.is_end_reported() {
            return None;
        }
        if !tcb.notices.is_owned() {
            if tcb.notices.has_ended() {
                return self.death(slot);
            }
            if !tcb.notices.take_knock() {
                return None;
            }
            let key = tcb.key;
            let slot = entry.listener()?;
            return Some(Event::Knock {
                listener: crate::api::ListenerId {
                    slot,
                    generation: self.listeners.generation(slot),
                },
                cookie: self.listeners.get(slot).cookie(),
                connection,
                remote: SocketAddr::new(key.remote.ip(), key.remote_port),
                local: SocketAddr::new(key.local.ip(), key.local_port),
            });
        }
        let window_bytes = tcb.sender().writable_bytes(&self.config.tcp);
        if tcb.notices.take_connected() {
            return Some(Event::Connected {
                connection,
                cookie,
                window_bytes,
            });
        }
        if tcb.notices.take_urgent() {
            return Some(Event::Urgent {
                connection,
                cookie,
                ahead_bytes: self.ranges.bytes_to_urgent_end(tcb),
            });
        }
        let waits = entry.tcb.receiver().has_data() && self.readers.is_stopped(entry.reader());
        let tcb = &mut entry.tcb;
        if !waits && let Some(chunk) = self.ranges.take_received(tcb) {
            return Some(Event::Recv {
                connection,
                cookie,
                chunk,
            });
        }
        if let Some((bytes, ranges)) = tcb.notices.take_acked() {
            return Some(Event::Sent {
                connection,
                cookie,
                bytes,
                ranges,
                window_bytes,
            });
        }
        if waits {
            // The end of the stream is reported after the data.
            if !tcb.receiver().is_suspended() {
                self.suspend(slot);
            }
            return None;
        }
        if tcb.notices.take_peer_closed() {
            return Some(Event::PeerClosed { connection, cookie });
        }
        self.death(slot)
    }

    fn death(&mut self, slot: u32) -> Option<Event> {
        let connection = self.connections.id_of(slot);
        let entry = self.connections.get_mut(slot);
        let reason = entry.tcb.notices.take_end()?;
        Some(Event::Dead {
            connection,
            cookie: entry.cookie(),
            reason,
        })
    }

    /// Sends an RST to the peer.
    pub(super) fn send_reset(&mut self, slot: u32, now: Time) {
        let entry = self.connections.get(slot);
        let (key, segment) = (entry.tcb.key, entry.tcb.reset_segment(now));
        self.reset_peer(&key, (entry.mac(), entry.reader()), &segment, now);
    }

    /// Resets a connection in any state. The peer gets an RST if it knows the connection.
    pub(super) fn reset(&mut self, slot: u32, now: Time) {
        if self.connections.tcb(slot).state() != State::SynSent {
            self.send_reset(slot, now);
        }
        let reason = crate::api::DeadReason::Aborted;
        let tcb = self.connections.tcb_mut(slot);
        tcb.end(
            reason,
            &mut self.ranges.context(&self.config, &mut self.counters, now),
        );
        self.update_tables(slot);
    }
}
