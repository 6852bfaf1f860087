//! Expired timers of a connection: retransmission, delayed acknowledgement, keepalive, and the end
//! of FIN-WAIT-2.

use super::context::Context;
use super::state::{State, Tcb};
use super::timers::{LossTimer, Silence};
use crate::api::{ConnectionOptions, DeadReason, Keepalive, TcpConfig, Time};

impl Tcb {
    /// Handles the expired timers. Returns whether the peer must get an RST because it did not
    /// answer keepalive probes.
    pub fn tick(&mut self, context: &mut Context<'_>) -> bool {
        let now = context.now;
        if self.timers.take_ack(now) {
            self.receiver.acks_mut().make_due(context.config);
        }
        match self.timers.take_loss(now) {
            Some(LossTimer::Tail) => self.tail_is_late(context),
            Some(LossTimer::Reordering) => self.reordering_is_over(context),
            None => {}
        }
        if self.timers.take_retransmission(now) {
            self.timed_out(context);
        }
        self.timers.take_idle(now) && self.idle(context)
    }

    /// Handles a retransmission timeout (RFC 6298, 5).
    fn timed_out(&mut self, context: &mut Context<'_>) {
        if self.probes_instead() {
            self.tail_is_late(context);
            self.timers.restart_retransmission(self.timeout_at(context));
            return;
        }
        self.tail.forget();
        self.timers.stop_reordering();
        self.timers.set_tail_probe(None);
        let config = context.config;
        let most = match (self.state, self.options.user_timeout) {
            (State::SynSent, _) => self.options.syn_retries.unwrap_or(config.syn_retries),
            (State::SynReceived, _) => config.syn_ack_retries,
            (_, Some(_)) => u8::MAX,
            (_, None) => config.data_retries,
        };
        let stalled = self
            .timers
            .silence_duration(context.now, self.sender.rto.timeout(config));
        let is_over = (self.options.user_timeout).is_some_and(|most| stalled >= most);
        if is_over || !self.timers.retry(most) {
            context.counters.timed_out += 1;
            self.end(self.timers.silence_reason(), context);
            return;
        }
        self.sender.rto.stop_timing();
        self.sender.rto.back_off();
        if matches!(self.state, State::SynSent | State::SynReceived) {
            context.counters.timeouts += 1;
            self.resend_syn_ack();
        } else if self.sender.peer_window() == 0 {
            self.timers.probe_closed_window();
        } else if self.sender.is_waiting() {
            context.counters.timeouts += 1;
            let is_first = self.timers.retries() == 1;
            self.path.retransmitted(self.sender.una());
            self.suspect_black_hole(context);
            self.recovery
                .timed_out(&mut self.sender, &self.terms, is_first, context.now);
        } else {
            // Small data has waited for a larger window (RFC 9293, 3.8.6.2.1, override).
            self.timers.override_small_window();
        }
        let mut next = self.timeout_at(context);
        if let Some(most) = self.options.user_timeout {
            // The user timeout (RFC 5482) ends the connection exactly, not at the next timeout
            // after it.
            next = next.min(context.now + most.saturating_sub(stalled));
        }
        self.timers.restart_retransmission(next);
    }

    /// Handles the idle timer. Returns whether keepalive has ended the connection.
    fn idle(&mut self, context: &mut Context<'_>) -> bool {
        if self.state == State::FinWait2 && self.receiver.has_stopped_receiving() {
            // The peer does not close, and no application is left to wait for it (RFC 9293, 3.6:
            // "FIN-WAIT-2").
            self.end(DeadReason::Closed, context);
            return false;
        }
        let Some(keepalive) = self.keepalive(context.config) else {
            return false;
        };
        let gives_up =
            self.is_open() && self.timers.silence(&keepalive, context.now) == Silence::GiveUp;
        if gives_up {
            context.counters.timed_out += 1;
            self.end(self.timers.silence_reason(), context);
        }
        gives_up
    }

    /// Starts the keepalive timer (RFC 9293, 3.8.4) if keepalive is on.
    pub fn arm_keepalive(&mut self, context: &Context<'_>) {
        if let Some(keepalive) = self.keepalive(context.config) {
            self.timers.set_idle(context.now + keepalive.idle);
        }
    }

    fn keepalive(&self, config: &TcpConfig) -> Option<Keepalive> {
        self.options.keepalive.or(config.keepalive)
    }

    /// Applies the connection's own settings.
    pub fn set_options(&mut self, options: ConnectionOptions, config: &TcpConfig, now: Time) {
        let before = std::mem::replace(&mut self.options, options);
        if let Some(most) = options.segment_bytes {
            self.terms.limit_mss(most);
        }
        let is_waiting_for_fin =
            self.state == State::FinWait2 && self.receiver.has_stopped_receiving();
        if before.keepalive == options.keepalive || !self.is_open() || is_waiting_for_fin {
            return;
        }
        match self.keepalive(config) {
            Some(keepalive) => self.timers.set_idle(now + keepalive.idle),
            None => self.timers.stop_idle(),
        }
    }
}
