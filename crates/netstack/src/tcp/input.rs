//! A segment arrives (RFC 9293, 3.10.7), for a connection that exists.

use super::context::Context;
use super::segment::Incoming;
use super::seq;
use super::state::{State, Tcb};
use crate::api::{DeadReason, TcpConfig, Time};
use crate::wire::tcp::{ACK, FIN, RST, SYN, Segment, URG};

/// What became of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Verdict {
    /// Its buffer is part of the connection now.
    pub held: bool,
    /// Answer with an RST as for a segment without a connection.
    pub reset: bool,
    /// The connection came to TIME_WAIT (again).
    pub time_wait: bool,
}

/// What a segment's timestamp says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Age {
    Fresh,
    /// It is older than one that came before.
    Old,
    /// It has none, though timestamps were agreed on.
    Unknown,
}

impl Tcb {
    /// Takes a segment in any state but SYN-SENT.
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
            // RFC 7323, 3.2: silently.
            Age::Unknown => {
                context.counters.timestamps_missing += 1;
                return drop;
            }
        }
        // A peer that did not get our SYN+ACK, or opens at the same time (RFC 9293, 3.5).
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
                // Data is acknowledged each time: a probe of our closed window (RFC 9293,
                // 3.8.6.1), or the peer lacks our last acknowledgement. It cannot continue
                // endlessly as bare acknowledgements could.
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
        // RFC 5961, 4: a SYN here is answered with a challenge, which an honest peer answers with
        // an RST that fits.
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
        // Only now: a forged segment whose acknowledgement was refused proves nothing.
        self.remember_timestamp(segment, context.now);
        self.timers.heard(context.now);
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
            verdict.held = self.take_data(segment, context);
        }
        verdict.time_wait = self.finish_receiving();
        verdict
    }

    /// PAWS (RFC 7323, 5.3): whether the timestamp is not older than the last one.
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

    /// RFC 7323, 4.3, rule 2: only a segment at the left edge sets the timestamp to echo.
    ///
    /// Stricter than that rule: the segment must acknowledge all that was acknowledged before.
    /// Segments in order always do. A forged timestamp from the future would make PAWS refuse
    /// the peer for 24 days, and RFC 5961, 5.2 takes acknowledgements up to the
    /// largest window old, which are easier to guess. The acknowledgement must have been taken.
    fn remember_timestamp(&mut self, segment: &Incoming, now: Time) {
        let header = &segment.header;
        if let (true, Some((value, _))) = (self.terms.timestamps(), header.options.timestamps)
            && self.receiver.is_at_left_edge(header.seq)
            && header.ack == self.sender.una()
        {
            self.timestamps.remember_newer(value, now);
        }
    }

    /// RFC 5961, 3: an RST must hit the next number exactly; near misses are asked again.
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

    /// The SYN that opened this connection comes again.
    fn syn_again(&mut self, segment: &Incoming, context: &mut Context<'_>) -> Verdict {
        if segment.is(ACK) && self.notices.is_owned() {
            // Both opened at the same time, and this is the peer's SYN+ACK (RFC 9293, figure 8).
            let mut stripped = *segment;
            stripped.header.flags &= !SYN;
            stripped.header.seq = segment.header.seq.wrapping_add(1);
            let verdict = self.input(&stripped, context);
            // The SYN came twice.
            self.receiver.syn_again(&self.terms);
            return verdict;
        }
        self.answer_again();
        Verdict::default()
    }

    /// SYN-RECEIVED: the ACK that opens. `false` when it acknowledges something else.
    fn opened(&mut self, segment: &Incoming, context: &mut Context<'_>) -> bool {
        let header = &segment.header;
        let first = self.sender.iss().wrapping_add(1);
        if !seq::le(first, header.ack) || !seq::le(header.ack, self.sender.max()) {
            return false;
        }
        let was_early = self.fast_open.take_early();
        // A connection that the application had early it may have closed already.
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
            self.recovery.repair_from(self.sender.una());
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

    /// The peer announces urgent data (RFC 9293, 3.10.7.4, sixth).
    pub fn take_urgent_pointer(&mut self, segment: &Incoming) {
        let Segment { seq, urgent, .. } = segment.header;
        if self.may_receive() && self.receiver.announce_urgent(seq, urgent) {
            self.notices.urgent_announced();
        }
    }

    /// Takes data and FIN of an acceptable segment. Says whether its buffer is kept.
    #[inline]
    pub fn take_data(&mut self, segment: &Incoming, context: &mut Context<'_>) -> bool {
        if !self.may_receive() {
            // Only what was received before can come here: the peer lacks our acknowledgement.
            self.receiver.acks_mut().demand();
            return false;
        }
        let is_owned = self.notices.is_owned();
        self.receiver
            .take(segment, is_owned, &self.terms, &mut self.timers, context)
    }

    /// Our FIN was acknowledged, perhaps: the next state (RFC 9293, 3.10.7.4, fifth).
    fn closing(&mut self, context: &mut Context<'_>) {
        if !self.sender.is_fin_acked() {
            return;
        }
        match self.state {
            State::FinWait1 => {
                self.state = State::FinWait2;
                if self.receiver.is_deaf() {
                    self.timers
                        .set_idle(context.now + context.config.fin_wait_2);
                }
            }
            State::LastAck => self.end(DeadReason::Closed, context),
            _ => {}
        }
    }

    /// All data up to the peer's FIN is here, perhaps: the next state (eighth). Says whether this
    /// is TIME_WAIT.
    pub fn finish_receiving(&mut self) -> bool {
        if self.receiver.take_fin() {
            self.notices.peer_closed(!self.receiver.is_deaf());
            self.state = match self.state {
                State::Established => State::CloseWait,
                State::FinWait1 => State::Closing,
                State::FinWait2 => return true,
                other => other,
            };
        }
        // CLOSING, and our FIN is acknowledged.
        self.state == State::Closing && self.sender.is_fin_acked()
    }
}
