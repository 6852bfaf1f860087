//! Loss: fast retransmit and fast recovery (RFC 5681, 3.2; RFC 6582; RFC 6675), and what a
//! timeout does (RFC 6298, 5).

use super::sack::DUP_THRESH;
use super::seq;
use super::state::{Context, Recovery, State, Tcb};
use crate::api::DeadReason;

impl Tcb {
    /// New data, `bytes` of it, was acknowledged; `flight` bytes had been under way. `mends`: some of
    /// it had been sent again.
    pub fn progress(&mut self, bytes: u32, flight: u32, mends: bool, context: &mut Context<'_>) {
        let mss = self.payload_mss();
        match self.recovery {
            Recovery::None => {
                self.dup_acks = 0;
                // A window that is not used says nothing about the path (RFC 7661).
                let used = if self.sender.window.in_slow_start() {
                    flight * 2
                } else {
                    flight + 3 * mss
                };
                if used >= self.sender.window.cwnd {
                    self.sender.window.acknowledged(
                        bytes,
                        mss,
                        context.now,
                        self.sender.rto.srtt(),
                    );
                }
            }
            Recovery::Loss { point } => {
                self.dup_acks = 0;
                self.sender
                    .window
                    .acknowledged(bytes, mss, context.now, self.sender.rto.srtt());
                if seq::le(point, self.sender.una()) {
                    self.recovery = Recovery::None;
                }
            }
            Recovery::Fast { point } if seq::le(point, self.sender.una()) => {
                let flight = self.sender.flight();
                // RFC 6582, 3.2, step 3: no burst when little is under way.
                self.sender.window.cwnd = self
                    .sender
                    .window
                    .ssthresh
                    .min(flight.max(mss) + mss)
                    .max(mss);
                if self.terms.sack() {
                    self.sender.window.cwnd = self.sender.window.ssthresh;
                }
                self.recovery = Recovery::None;
                self.dup_acks = 0;
            }
            // A partial acknowledgement: the next hole is lost as well (RFC 6582, 3.2, step 3).
            Recovery::Fast { .. } if !self.terms.sack() => {
                self.resend_first = true;
                self.sender.window.cwnd = self.sender.window.cwnd.saturating_sub(bytes);
                if bytes >= mss {
                    self.sender.window.cwnd += mss;
                }
                self.sender.window.cwnd = self.sender.window.cwnd.max(mss);
            }
            // What was sent again has arrived. What had been sent before it and is missing is lost,
            // however little lies above: three small segments are less than RFC 6675 asks for, and
            // a lost tail has nothing above it (RFC 8985, 6.2, step 5, by order instead of times).
            Recovery::Fast { point } if mends => {
                self.board.all_lost_below(point);
                (self.resent_before, self.later_acks) = (self.sender.max(), 0);
            }
            Recovery::Fast { .. } => {}
        }
    }

    /// A duplicate acknowledgement.
    pub fn duplicate_ack(&mut self, context: &mut Context<'_>) {
        let mss = self.payload_mss();
        self.dup_acks += 1;
        match self.recovery {
            Recovery::None => {
                let lost = if self.terms.sack() {
                    self.dup_acks >= DUP_THRESH || self.board.first_lost(mss)
                } else {
                    // RFC 6582, 3.2, step 1: not for duplicates of what a recovery sent.
                    self.dup_acks == DUP_THRESH && seq::lt(self.recover, self.sender.una())
                };
                if lost {
                    self.begin_fast_recovery(context);
                }
            }
            Recovery::Fast { .. } if !self.terms.sack() => {
                self.sender.window.cwnd = self.sender.window.cwnd.saturating_add(mss)
            }
            // What was sent after the first segment was sent again has arrived, and that not: it is
            // lost again (RFC 8985, 6.2, by order instead of times).
            Recovery::Fast { .. } if self.board.reaches(self.resent_before) => {
                self.later_acks += 1;
                if self.later_acks >= DUP_THRESH {
                    self.resend_from_first();
                }
            }
            _ => {}
        }
    }

    fn resend_from_first(&mut self) {
        self.resent = self.sender.una();
        self.resend_first = true;
        (self.resent_before, self.later_acks) = (self.sender.max(), 0);
    }

    pub fn begin_fast_recovery(&mut self, context: &mut Context<'_>) {
        let mss = self.payload_mss();
        context.counters.fast_recoveries += 1;
        let flight = self.sender.flight();
        self.sender.window.lost(flight, mss, context.now);
        self.sender.window.cwnd = self.sender.window.ssthresh
            + if self.terms.sack() {
                0
            } else {
                DUP_THRESH * mss
            };
        self.recover = self.sender.max();
        self.recovery = Recovery::Fast {
            point: self.sender.max(),
        };
        self.resend_from_first();
    }

    /// The retransmission timer ran out.
    pub fn timed_out(&mut self, context: &mut Context<'_>) {
        self.forget_tail_probe();
        let (most, reason) = match self.state {
            State::SynSent => (context.config.syn_retries, DeadReason::TimedOut),
            State::SynReceived => (context.config.syn_ack_retries, DeadReason::TimedOut),
            _ => (context.config.data_retries, DeadReason::TimedOut),
        };
        if !self.timers.retry(most) {
            context.counters.timed_out += 1;
            self.end(reason, context);
            return;
        }
        self.sender.rto.stop_timing();
        self.sender.rto.back_off();
        if matches!(self.state, State::SynSent | State::SynReceived) {
            context.counters.timeouts += 1;
            self.sender.repeat_syn();
        } else if self.sender.peer_window() == 0 {
            self.timers.probe_closed_window();
        } else if self.sender.is_waiting() {
            context.counters.timeouts += 1;
            let mss = self.payload_mss();
            let flight = self.sender.flight();
            let is_first = self.timers.retries() == 1;
            self.sender
                .window
                .timed_out(flight, mss, is_first, context.now);
            self.recover = self.sender.max();
            self.recovery = Recovery::Loss {
                point: self.sender.max(),
            };
            // The receiver may have dropped what it reported (RFC 2018, 8).
            self.board.clear();
            self.sender.rewind();
            self.resent = self.sender.una();
            (self.dup_acks, self.resend_first) = (0, false);
        } else {
            // Small data that waited for a larger window (RFC 9293, 3.8.6.2.1, override).
            self.timers.override_small_window();
        }
        self.timers.restart_retransmission(self.timeout_at(context));
    }
}
