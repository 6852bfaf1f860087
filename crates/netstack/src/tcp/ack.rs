//! Processing of acknowledgements (RFC 9293, 3.10.7.4, fifth; RFC 5681; RFC 5961, 5).

use super::context::Context;
use super::loss::Report;
use super::recovery::Progress;
use super::segment::Incoming;
use super::seq;
use super::state::Tcb;
use crate::wire::tcp::{ECE, FIN, SYN};

impl Tcb {
    /// Processes the acknowledgement, window and SACK ranges of a segment. Returns `false` if the
    /// acknowledgement is not acceptable: the caller drops the segment.
    pub fn acknowledged(&mut self, segment: &Incoming, context: &mut Context<'_>) -> bool {
        let header = &segment.header;
        // An acceptable acknowledgement is not older than the largest window, and not for unsent
        // data (RFC 5961, 5.2).
        let oldest = self.sender.oldest_ack();
        if seq::lt(header.ack, oldest) || seq::lt(self.sender.max(), header.ack) {
            context.counters.challenge_acks += 1;
            self.receiver.acks_mut().challenge(context.now);
            return false;
        }
        if self.terms.ecn() && header.flags & (ECE | SYN) == ECE {
            self.take_echo(header.ack, context.now);
        }
        let delivery = self.take_ranges(header, context.now);
        let window_before = (self.sender.peer_window(), self.sender.una());
        if seq::lt(self.sender.una(), header.ack) {
            self.new_data_acknowledged(segment, delivery, context);
        } else if header.ack == self.sender.una() && self.is_duplicate(segment, delivery.is_news) {
            context.counters.duplicate_acks += 1;
            let began = self
                .recovery
                .duplicate(&mut self.sender, &self.terms, context.now);
            context.counters.fast_recoveries += u64::from(began);
            if began {
                self.window_reduced();
            }
        }
        self.tail_answered(segment, context);
        if self.terms.sack() {
            self.judge(delivery, context);
        }
        self.sender.update_window(segment, self.terms.peer_scale());
        self.watch_tail(context);
        if (self.sender.peer_window(), self.sender.una()) != window_before {
            self.window_changed(context);
        } else if self.sender.peer_window() == 0 {
            // The peer answers window probes, so it is alive (RFC 9293, 3.8.6.1).
            self.timers.answered();
        }
        true
    }

    /// Whether the segment is a duplicate acknowledgement (RFC 5681, 2): it has no data and no
    /// window update, and data is in flight. With SACK, new ranges decide (RFC 6675, 2).
    fn is_duplicate(&self, segment: &Incoming, sack_news: bool) -> bool {
        // Answers to zero-window probes look the same.
        if !self.sender.is_waiting() || self.timers.is_probing() {
            return false;
        }
        if self.terms.sack() {
            return sack_news;
        }
        segment.payload.len == 0
            && segment.header.flags & FIN == 0
            && u32::from(segment.header.window) << self.terms.peer_scale()
                == self.sender.peer_window()
    }

    /// Processes an acknowledgement of new data. `delivery` is what this acknowledgement reports if
    /// SACK was negotiated.
    pub fn new_data_acknowledged(
        &mut self,
        segment: &Incoming,
        delivery: Report,
        context: &mut Context<'_>,
    ) {
        let ack = segment.header.ack;
        let mut bytes = ack.wrapping_sub(self.sender.una());
        // The excess over the queued data acknowledges our FIN.
        if bytes > self.sender.queue.bytes() {
            bytes = self.sender.queue.bytes();
            self.sender.fin_acked();
        }
        self.measure(segment, context);
        let freed = self.sender.queue.trim(bytes, context.chunks);
        self.notices.freed_ranges(freed);
        self.recovery.advance(ack);
        self.sender.advance(ack);
        self.path_acknowledged(ack);
        self.notices.acked(bytes);
        self.timers.answered();
        self.sender.rto.progress();
        let progress = Progress {
            bytes,
            delivered: delivery.bytes,
            round_trip: delivery.round_trip,
            may_grow: !self.ecn.is_known(ack),
        };
        self.recovery
            .progress(progress, &mut self.sender, &self.terms, context.now);
        if self.sender.is_waiting() {
            self.timers.restart_retransmission(self.timeout_at(context));
        } else {
            self.timers.stop_retransmission();
        }
    }

    /// Measures the round-trip time: of the timed segment, which was sent once (Karn's rule, RFC
    /// 6298, 3), or else, in recovery, from the echoed timestamp (RFC 7323, 4).
    fn measure(&mut self, segment: &Incoming, context: &Context<'_>) {
        if self.sender.rto.is_timing() {
            let ack = segment.header.ack;
            self.sender
                .rto
                .acknowledged(ack, context.now, context.config);
        } else if let (true, Some((_, echo))) =
            (self.terms.timestamps(), segment.header.options.timestamps)
            && self.recovery.is_on()
            && let Some(round_trip) = self.timestamps.round_trip(echo, context.now)
        {
            self.sender.rto.measured_by_echo(round_trip, context.config);
        }
    }

    /// Enters fast recovery for another reason than duplicate acknowledgements.
    pub fn begin_fast_recovery(&mut self, context: &mut Context<'_>) {
        context.counters.fast_recoveries += 1;
        self.recovery
            .begin_fast(&mut self.sender, &self.terms, context.now);
        self.window_reduced();
    }

    /// Reacts to a change of the peer's window: if it opened, zero-window probing ends and pending
    /// data is sent.
    fn window_changed(&mut self, context: &Context<'_>) {
        if self.sender.peer_window() == 0 {
            if self.sender.queue.bytes() > 0 {
                self.timers.start_retransmission(self.timeout_at(context));
            }
            return;
        }
        let was_probing = self.timers.window_open();
        if !self.sender.is_waiting() {
            self.timers.stop_retransmission();
        } else if was_probing {
            // The peer refused the probes of its closed window: their data is sent again at once.
            self.sender.rewind();
            self.recovery.rewound(self.sender.una());
        }
    }
}
