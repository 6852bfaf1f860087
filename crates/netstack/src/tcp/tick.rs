//! What time does to a connection: retransmission, late acknowledgement, keepalive, the wait for a
//! FIN that never comes.

use super::state::{Context, State, Tcb};
use super::timers::Silence;
use crate::api::DeadReason;

impl Tcb {
    /// Does what is due.
    pub fn tick(&mut self, context: &mut Context<'_>) {
        let now = context.now;
        if self.timers.take_ack(now) {
            self.receiver.acks_mut().missed();
        }
        if self.timers.take_tail_probe(now) {
            self.tail_is_late(context);
        }
        if self.timers.take_retransmission(now) {
            self.timed_out(context);
        }
        if self.timers.take_idle(now) {
            self.idle(context);
        }
    }

    fn idle(&mut self, context: &mut Context<'_>) {
        if self.state == State::FinWait2 && self.receiver.is_deaf() {
            // The peer does not close: nobody is left here to wait (RFC 9293, 3.6: "FIN-WAIT-2").
            self.end(DeadReason::Closed, context);
            return;
        }
        let Some(keepalive) = context.config.keepalive else {
            return;
        };
        if self.is_synchronized() && self.timers.silence(&keepalive, context.now) == Silence::GiveUp
        {
            context.counters.timed_out += 1;
            self.end(DeadReason::TimedOut, context);
        }
    }

    /// Starts keepalive (RFC 9293, 3.8.4), if it is on.
    pub fn arm_keepalive(&mut self, context: &Context<'_>) {
        if let Some(keepalive) = context.config.keepalive {
            self.timers.set_idle(context.now + keepalive.idle);
        }
    }
}
