//! Selection of the next segment to send (RFC 9293, 3.8.6.2.1; RFC 5681; RFC 6675, 5).

use super::context::Context;
use super::segment::Outgoing;
use super::seq;
use super::state::{State, Tcb};
use crate::wire::tcp::{ACK, FIN, PSH, SYN, URG};

impl Tcb {
    /// Returns the next segment to send now, if there is one. `our_mss` is the MSS that our SYN
    /// announces.
    pub fn output(&mut self, our_mss: u16, context: &mut Context<'_>) -> Option<Outgoing> {
        let sent = match self.state {
            State::Closed => None,
            State::SynSent | State::SynReceived => self.opening(our_mss, context),
            _ => self.data(context).or_else(|| self.only_ack(context)),
        }?;
        context.counters.segments_sent += u64::from(sent.segments);
        self.sender.segment_sent(context.now);
        if sent.flags & ACK != 0 {
            self.receiver.ack_sent();
            self.timers.stop_ack();
        }
        Some(sent)
    }

    fn opening(&mut self, our_mss: u16, context: &mut Context<'_>) -> Option<Outgoing> {
        let is_early = self.is_early();
        let is_due = if is_early {
            self.fast_open.take_answer()
        } else {
            self.sender.is_syn_due()
        };
        if !is_due {
            return match self.state {
                // The answer to data in the SYN need not wait for the handshake (RFC 7413, 4.2).
                State::SynReceived if is_early => {
                    self.data(context).or_else(|| self.only_ack(context))
                }
                State::SynReceived => self.only_ack(context),
                _ => None,
            };
        }
        let answers = self.state == State::SynReceived;
        let is_first = if is_early {
            self.timers.retries() == 0
        } else {
            self.sender.is_syn_first()
        };
        let ecn = self.syn_ecn_flags(context.config.ecn, is_first);
        context.payload.clear();
        let our_mss = self
            .options
            .segment_bytes
            .map_or(our_mss, |most| our_mss.min(most));
        let mut options = self.syn_options(context.config, our_mss, context.now);
        let mut len = 0;
        if is_first {
            options.fast_open = self.fast_open.option();
            if !answers {
                len = self.gather_for_syn(context);
            }
        } else {
            self.fast_open.forget_option();
        }
        if !is_early {
            self.sender.syn_sent(len);
        }
        if is_first {
            let awaited = self.sender.iss().wrapping_add(1);
            self.sender.rto.time(awaited, context.now);
        } else {
            self.sender.rto.stop_timing();
            self.count_retransmit(context);
        }
        self.timers.start_retransmission(self.timeout_at(context));
        // A SYN's window is never scaled (RFC 7323, 2.2).
        let window = context.config.receive_window_bytes.min(0xffff) as u16;
        Some(Outgoing {
            seq: self.sender.iss(),
            ack: if answers { self.receiver.next() } else { 0 },
            flags: ecn | if answers { SYN | ACK } else { SYN },
            window,
            urgent: 0,
            options,
            len,
            segments: 1,
            is_ecn_capable: false,
        })
    }

    /// Gathers the data of our SYN (RFC 7413, 4.1.3). Returns its length in bytes.
    fn gather_for_syn(&mut self, context: &mut Context<'_>) -> u32 {
        let (first, bytes) = (self.sender.iss().wrapping_add(1), self.sender.queue.bytes());
        self.sender
            .queue
            .gather(first, first, bytes, context.chunks, context.payload);
        context.payload.len() as u32
    }

    fn data(&mut self, context: &mut Context<'_>) -> Option<Outgoing> {
        if !self.may_send() {
            return None;
        }
        let mss = self.room_in_segment(context);
        if self.recovery.take_first()
            && let Some(segment) = self.retransmit_missing(mss, context)
        {
            return Some(segment);
        }
        if self.timers.take_probe() {
            return self.probe(mss, context);
        }
        if self.tail.take_due() {
            return self.tail_segment(mss, context);
        }
        if self.terms.sack() && self.recovery.is_fast() {
            return self.in_sack_recovery(mss, context);
        }
        if let Some(probe) = self.probe_path(context) {
            return Some(probe);
        }
        self.fresh_data(mss, false, context)
    }

    /// Next segment in SACK recovery (RFC 6675, 5, step C): lost holes first, then new data, then
    /// holes that may be lost.
    fn in_sack_recovery(&mut self, mss: u32, context: &mut Context<'_>) -> Option<Outgoing> {
        // RFC 9937 grants bytes, but whole segments are sent. The excess is subtracted from the
        // next grant.
        if self.recovery.bytes_in_flight(&self.sender, &self.terms) >= self.sender.window.cwnd() {
            return None;
        }
        if let Some((start, end)) = self.recovery.next_lost_again(self.sender.una()) {
            return self.retransmit(start, end, mss, context);
        }
        let from = seq::max(self.recovery.retransmitted_end(), self.sender.una());
        let full = self.payload_mss();
        if let Some((start, end)) = self.recovery.board.next_hole(from, false, full) {
            return self.retransmit(start, end, mss, context);
        }
        if let Some(segment) = self.fresh_data(mss, false, context) {
            return Some(segment);
        }
        let (start, end) = self.recovery.board.next_hole(from, true, full)?;
        self.retransmit(start, end, mss, context)
    }

    /// Largest payload of a segment with the current options.
    fn room_in_segment(&self, context: &Context<'_>) -> u32 {
        if !self.receiver.has_sack_blocks() {
            return self.payload_mss();
        }
        let options = self.options(context.now, context.chunks).len() as u32;
        self.terms.room(options)
    }

    /// Retransmits the first missing data, up to one segment.
    pub fn retransmit_missing(&mut self, mss: u32, context: &mut Context<'_>) -> Option<Outgoing> {
        let end = self
            .recovery
            .board
            .next_range(self.sender.una())
            .unwrap_or(self.sender.max());
        self.retransmit(self.sender.una(), end, mss, context)
    }

    /// Retransmits `start..end`, up to one segment.
    pub fn retransmit(
        &mut self,
        start: u32,
        end: u32,
        mss: u32,
        context: &mut Context<'_>,
    ) -> Option<Outgoing> {
        let data = seq::distance(start, seq::min(end, self.sender.end())).min(mss);
        let fin = self.sender.has_fin()
            && start.wrapping_add(data) == self.sender.end()
            && seq::lt(start.wrapping_add(data), end);
        if data == 0 && !fin {
            return None;
        }
        let segment = self.segment(start, data, fin, context);
        let taken = segment.len + u32::from(segment.flags & FIN != 0);
        self.path.retransmitted(start);
        self.recovery.retransmitted(start, taken, context.now);
        self.count_retransmit(context);
        self.sender.rto.stop_timing_from(start);
        self.timers.start_retransmission(self.timeout_at(context));
        Some(segment)
    }

    /// Sends data from SND.NXT on: new data, or all data again after a timeout. A tail loss probe
    /// may exceed the congestion window.
    pub fn fresh_data(
        &mut self,
        mss: u32,
        probes_tail: bool,
        context: &mut Context<'_>,
    ) -> Option<Outgoing> {
        while let Some(end) = self.recovery.board.covered(self.sender.next()) {
            self.sender.skip_to(end);
        }
        let (start, end) = (self.sender.next(), self.sender.end());
        let fin_open = self.sender.is_closed() && seq::le(start, end);
        let waiting = seq::distance(start, end);
        if waiting == 0 && (self.sender.is_fin_acked() || !fin_open) {
            return None;
        }
        self.sender
            .restart_after_idle(&self.terms, context.now, context.config);
        let edge = self.sender.edge(0);
        let room = seq::distance(start, edge);
        let gap = self
            .recovery
            .board
            .next_range(start)
            .map_or(u32::MAX, |left| left.wrapping_sub(start));
        let flight = self.recovery.bytes_in_flight(&self.sender, &self.terms);
        // RFC 3042: two more segments during duplicate acknowledgements.
        let limited = self.recovery.limited_transmit(&self.terms) * mss;
        let most = self.sender.window.cwnd().saturating_add(limited);
        let is_retransmission = seq::lt(start, self.sender.max());
        let segments = if is_retransmission || probes_tail || !self.has_uniform_segments() {
            1
        } else {
            let most = context.most_packet_bytes.min(most.saturating_sub(flight));
            // A FIN is sent in a segment of its own, or in one with data.
            waiting
                .saturating_sub(u32::from(fin_open))
                .min(room)
                .min(most)
                / mss
        };
        let segments = segments.max(1);
        let len = waiting.min(room).min(mss * segments).min(gap);
        let whole = len == waiting;
        let fin = fin_open && whole && room > len;
        if len == 0 && !fin {
            self.wait_for_window(context);
            return None;
        }
        if !is_retransmission && !self.sender.is_worth_sending(len, mss, whole, fin) {
            self.wait_for_window(context);
            return None;
        }
        if flight > 0 && flight + len > most && !probes_tail {
            return None;
        }
        let mut segment = self.segment(start, len, fin, context);
        if segment.len > mss {
            // The ranges did not all fit, so the packet is cut to whole segments.
            segment.segments = segment.len / mss;
            segment.len = segment.segments * mss;
            context.payload.truncate(segment.len);
        }
        if self.terms.ecn() && !is_retransmission && segment.len > 0 {
            // Retransmissions are not ECN-capable (RFC 3168, 6.1.5).
            segment.is_ecn_capable = true;
            segment.flags |= self.ecn.flags(true);
        }
        if is_retransmission {
            self.data_sent(start, &segment, context);
            self.count_retransmit(context);
            self.timers.start_retransmission(self.timeout_at(context));
            self.watch_tail(context);
        } else {
            self.new_data_sent(start, &segment, mss, context);
        }
        Some(segment)
    }

    /// Records that data from `start` on is sent, and moves SND.NXT behind it. Returns its end.
    #[inline]
    fn data_sent(&mut self, start: u32, segment: &Outgoing, context: &Context<'_>) -> u32 {
        let taken = segment.len + u32::from(segment.flags & FIN != 0);
        let end = start.wrapping_add(taken);
        self.sender.sent_to(end);
        if self.terms.sack() {
            self.recovery.sent(end, taken, context.now);
        }
        end
    }

    /// Records that new data from `start` on is sent, in segments of `mss` bytes.
    #[inline]
    pub fn new_data_sent(
        &mut self,
        start: u32,
        segment: &Outgoing,
        mss: u32,
        context: &mut Context<'_>,
    ) {
        let end = self.data_sent(start, segment, context);
        let behind_first = (segment.segments - 1) * mss;
        self.sender
            .rto
            .time(end.wrapping_sub(behind_first), context.now);
        self.sender.window.sent(self.sender.una(), end, mss);
        if segment.len < mss {
            self.sender.small_sent(end);
        }
        self.tail.set_start(start.wrapping_add(behind_first));
        self.timers.start_retransmission(self.timeout_at(context));
        self.watch_tail(context);
        let last_segment_at = self.timers.last_heard();
        self.receiver
            .acks_mut()
            .answered(last_segment_at, context.now, context.config);
    }

    /// Whether no loss is suspected and no segment needs its own flags, so that consecutive
    /// segments differ only in their sequence numbers.
    pub fn has_uniform_segments(&self) -> bool {
        !self.recovery.is_on()
            && !self.recovery.is_suspicious()
            && !self.terms.ecn()
            && !self.sender.has_urgent()
    }

    /// Starts the retransmission timer if the window delays data and no data in flight could open
    /// it.
    fn wait_for_window(&mut self, context: &Context<'_>) {
        if !self.sender.is_waiting() {
            self.timers.start_retransmission(self.timeout_at(context));
        }
    }

    /// Sends one byte into a closed window (RFC 9293, 3.8.6.1), or what fits into a small one.
    fn probe(&mut self, mss: u32, context: &mut Context<'_>) -> Option<Outgoing> {
        let end = self.sender.end();
        let start = if self.sender.peer_window() == 0 {
            self.sender.una()
        } else {
            self.sender.next()
        };
        let edge = self.sender.edge(1);
        let waiting = seq::distance(start, end);
        let len = waiting.min(seq::distance(start, edge)).min(mss);
        let fin = len == 0 && self.sender.has_fin();
        if len == 0 && !fin {
            return None;
        }
        context.counters.window_probes += 1;
        let segment = self.segment(start, len, fin, context);
        let end = start.wrapping_add(len + u32::from(fin));
        self.sender.sent_to(seq::max(self.sender.next(), end));
        self.sender.rto.stop_timing();
        Some(segment)
    }

    fn only_ack(&mut self, context: &mut Context<'_>) -> Option<Outgoing> {
        if self.timers.take_keepalive() {
            context.counters.keepalives += 1;
            let mut segment = self.segment(self.sender.max(), 0, false, context);
            // A sequence number that was acknowledged long ago demands an answer (RFC 9293, 3.8.4).
            segment.seq = self.sender.una().wrapping_sub(1);
            return Some(segment);
        }
        // The number is the end of all sent data. During retransmission SND.NXT is below the peer's
        // window, and the peer would not accept the acknowledgement.
        (self.receiver.acks().is_due() || self.timers.is_ack_due(context.now))
            .then(|| self.segment(self.sender.max(), 0, false, context))
    }

    /// A segment of `len` bytes from `start`, shorter if the data is in too many ranges.
    pub fn segment(
        &mut self,
        start: u32,
        len: u32,
        fin: bool,
        context: &mut Context<'_>,
    ) -> Outgoing {
        let first = self.sender.una();
        self.sender
            .queue
            .gather(first, start, len, context.chunks, context.payload);
        let gathered = context.payload.len() as u32;
        let complete = gathered == len;
        let last = start.wrapping_add(gathered) == self.sender.end();
        let mut flags = ACK;
        if self.terms.ecn() {
            flags |= self.ecn.flags(false);
        }
        if fin && complete {
            flags |= FIN;
        }
        if gathered > 0 && last {
            flags |= PSH;
        }
        let urgent = self.sender.urgent_pointer(start);
        if urgent.is_some() {
            flags |= URG;
        }
        Outgoing {
            seq: start,
            ack: self.receiver.next(),
            flags,
            window: self.receiver.offer(&self.terms, context.config),
            urgent: urgent.unwrap_or(0),
            options: self.options(context.now, context.chunks),
            len: gathered,
            segments: 1,
            is_ecn_capable: false,
        }
    }
}
