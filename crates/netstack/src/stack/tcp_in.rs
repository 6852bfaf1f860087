//! Received TCP segments: lookup of the connection, and actions after its verdict.

use super::Stack;
use super::flows::Place;
use super::listen::OpenResult;
use super::receive::Datagram;
use crate::api::Time;
use crate::flow::FlowKey;
use crate::tcp::context::Context;
use crate::tcp::segment::Incoming;
use crate::tcp::state::State;
use crate::tcp::timewait::Answer;
use crate::wire::tcp::{self, Options};

impl Stack {
    /// Processes a TCP segment. Returns whether the stack keeps its buffer.
    pub(super) fn tcp(&mut self, now: Time, datagram: &Datagram<'_>) -> bool {
        let payload = datagram.payload();
        let Some(header) = tcp::parse(payload) else {
            self.counters.malformed += 1;
            return false;
        };
        // No device verifies the checksum of a fragmented segment.
        let verified = self.config.received_checksums_verified && !datagram.reassembled;
        if !verified && !datagram.sum_is_right(payload.len()) {
            self.counters.bad_checksum += 1;
            return false;
        }
        // A multicast or broadcast segment is invalid (RFC 1122, 4.2.3.10).
        if !datagram.unicast || header.source_port == 0 {
            self.counters.spoofed += 1;
            return false;
        }
        let key = FlowKey {
            local: datagram.packet.destination,
            remote: datagram.packet.source,
            local_port: header.destination_port,
            remote_port: header.source_port,
        };
        // One stack reassembles all fragments, but the connection may belong to another.
        if datagram.reassembled && !self.flows.has_group(self.flows.hash(&key)) {
            self.counters.fragments_dropped += 1;
            return false;
        }
        let segment = Incoming {
            payload: datagram.chunk(header.header_len, payload.len()),
            header,
            is_marked: datagram.packet.is_marked,
        };
        let slot = match self.find(&key) {
            Some(Place::Connection(slot)) => Some(slot),
            Some(Place::TimeWait(place)) => {
                self.counters.segments_received += 1;
                return self.time_wait_segment(now, datagram, &key, &segment, place);
            }
            None => match self.no_connection(now, datagram, &key, &segment) {
                OpenResult::Nothing => None,
                OpenResult::BySyn { keeps_buffer } => return keeps_buffer,
                OpenResult::ByCookie(slot) => Some(slot),
            },
        };
        slot.is_some_and(|slot| self.segment(now, datagram, &key, &segment, slot))
    }

    /// Connection or TIME_WAIT entry of a 4-tuple.
    pub(super) fn find(&self, key: &FlowKey) -> Option<Place> {
        self.flows.find(self.flows.hash(key), |place| {
            let found = match place {
                Place::Connection(slot) => &self.connections.tcb(slot).key,
                Place::TimeWait(place) => &self.time_wait.get(place).key,
            };
            found == key
        })
    }

    fn segment(
        &mut self,
        now: Time,
        datagram: &Datagram<'_>,
        key: &FlowKey,
        segment: &Incoming,
        slot: u32,
    ) -> bool {
        self.counters.segments_received += 1;
        self.connections.count_segment(slot);
        let connection = self.connections.get_mut(slot);
        let half_open = connection.tcb.notices.is_half_open();
        if half_open {
            // Answers go to the sender of the last segment: one SYN with a wrong or forged Ethernet
            // address must not misdirect them permanently.
            connection.set_peer_mac(datagram.mac);
        }
        let was_early = connection.tcb.is_early();
        let reader_is_stopped = self.readers.is_stopped(connection.reader());
        let tcb = &mut connection.tcb;
        let was_held_up = tcb.receiver().is_suspended();
        let context = &mut Context {
            reader_is_stopped,
            ..self.ranges.context(&self.config, &mut self.counters, now)
        };
        let is_answer = tcb.state() == State::SynSent;
        let verdict = if is_answer {
            tcb.input_syn_sent(segment, context)
        } else {
            tcb.input(segment, context)
        };
        let has_opened = half_open && !tcb.notices.is_half_open();
        let is_held_up = !was_held_up && tcb.receiver().is_suspended();
        let is_open = tcb.state() == State::Established;
        if has_opened {
            self.count_opened(slot);
        }
        if was_early && !self.connections.tcb(slot).fast_open().is_early() {
            self.listeners.drop_early();
        }
        if is_answer && is_open {
            self.learn_fast_open(slot, segment);
        }
        if is_held_up {
            self.suspend(slot);
        }
        if verdict.reset {
            // An RST of a connection has its timestamps once they are negotiated (RFC 7323, 3.2).
            let tcb = self.connections.tcb(slot);
            let stamp = if tcb.is_opening() {
                Options::default()
            } else {
                tcb.stamp(now)
            };
            self.refuse_with(now, datagram, key, segment, stamp);
        }
        if verdict.time_wait {
            // The last ACK is sent as a reply, because the connection is replaced by its TIME_WAIT
            // entry.
            let tcb = self.connections.tcb_mut(slot);
            let last = tcb.output(
                0,
                &mut self.ranges.context(&self.config, &mut self.counters, now),
            );
            if let Some(last) = last {
                self.reply_segment(datagram, key, &last);
            }
            self.enter_time_wait(slot, now);
        } else {
            self.update_tables(slot);
        }
        verdict.keeps_buffer
    }

    fn time_wait_segment(
        &mut self,
        now: Time,
        datagram: &Datagram<'_>,
        key: &FlowKey,
        segment: &Incoming,
        place: u32,
    ) -> bool {
        match self.time_wait.input(place, segment, &self.config.tcp, now) {
            Answer::Nothing => {}
            Answer::Send(answer) => self.reply_segment(datagram, key, &answer),
            Answer::Reopen { after } => {
                // Without a listener the SYN is refused and the entry stays.
                let Some(listener) = self.listeners.find(&key.local, key.local_port) else {
                    self.refuse(now, datagram, key, segment);
                    return false;
                };
                self.remove_time_wait(place);
                self.counters.time_wait_reused += 1;
                return self.syn(now, datagram, key, segment, listener, Some(after));
            }
        }
        false
    }
}
