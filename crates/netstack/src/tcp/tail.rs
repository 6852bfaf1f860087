//! State of the tail loss probe (RFC 8985, 7). [`super::tail_probe`] decides when it is sent.

use super::sack::Scoreboard;
use super::segment::Incoming;
use super::seq;

/// State of the probe.
#[derive(Debug, Clone, Copy, Default)]
enum Probe {
    #[default]
    None,
    /// The probe is due.
    Due,
    /// A probe was sent, and its result is unknown.
    Sent {
        /// End of the sent data when the probe was sent.
        end: u32,
        /// The probe was a retransmission of the last segment.
        is_retransmission: bool,
    },
}

/// Result of a probe (RFC 8985, 7.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    Unknown,
    /// Nothing was lost.
    InVain,
    /// The probe repaired the only loss.
    Mended,
    /// The probe arrived. Everything missing below this number was sent two round trips earlier.
    LostBelow(u32),
}

/// Tail of the sent data.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tail {
    /// Start of the latest segment of new data.
    last_segment: u32,
    probe: Probe,
}

impl Tail {
    /// Records that a segment of new data, or the stream, starts at `start`.
    pub fn set_start(&mut self, start: u32) {
        self.last_segment = start;
    }

    /// Whether the probe is due.
    pub fn is_due(&self) -> bool {
        matches!(self.probe, Probe::Due)
    }

    /// Returns [`Self::is_due`] and clears it.
    pub fn take_due(&mut self) -> bool {
        let is_due = self.is_due();
        if is_due {
            self.probe = Probe::None;
        }
        is_due
    }

    /// Start of the latest segment of new data.
    pub fn last_segment(&self) -> u32 {
        self.last_segment
    }

    /// Whether a probe was sent whose result is unknown.
    pub fn is_probed(&self) -> bool {
        matches!(self.probe, Probe::Sent { .. })
    }

    /// Makes a probe due.
    pub fn demand(&mut self) {
        self.probe = Probe::Due;
    }

    /// Records a probe after which the sent data ends at `end`.
    pub fn probed(&mut self, end: u32, is_retransmission: bool) {
        self.probe = Probe::Sent {
            end,
            is_retransmission,
        };
    }

    /// Cancels the probe.
    pub fn forget(&mut self) {
        self.probe = Probe::None;
    }

    /// Result of the probe according to an acknowledgement.
    pub fn answered(&mut self, segment: &Incoming, board: &Scoreboard) -> Fate {
        let Probe::Sent {
            end,
            is_retransmission,
        } = self.probe
        else {
            return Fate::Unknown;
        };
        let ack = segment.header.ack;
        let fate = if seq::le(end, ack) {
            let first_range = segment.header.options.sack_ranges().first();
            let is_duplicate = first_range.is_some_and(|(left, _)| seq::lt(*left, ack));
            if !is_retransmission || is_duplicate {
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
