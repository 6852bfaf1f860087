//! Arrival of a segment for an existing connection (RFC 9293, 3.10.7).

use super::context::Context;
use super::segment::Incoming;
use super::seq;
use super::state::{State, Tcb};
use crate::api::{DeadReason, TcpConfig, Time};
use crate::wire::tcp::{ACK, FIN, RST, SYN, Segment, URG};

/// Result of processing a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Verdict {
    /// The connection keeps the segment's buffer.
    pub keeps_buffer: bool,
    /// The stack must answer with an RST as for a segment without a connection.
    pub reset: bool,
    /// The connection entered TIME_WAIT, or restarts it.
    pub time_wait: bool,
}

/// Classification of a segment by its timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Age {
    Fresh,
    /// The timestamp is older than an earlier one.
    Old,
    /// The segment has no timestamp although timestamps were negotiated.
    Unknown,
}

impl Tcb {
    /// Processes a segment in any state but SYN-SENT.
    pub fn input(&mut self, segment: &Incoming, context: &mut Context<'_>) -> Verdict {
        let header = &segment.header;
        let drop = Verdict::default();
        match self.age(segment, context.config, context.now) {
            Age::Fresh => {}
            Age::Old => {
                context.counters.paws_rejected += 1;
                self.receiver.acks_mut().challenge(context.now);
                return drop;
            }
            // RFC 7323, 3.2: dropped silently.
            Age::Unknown => {
                context.counters.timestamps_missing += 1;
                return drop;
            }
        }
        // The peer did not get our SYN+ACK, or opens at the same time (RFC 9293, 3.5).
        if self.state == State::SynReceived
            && segment.is(SYN)
            && header.seq == self.receiver.irs()
            && !segment.is(RST)
        {
            return self.syn_again(segment, context);
        }
        if !self.receiver.is_acceptable(segment) {
            context.counters.out_of_window += 1;
            if !segment.is(RST) {
                self.receiver.report_duplicate(segment, &self.terms);
                // Data is acknowledged each time: it probes our closed window (RFC 9293, 3.8.6.1),
                // or the peer has missed our last acknowledgement. Unlike bare acknowledgements it
                // cannot cause an endless exchange.
                if segment.payload.len > 0 {
                    self.receiver.acks_mut().demand();
                }
                self.receiver.acks_mut().challenge(context.now);
            }
            return drop;
        }
        if segment.is(RST) {
            return self.reset_received(segment, context);
        }
        // RFC 5961, 4: a SYN in this state gets a challenge, which a correct peer answers with an
        // acceptable RST.
        if segment.is(SYN) {
            context.counters.challenge_acks += 1;
            self.receiver.acks_mut().challenge(context.now);
            return drop;
        }
        if !segment.is(ACK) {
            return drop;
        }
        if self.state == State::SynReceived && !self.opened(segment, context) {
            return Verdict {
                reset: true,
                ..drop
            };
        }
        if !self.acknowledged(segment, context) {
            return drop;
        }
        // Not earlier: a forged segment whose acknowledgement was refused must have no effect.
        self.remember_timestamp(segment, context.now);
        self.timers.record_segment(context.now);
        self.closing(context);
        let mut verdict = Verdict::default();
        if self.state == State::Closed {
            return verdict;
        }
        if self.terms.ecn() && segment.len() > 0 {
            self.take_mark(header.flags, segment.is_marked);
        }
        if segment.is(URG) {
            self.take_urgent_pointer(segment);
        }
        if segment.payload.len > 0 || segment.is(FIN) {
            if self.receiver.refuses(segment) {
                self.end(DeadReason::Closed, context);
                return Verdict {
                    reset: true,
                    ..drop
                };
            }
            verdict.keeps_buffer = self.take_data(segment, context);
        }
        verdict.time_wait = self.finish_receiving();
        verdict
    }

    /// Classifies the segment's timestamp: PAWS requires that it is not older than the last one
    /// (RFC 7323, 5.3).
    fn age(&self, segment: &Incoming, config: &TcpConfig, now: Time) -> Age {
        if !self.terms.timestamps()
            || segment.is(RST)
            || self.state == State::SynReceived && segment.is(SYN)
        {
            return Age::Fresh;
        }
        match segment.header.options.timestamps {
            Some((value, _)) if self.timestamps.is_fresh(value, now) => Age::Fresh,
            Some(_) => Age::Old,
            None if config.timestamps_may_be_missing => Age::Fresh,
            None => Age::Unknown,
        }
    }

    /// Stores the timestamp to echo. Only a segment at the left edge sets it (RFC 7323, 4.3, rule
    /// 2).
    ///
    /// This is stricter than the rule: the segment must acknowledge all that was acknowledged
    /// before, as segments in order always do. A forged timestamp from the future would make PAWS
    /// refuse the peer for 24 days. RFC 5961, 5.2, accepts acknowledgements as old as the largest
    /// window, which are easier to guess. The caller has accepted the acknowledgement.
    fn remember_timestamp(&mut self, segment: &Incoming, now: Time) {
        let header = &segment.header;
        if let (true, Some((value, _))) = (self.terms.timestamps(), header.options.timestamps)
            && self.receiver.is_at_left_edge(header.seq)
            && header.ack == self.sender.una()
        {
            self.timestamps.remember_newer(value, now);
        }
    }

    /// Processes an RST. It must have exactly the next sequence number; others in the window get a
    /// challenge (RFC 5961, 3).
    fn reset_received(&mut self, segment: &Incoming, context: &mut Context<'_>) -> Verdict {
        if segment.header.seq == self.receiver.next() {
            context.counters.resets_received += 1;
            let reason = match self.state {
                State::SynReceived if self.is_early() || !self.notices.is_owned() => {
                    DeadReason::Reset
                }
                State::SynReceived => DeadReason::Refused,
                State::Closing | State::LastAck => DeadReason::Closed,
                _ => DeadReason::Reset,
            };
            self.end(reason, context);
        } else {
            context.counters.challenge_acks += 1;
            self.receiver.acks_mut().challenge(context.now);
        }
        Verdict::default()
    }

    /// Processes a repetition of the SYN that opened this connection.
    fn syn_again(&mut self, segment: &Incoming, context: &mut Context<'_>) -> Verdict {
        if segment.is(ACK) && self.notices.is_owned() {
            // Both sides opened at the same time, and this is the peer's SYN+ACK (RFC 9293, figure
            // 8).
            let mut stripped = *segment;
            stripped.header.flags &= !SYN;
            stripped.header.seq = segment.header.seq.wrapping_add(1);
            let verdict = self.input(&stripped, context);
            // The peer has sent its SYN twice.
            self.receiver.syn_again(&self.terms);
            return verdict;
        }
        self.resend_syn_ack();
        Verdict::default()
    }

    /// Processes the ACK that completes the handshake in SYN-RECEIVED. Returns `false` if it
    /// acknowledges something else.
    fn opened(&mut self, segment: &Incoming, context: &mut Context<'_>) -> bool {
        let header = &segment.header;
        let first = self.sender.iss().wrapping_add(1);
        if !seq::le(first, header.ack) || !seq::le(header.ack, self.sender.max()) {
            return false;
        }
        let was_early = self.fast_open.take_early();
        // The application may already have closed a connection that it got early.
        self.state = if self.sender.is_closed() {
            State::FinWait1
        } else {
            State::Established
        };
        let was_repeated = self.timers.retries() > 0;
        self.sender
            .rto
            .handshake_done(was_repeated, context.now, context.config);
        self.timers.answered();
        self.timers.stop_retransmission();
        if was_early {
            self.fast_open.take_answer();
            if self.sender.is_waiting() {
                self.timers.start_retransmission(self.timeout_at(context));
            }
        } else {
            self.sender.syn_acked();
            self.recovery.restart_repair(self.sender.una());
        }
        let window = u32::from(header.window) << self.terms.peer_scale();
        self.sender.set_window(header.seq, header.ack, window);
        if !was_early && self.notices.opened() {
            context.counters.connected += 1;
        } else {
            context.counters.accepted += 1;
        }
        self.arm_keepalive(context);
        true
    }

    /// Processes the urgent pointer of a segment (RFC 9293, 3.10.7.4, sixth).
    pub fn take_urgent_pointer(&mut self, segment: &Incoming) {
        let Segment { seq, urgent, .. } = segment.header;
        if self.may_receive() && self.receiver.announce_urgent(seq, urgent) {
            self.notices.urgent_announced();
        }
    }

    /// Processes data and FIN of an acceptable segment. Returns whether the connection keeps its
    /// buffer.
    #[inline]
    pub fn take_data(&mut self, segment: &Incoming, context: &mut Context<'_>) -> bool {
        if !self.may_receive() {
            // Only old data can arrive here: the peer has missed our acknowledgement.
            self.receiver.acks_mut().demand();
            return false;
        }
        let is_owned = self.notices.is_owned();
        self.receiver
            .take(segment, is_owned, &self.terms, &mut self.timers, context)
    }

    /// Changes the state if our FIN was acknowledged (RFC 9293, 3.10.7.4, fifth).
    fn closing(&mut self, context: &mut Context<'_>) {
        if !self.sender.is_fin_acked() {
            return;
        }
        match self.state {
            State::FinWait1 => {
                self.state = State::FinWait2;
                if self.receiver.has_stopped_receiving() {
                    self.timers
                        .set_idle(context.now + context.config.fin_wait_2);
                }
            }
            State::LastAck => self.end(DeadReason::Closed, context),
            _ => {}
        }
    }

    /// Changes the state if all data up to the peer's FIN has arrived (RFC 9293, 3.10.7.4, eighth).
    /// Returns whether the next state is TIME_WAIT.
    pub fn finish_receiving(&mut self) -> bool {
        if self.receiver.take_fin() {
            self.notices
                .peer_closed(!self.receiver.has_stopped_receiving());
            self.state = match self.state {
                State::Established => State::CloseWait,
                State::FinWait1 => State::Closing,
                State::FinWait2 => return true,
                other => other,
            };
        }
        // In CLOSING, the acknowledgement of our FIN leads to TIME_WAIT.
        self.state == State::Closing && self.sender.is_fin_acked()
    }
}
