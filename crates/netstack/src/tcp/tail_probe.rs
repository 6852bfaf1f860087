//! Tail loss probe (RFC 8985, 7). If the last data is lost, no later segment reveals that. One more
//! segment, sent long before the retransmission timer expires, causes an acknowledgement.

use super::context::Context;
use super::recovery::Phase;
use super::segment::{Incoming, Outgoing};
use super::seq;
use super::state::Tcb;
use super::tail::Fate;
use crate::tuning::loss::{REPAIR_PROBE_LEAST, TAIL_PROBE_SLACK};

impl Tcb {
    /// Sets or clears the time of the next probe after data was sent or acknowledged (RFC 8985,
    /// 7.2). A single segment in flight has no such time: see [`Self::probes_instead`].
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

    /// Whether a probe replaces the timeout of a single segment in flight. Its acknowledgement may
    /// be delayed until the timer expires, so probe and timer have the same time (RFC 8985, 7.2:
    /// the lesser of both). Both retransmit the segment, but the probe keeps the congestion window.
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

    /// Makes a probe due when its time has come.
    pub fn tail_is_late(&mut self, context: &mut Context<'_>) {
        if self.sender.is_waiting() && self.may_send() {
            context.counters.tail_probes += 1;
            self.tail.demand();
        }
    }

    /// Sends the probe: new data even beyond the congestion window, or else the last segment again
    /// (RFC 8985, 7.3). In recovery it is the first missing segment.
    pub fn tail_segment(&mut self, mss: u32, context: &mut Context<'_>) -> Option<Outgoing> {
        let mut is_retransmission = false;
        let segment = if self.recovery.is_on() {
            self.recovery.restart_repair(self.sender.una());
            self.retransmit_missing(mss, context)?
        } else if let Some(segment) = self.fresh_data(mss, true, context) {
            segment
        } else {
            is_retransmission = true;
            let last = seq::max(self.tail.last_segment(), self.sender.una());
            let retransmitted_end = self.recovery.retransmitted_end();
            let segment = self.retransmit(last, self.sender.max(), mss, context)?;
            // The retransmission is no start of a repair.
            self.recovery.restart_repair(retransmitted_end);
            segment
        };
        let end = self.sender.max();
        self.tail.probed(end, is_retransmission);
        self.timers.set_tail_probe(None);
        self.timers.restart_retransmission(self.timeout_at(context));
        Some(segment)
    }

    /// Reacts to what an acknowledgement reveals about the probe.
    pub fn tail_answered(&mut self, segment: &Incoming, context: &mut Context<'_>) {
        match self.tail.answered(segment, &self.recovery.board) {
            Fate::Unknown | Fate::InVain => {}
            // The repaired loss still reduces the window.
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
