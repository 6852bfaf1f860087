//! SYN-SENT (RFC 9293, 3.10.7.3): processing of the answer to our SYN.

use super::context::Context;
use super::input::Verdict;
use super::loss::Report;
use super::segment::Incoming;
use super::seq;
use super::state::{State, Tcb};
use crate::api::DeadReason;
use crate::wire::tcp::{ACK, FIN, RST, SYN, URG};

impl Tcb {
    /// Processes a segment in SYN-SENT.
    pub fn input_syn_sent(&mut self, segment: &Incoming, context: &mut Context<'_>) -> Verdict {
        let header = &segment.header;
        let nothing = Verdict::default();
        let acceptable = segment.is(ACK)
            && seq::lt(self.sender.iss(), header.ack)
            && seq::le(header.ack, self.sender.max());
        // An echo of a timestamp that was never sent does not answer our SYN.
        let echo = header.options.timestamps.map(|(_, echo)| echo);
        let is_strange = segment.is(ACK)
            && context.config.timestamps
            && echo.is_some_and(|echo| {
                let sent = self.timers.last_heard();
                echo != 0 && !self.timestamps.was_sent(echo, sent, context.now)
            });
        if segment.is(ACK) && !segment.is(RST) && is_strange || segment.is(ACK) && !acceptable {
            return Verdict {
                reset: true,
                ..nothing
            };
        }
        if segment.is(RST) {
            if acceptable {
                context.counters.resets_received += 1;
                self.end(DeadReason::Refused, context);
            }
            return nothing;
        }
        if !segment.is(SYN) {
            return nothing;
        }
        self.agree(&header.options, context.config, context.now);
        self.receiver.begin(header.seq, context.config);
        self.timers.record_segment(context.now);
        // The window of a SYN is not scaled (RFC 7323, 2.2).
        self.sender
            .set_window(header.seq, header.ack, u32::from(header.window));
        if acceptable {
            self.agree_ecn(header.flags, context.config.ecn);
            self.state = State::Established;
            let was_repeated = self.timers.retries() > 0;
            self.sender
                .rto
                .handshake_done(was_repeated, context.now, context.config);
            self.sender.syn_acked();
            self.recovery.restart_repair(header.ack);
            self.timers.answered();
            self.timers.stop_retransmission();
            self.notices.opened();
            context.counters.connected += 1;
            self.receiver.acks_mut().demand();
            self.receiver.acks_mut().syn_answered();
            self.arm_keepalive(context);
            if seq::lt(self.sender.una(), header.ack) {
                // The peer has accepted data of our SYN (RFC 7413, 4.1.3).
                self.fast_open.syn_data_accepted();
                let bytes = seq::distance(self.sender.una(), header.ack);
                let report = Report {
                    bytes,
                    ..Report::default()
                };
                self.new_data_acknowledged(segment, report, context);
            }
            return self.take_rest(segment, context);
        } else {
            // Simultaneous open (figure 8): the same SYN is sent again, with an ACK.
            self.state = State::SynReceived;
            self.sender.repeat_syn();
        }
        nothing
    }

    /// Processes data and FIN of the SYN+ACK (RFC 9293, 3.10.7.3, fourth).
    fn take_rest(&mut self, segment: &Incoming, context: &mut Context<'_>) -> Verdict {
        let mut rest = *segment;
        rest.header.flags &= !SYN;
        rest.header.seq = segment.header.seq.wrapping_add(1);
        let mut verdict = Verdict::default();
        if rest.is(URG) {
            self.take_urgent_pointer(&rest);
        }
        if rest.payload.len > 0 || rest.is(FIN) {
            verdict.keeps_buffer = self.take_data(&rest, context);
            verdict.time_wait = self.finish_receiving();
        }
        verdict
    }
}
