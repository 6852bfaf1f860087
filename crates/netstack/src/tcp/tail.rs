//! The end of what was sent, and the probe that asks for it (RFC 8985, 7). When it is sent:
//! [`super::tail_probe`].

use super::sack::Scoreboard;
use super::segment::Incoming;
use super::seq;

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

/// What an acknowledgement says of the probe (RFC 8985, 7.4).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
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

    /// Start of the newest segment of new data.
    pub fn last_segment(&self) -> u32 {
        self.last_segment
    }

    /// A probe was sent whose fate is not known.
    pub fn is_probed(&self) -> bool {
        matches!(self.probe, Probe::Sent { .. })
    }

    /// It is time for a probe.
    pub fn demand(&mut self) {
        self.probe = Probe::Due;
    }

    /// A probe went out when what was sent ended at `end`; `again`: it was the last segment again.
    pub fn probed(&mut self, end: u32, again: bool) {
        self.probe = Probe::Sent { end, again };
    }

    /// None is on its way, and none is to be sent.
    pub fn forget(&mut self) {
        self.probe = Probe::None;
    }

    /// What an acknowledgement says of the probe that is out.
    pub fn answered(&mut self, segment: &Incoming, board: &Scoreboard) -> Fate {
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
