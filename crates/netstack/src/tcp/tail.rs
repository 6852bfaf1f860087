//! The tail loss probe (RFC 8985, 7): when the end of what was sent is lost, nothing that follows
//! tells of it. One segment more, long before the retransmission timer, asks.

use super::segment::{Incoming, Outgoing};
use super::seq;
use super::state::{Context, Recovery, Tcb};
use std::time::Duration;

/// Least time from the last segment to a probe. Receivers may delay their acknowledgements, and on
/// a path of microseconds they do so for many round trips: sooner, most probes would be in vain.
const LEAST: Duration = Duration::from_millis(10);

/// A probe whose fate is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Probe {
    /// The end of what was sent when it went out.
    end: u32,
    /// It was the last segment again.
    again: bool,
}

impl Tcb {
    /// Something was sent or acknowledged: sets the time of the next probe, or none. RFC 8985, 7.2,
    /// but for a single segment under way: its acknowledgement may be delayed for as long as the
    /// retransmission timer takes, which then does it. And in fast recovery too, where nobody hears
    /// of it when what was sent again is lost again.
    pub fn watch_tail(&mut self, context: &Context<'_>) {
        let several = seq::lt(self.sender.una(), self.last_segment);
        if !several && !self.timers.awaits_tail() {
            return;
        }
        let wanted = several
            && self.terms.sack()
            && self.tail_probe.is_none()
            && !self.timers.is_probing()
            && match self.recovery {
                Recovery::None => self.board.is_empty(),
                Recovery::Fast { .. } => true,
                Recovery::Loss { .. } => false,
            };
        let at = self.sender.rto.srtt().filter(|_| wanted);
        let at = at.map(|srtt| context.now + (2 * srtt).max(LEAST));
        let timeout = self.timers.retransmit_at();
        self.timers
            .set_tail_probe(at.filter(|at| timeout.is_some_and(|timeout| *at < timeout)));
    }

    /// It is time for a probe.
    pub fn tail_is_late(&mut self, context: &mut Context<'_>) {
        if self.sender.is_waiting() && self.may_send() {
            context.counters.tail_probes += 1;
            self.tail_probe_now = true;
        }
    }

    /// New data, whatever the congestion window says, else the last segment again (RFC 8985, 7.3); in
    /// recovery the first that is missing.
    pub fn tail_segment(&mut self, mss: u32, context: &mut Context<'_>) -> Option<Outgoing> {
        let mut again = false;
        let segment = if self.recovery != Recovery::None {
            self.resent = self.sender.una();
            self.resend_missing(mss, context)?
        } else if let Some(segment) = self.fresh_data(mss, true, context) {
            segment
        } else {
            again = true;
            let last = seq::max(self.last_segment, self.sender.una());
            self.resend(last, self.sender.max(), mss, context)?
        };
        let end = self.sender.max();
        self.tail_probe = Some(Probe { end, again });
        self.timers.set_tail_probe(None);
        self.timers.restart_retransmission(self.timeout_at(context));
        Some(segment)
    }

    /// None is on its way, and none is to be sent.
    pub fn forget_tail_probe(&mut self) {
        (self.tail_probe, self.tail_probe_now) = (None, false);
        self.timers.set_tail_probe(None);
    }

    /// What an acknowledgement says of the probe that is out (RFC 8985, 7.4).
    pub fn tail_answered(&mut self, segment: &Incoming, context: &mut Context<'_>) {
        let Some(Probe { end, again }) = self.tail_probe else {
            return;
        };
        let ack = segment.header.ack;
        if seq::le(end, ack) {
            let twice = segment.header.options.sack_ranges().first();
            let twice = twice.is_some_and(|(left, _)| seq::lt(*left, ack));
            if !again || twice {
                self.tail_probe = None;
            } else if seq::lt(end, ack) {
                // The probe has mended the only loss: that was a loss nevertheless.
                self.tail_probe = None;
                if self.recovery == Recovery::None {
                    let (mss, flight) = (self.payload_mss(), self.sender.window.cwnd);
                    self.sender.window.lost(flight, mss, context.now);
                    self.sender.window.cwnd = self.sender.window.ssthresh;
                }
            }
        } else if self.board.covered(end.wrapping_sub(1)).is_some() {
            // The probe is there. What is not there by now was sent two round trips before it.
            self.tail_probe = None;
            self.board.all_lost_below(end);
            if self.recovery == Recovery::None {
                self.begin_fast_recovery(context);
            }
        }
    }
}
