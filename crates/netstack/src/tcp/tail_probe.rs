//! The tail loss probe (RFC 8985, 7): when the end of what was sent is lost, nothing that follows
//! reveals it. One segment more, long before the retransmission timer, asks.

use super::context::Context;
use super::recovery::Phase;
use super::segment::{Incoming, Outgoing};
use super::seq;
use super::state::Tcb;
use super::tail::Fate;
use crate::tuning::loss::{REPAIR_PROBE_LEAST, TAIL_PROBE_SLACK};

impl Tcb {
    /// Something was sent or acknowledged: sets the time of the next probe, or none (RFC 8985, 7.2). A
    /// single segment under way has none: see [`Self::probes_instead`].
    pub fn watch_tail(&mut self, context: &Context<'_>) {
        let several = seq::lt(self.sender.una(), self.tail.last_segment());
        if !several && !self.timers.awaits_tail() {
            return;
        }
        let wanted = several
            && self.terms.sack()
            && !self.tail.is_probed()
            && !self.timers.is_probing()
            && self.recovery.may_probe_tail();
        let at = self.sender.rto.srtt().filter(|_| wanted);
        let is_repairing = self.recovery.is_on();
        let at = at.map(|srtt| {
            let wait = match is_repairing {
                true => (2 * srtt).max(REPAIR_PROBE_LEAST),
                false => 2 * srtt + TAIL_PROBE_SLACK,
            };
            context.now + wait
        });
        let timeout = self.timers.retransmit_at();
        self.timers
            .set_tail_probe(at.filter(|at| timeout.is_some_and(|timeout| *at < timeout)));
    }

    /// The retransmission timer has run out for a single segment: whether a probe goes out first. Its
    /// acknowledgement may be delayed for as long as the timer takes, so that the probe's time is the
    /// timer's (RFC 8985, 7.2: the lesser of both). What is lost is sent again by both, but after a
    /// probe the window is not lost.
    pub fn probes_instead(&self) -> bool {
        self.terms.sack()
            && self.may_send()
            && self.sender.is_waiting()
            && !seq::lt(self.sender.una(), self.tail.last_segment())
            && self.timers.retries() == 0
            && !self.tail.is_probed()
            && !self.timers.is_probing()
            && self.sender.peer_window() > 0
            && matches!(self.recovery.phase(), Phase::None)
    }

    /// It is time for a probe.
    pub fn tail_is_late(&mut self, context: &mut Context<'_>) {
        if self.sender.is_waiting() && self.may_send() {
            context.counters.tail_probes += 1;
            self.tail.demand();
        }
    }

    /// New data, whatever the congestion window says, else the last segment again (RFC 8985, 7.3);
    /// in recovery the first that is missing.
    pub fn tail_segment(&mut self, mss: u32, context: &mut Context<'_>) -> Option<Outgoing> {
        let mut again = false;
        let segment = if self.recovery.is_on() {
            self.recovery.repair_from(self.sender.una());
            self.resend_missing(mss, context)?
        } else if let Some(segment) = self.fresh_data(mss, true, context) {
            segment
        } else {
            again = true;
            let last = seq::max(self.tail.last_segment(), self.sender.una());
            let resent = self.recovery.resent();
            let segment = self.resend(last, self.sender.max(), mss, context)?;
            // No repair has begun.
            self.recovery.repair_from(resent);
            segment
        };
        let end = self.sender.max();
        self.tail.probed(end, again);
        self.timers.set_tail_probe(None);
        self.timers.restart_retransmission(self.timeout_at(context));
        Some(segment)
    }

    /// What an acknowledgement says of the probe that is out.
    pub fn tail_answered(&mut self, segment: &Incoming, context: &mut Context<'_>) {
        match self.tail.answered(segment, &self.recovery.board) {
            Fate::Unknown | Fate::InVain => {}
            // That was a loss nevertheless.
            Fate::Mended => {
                if !self.recovery.is_on() {
                    let (mss, flight) = (self.payload_mss(), self.sender.window.cwnd());
                    self.sender
                        .window
                        .begin_recovery(flight, 0, mss, context.now);
                }
            }
            Fate::LostBelow(end) => {
                self.recovery.board.all_lost_below(self.sender.una(), end);
                if !self.recovery.is_on() {
                    self.begin_fast_recovery(context);
                }
            }
        }
    }
}
