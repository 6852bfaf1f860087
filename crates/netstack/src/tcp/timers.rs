//! What time does to a connection: retransmission, late acknowledgement, keepalive, the wait for a
//! FIN that never comes.

use super::state::{Context, State, Tcb};
use crate::api::{DeadReason, Time};

impl Tcb {
    /// Does what is due.
    pub fn tick(&mut self, context: &mut Context<'_>) {
        let now = context.now;
        let due = |at: Option<Time>| at.is_some_and(|at| at <= now);
        if due(self.ack_at) {
            self.ack_at = None;
            self.answer_missed();
        }
        if due(self.tail_probe_at) {
            self.tail_is_late(context);
        }
        if due(self.retransmit_at) {
            self.timed_out(context);
        }
        if due(self.idle_at) {
            self.idle_at = None;
            self.idle(context);
        }
    }

    fn idle(&mut self, context: &mut Context<'_>) {
        if self.state == State::FinWait2 && self.deaf {
            // The peer does not close: nobody is left here to wait (RFC 9293, 3.6: "FIN-WAIT-2").
            self.end(DeadReason::Closed, context);
            return;
        }
        let Some(keepalive) = context.config.keepalive else {
            return;
        };
        if !self.is_synchronized() {
            return;
        }
        let quiet_until = self.last_heard + keepalive.idle;
        if context.now < quiet_until && self.keepalive_probes == 0 {
            self.idle_at = Some(quiet_until);
            return;
        }
        if self.keepalive_probes >= keepalive.probes {
            context.counters.timed_out += 1;
            self.end(DeadReason::TimedOut, context);
            return;
        }
        self.keepalive_probes += 1;
        self.keepalive_now = true;
        self.idle_at = Some(context.now + keepalive.interval);
    }

    /// Starts keepalive (RFC 9293, 3.8.4), if it is on.
    pub fn arm_keepalive(&mut self, context: &Context<'_>) {
        if let Some(keepalive) = context.config.keepalive {
            self.idle_at = Some(context.now + keepalive.idle);
        }
    }
}
