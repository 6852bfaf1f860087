//! The tail loss probe (RFC 8985, 7): when the end of what was sent is lost, nothing that follows
//! tells of it. One segment more, long before the retransmission timer, asks.

use super::sack::Scoreboard;
use super::segment::{Incoming, Outgoing};
use super::seq;
use super::state::{Context, Tcb};
use std::time::Duration;

/// Least time from the last segment to a probe. Receivers may delay their acknowledgements, and on
/// a path of microseconds they do so for many round trips: sooner, most probes would be in vain.
const LEAST: Duration = Duration::from_millis(10);

/// The probe.
#[derive(Debug, Clone, Copy, Default)]
enum Probe {
    #[default]
    None,
    /// One is to be sent now.
    Due,
    /// Its fate is not known.
    Sent {
        /// The end of what was sent when it went out.
        end: u32,
        /// It was the last segment again.
        again: bool,
    },
}

/// What an acknowledgement tells of the probe (RFC 8985, 7.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Unknown,
    /// Nothing was lost.
    InVain,
    /// The probe has mended the only loss.
    Mended,
    /// The probe is there. What is not there by now was sent two round trips before it.
    LostBelow(u32),
}

/// The end of what was sent.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tail {
    /// Start of the newest segment of new data.
    last_segment: u32,
    probe: Probe,
}

impl Tail {
    /// Sending starts, or a segment of new data is sent, at `start`.
    pub fn begins_at(&mut self, start: u32) {
        self.last_segment = start;
    }

    /// A probe is to be sent now.
    pub fn is_due(&self) -> bool {
        matches!(self.probe, Probe::Due)
    }

    /// As [`Self::is_due`]; it counts as sent then.
    pub fn take_due(&mut self) -> bool {
        let is_due = self.is_due();
        if is_due {
            self.probe = Probe::None;
        }
        is_due
    }

    /// None is on its way, and none is to be sent.
    pub fn forget(&mut self) {
        self.probe = Probe::None;
    }

    fn answered(&mut self, segment: &Incoming, board: &Scoreboard) -> Fate {
        let Probe::Sent { end, again } = self.probe else {
            return Fate::Unknown;
        };
        let ack = segment.header.ack;
        let fate = if seq::le(end, ack) {
            let twice = segment.header.options.sack_ranges().first();
            let twice = twice.is_some_and(|(left, _)| seq::lt(*left, ack));
            if !again || twice {
                Fate::InVain
            } else if seq::lt(end, ack) {
                Fate::Mended
            } else {
                Fate::Unknown
            }
        } else if board.covered(end.wrapping_sub(1)).is_some() {
            Fate::LostBelow(end)
        } else {
            Fate::Unknown
        };
        if fate != Fate::Unknown {
            self.probe = Probe::None;
        }
        fate
    }
}

impl Tcb {
    /// Something was sent or acknowledged: sets the time of the next probe, or none. RFC 8985, 7.2,
    /// but for a single segment under way: its acknowledgement may be delayed for as long as the
    /// retransmission timer takes, which then does it.
    pub fn watch_tail(&mut self, context: &Context<'_>) {
        let several = seq::lt(self.sender.una(), self.tail.last_segment);
        if !several && !self.timers.awaits_tail() {
            return;
        }
        let wanted = several
            && self.terms.sack()
            && !matches!(self.tail.probe, Probe::Sent { .. })
            && !self.timers.is_probing()
            && self.recovery.may_probe_tail();
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
            self.tail.probe = Probe::Due;
        }
    }

    /// New data, whatever the congestion window says, else the last segment again (RFC 8985, 7.3); in
    /// recovery the first that is missing.
    pub fn tail_segment(&mut self, mss: u32, context: &mut Context<'_>) -> Option<Outgoing> {
        let mut again = false;
        let segment = if self.recovery.is_on() {
            self.recovery.repair_from(self.sender.una());
            self.resend_missing(mss, context)?
        } else if let Some(segment) = self.fresh_data(mss, true, context) {
            segment
        } else {
            again = true;
            let last = seq::max(self.tail.last_segment, self.sender.una());
            self.resend(last, self.sender.max(), mss, context)?
        };
        let end = self.sender.max();
        self.tail.probe = Probe::Sent { end, again };
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
                self.recovery.board.all_lost_below(end);
                if !self.recovery.is_on() {
                    self.begin_fast_recovery(context);
                }
            }
        }
    }
}
