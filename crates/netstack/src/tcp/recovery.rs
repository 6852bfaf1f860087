//! Loss: fast retransmit and fast recovery (RFC 5681, 3.2; RFC 6582; RFC 6675), and the repair
//! after a timeout (RFC 6298, 5).

use super::sack::{DUP_THRESH, Scoreboard};
use super::sender::Sender;
use super::seq;
use super::terms::Terms;
use crate::api::Time;

/// Which loss recovery is under way.
#[derive(Debug, Clone, Copy, Default)]
pub enum Phase {
    #[default]
    None,
    /// Fast recovery (RFC 6582, RFC 6675) until `point` is acknowledged.
    Fast { point: u32 },
    /// After a timeout (RFC 6298, RFC 5681): all up to `point` is sent again.
    Loss { point: u32 },
}

/// What is lost and how it is repaired.
#[derive(Debug, Clone, Copy, Default)]
pub struct Recovery {
    phase: Phase,
    pub(super) board: Scoreboard,
    /// End of what recovery sent again (RFC 6675, HighRxt).
    resent: u32,
    /// End of what was sent when recovery last began with the first segment, and acknowledgements
    /// since then of what was sent later.
    resent_before: u32,
    later_acks: u32,
    /// The first segment is to be sent again now.
    is_first_due: bool,
    duplicates: u32,
    /// Highest sequence number sent when a recovery began (RFC 6582, `recover`).
    recover: u32,
    /// Segments sent again since the start.
    retransmits: u32,
}

/// New data was acknowledged.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    pub bytes: u32,
    /// Bytes that had been under way.
    pub flight: u32,
    /// Some of it had been sent again.
    pub mends: bool,
}

impl Recovery {
    /// Sending starts at `iss`.
    pub fn start(&mut self, iss: u32) {
        (self.recover, self.resent) = (iss, iss);
    }

    /// Nothing from `una` on was sent again.
    pub fn repair_from(&mut self, una: u32) {
        self.resent = una;
    }

    /// Which loss recovery is under way.
    pub const fn phase(&self) -> Phase {
        self.phase
    }

    /// Some recovery is under way.
    pub const fn is_on(&self) -> bool {
        !matches!(self.phase, Phase::None)
    }

    /// Fast recovery is under way.
    pub const fn is_fast(&self) -> bool {
        matches!(self.phase, Phase::Fast { .. })
    }

    /// Duplicate acknowledgements came, or reports of holes.
    pub const fn is_suspicious(&self) -> bool {
        self.duplicates > 0 || !self.board.is_empty()
    }

    /// Whether a lost tail would be heard of by nothing else, but for the timeout (RFC 8985, 7.2;
    /// in fast recovery too, where nothing reveals that a retransmission was lost too).
    pub const fn may_probe_tail(&self) -> bool {
        match self.phase {
            Phase::None => self.board.is_empty(),
            Phase::Fast { .. } => true,
            Phase::Loss { .. } => false,
        }
    }

    /// What the peer has (RFC 2018).
    pub const fn board(&self) -> &Scoreboard {
        &self.board
    }

    /// End of what was sent again.
    pub const fn resent(&self) -> u32 {
        self.resent
    }

    /// All up to `end` was sent again.
    pub fn sent_again(&mut self, end: u32) {
        self.resent = seq::max(self.resent, end);
    }

    /// Segments sent again since the start.
    pub const fn retransmits(&self) -> u32 {
        self.retransmits
    }

    /// A segment is sent again.
    pub fn count_retransmit(&mut self) {
        self.retransmits += 1;
    }

    /// The first segment is to be sent again now.
    pub const fn is_first_due(&self) -> bool {
        self.is_first_due
    }

    /// As [`Self::is_first_due`]; it counts as sent then.
    pub fn take_first(&mut self) -> bool {
        std::mem::take(&mut self.is_first_due)
    }

    /// The connection has ended.
    pub fn stop(&mut self) {
        self.is_first_due = false;
    }

    /// Segments that duplicate acknowledgements let out beyond the window (RFC 3042).
    pub fn limited_transmit(&self, terms: &Terms) -> u32 {
        if terms.sack() || self.is_on() {
            0
        } else {
            self.duplicates.min(2)
        }
    }
}

/// Bytes, for one connection's `sender` and `terms`.
impl Recovery {
    /// Under way (RFC 6675, 4, SetPipe).
    #[inline]
    pub fn under_way(&self, sender: &Sender, terms: &Terms) -> u32 {
        let (una, next) = (sender.una(), sender.next());
        if terms.sack() && !self.board.is_empty() {
            self.board.pipe(una, next, self.resent, terms.payload_mss())
        } else {
            next.wrapping_sub(una)
        }
    }

    /// What counts as lost, whether it was sent again or not.
    pub fn lost(&self, sender: &Sender, terms: &Terms) -> u32 {
        let (una, mss) = (sender.una(), terms.payload_mss());
        match self.phase {
            // All but what the peer has.
            Phase::Loss { point } => {
                seq::distance(una, point) - self.board.bytes_between(una, point)
            }
            // The first segment, as far as is known (RFC 6582).
            Phase::Fast { .. } if self.board.is_empty() => {
                mss.min(seq::distance(una, sender.max()))
            }
            _ => self.board.lost(una, mss),
        }
    }

    /// What was sent again and is not acknowledged.
    pub fn under_repair(&self, sender: &Sender) -> u32 {
        let end = match self.phase {
            Phase::None => return 0,
            Phase::Fast { .. } => self.resent,
            Phase::Loss { point } => seq::min(sender.next(), point),
        };
        seq::distance(sender.una(), end) - self.board.bytes_between(sender.una(), end)
    }
}

/// What acknowledgements and the timer lead to.
impl Recovery {
    /// All up to `ack` is acknowledged. Says whether some of it, from `una` on, had been sent
    /// again.
    pub fn advance(&mut self, una: u32, ack: u32) -> bool {
        let mends = seq::lt(una, self.resent);
        self.resent = seq::max(self.resent, ack);
        self.board.advance(ack);
        mends
    }

    /// New data was acknowledged; the sender knows of it.
    pub fn progress(&mut self, made: Progress, sender: &mut Sender, terms: &Terms, now: Time) {
        let mss = terms.payload_mss();
        let (una, srtt) = (sender.una(), sender.rto.srtt());
        match self.phase {
            Phase::None => {
                self.duplicates = 0;
                if sender.window.is_used(made.flight, mss) {
                    sender.window.acknowledged(made.bytes, mss, now, srtt);
                }
            }
            Phase::Loss { point } => {
                self.duplicates = 0;
                sender.window.acknowledged(made.bytes, mss, now, srtt);
                if seq::le(point, una) {
                    self.phase = Phase::None;
                }
            }
            Phase::Fast { point } if seq::le(point, una) => {
                if terms.sack() {
                    sender.window.end_sack_recovery();
                } else {
                    sender.window.end_recovery(sender.flight(), mss);
                }
                self.phase = Phase::None;
                self.duplicates = 0;
            }
            // A partial acknowledgement: the next hole is lost as well (RFC 6582, 3.2, step 3).
            Phase::Fast { .. } if !terms.sack() => {
                self.is_first_due = true;
                sender.window.deflate(made.bytes, mss);
            }
            // What was sent again has arrived. What had been sent before it and is missing is lost,
            // however little lies above: three small segments are less than RFC 6675 asks for, and
            // a lost tail has nothing above it (RFC 8985, 6.2, step 5, by order instead of times).
            Phase::Fast { point } if made.mends => {
                self.board.all_lost_below(point);
                (self.resent_before, self.later_acks) = (sender.max(), 0);
            }
            Phase::Fast { .. } => {}
        }
    }

    /// A duplicate acknowledgement. Says whether fast recovery began with it.
    pub fn duplicate(&mut self, sender: &mut Sender, terms: &Terms, now: Time) -> bool {
        let mss = terms.payload_mss();
        self.duplicates += 1;
        match self.phase {
            Phase::None => {
                let lost = if terms.sack() {
                    self.duplicates >= DUP_THRESH || self.board.first_lost(mss)
                } else {
                    // RFC 6582, 3.2, step 1: not for duplicates of what a recovery sent.
                    self.duplicates == DUP_THRESH && seq::lt(self.recover, sender.una())
                };
                if lost {
                    self.begin_fast(sender, terms, now);
                }
                lost
            }
            Phase::Fast { .. } if !terms.sack() => {
                sender.window.inflate(mss);
                false
            }
            // What was sent after the first segment was sent again has arrived, and that not: it is
            // lost again (RFC 8985, 6.2, by order instead of times).
            Phase::Fast { .. } if self.board.reaches(self.resent_before) => {
                self.later_acks += 1;
                if self.later_acks >= DUP_THRESH {
                    self.resend_from_first(sender);
                }
                false
            }
            _ => false,
        }
    }

    fn resend_from_first(&mut self, sender: &Sender) {
        self.resent = sender.una();
        self.is_first_due = true;
        (self.resent_before, self.later_acks) = (sender.max(), 0);
    }

    /// Fast recovery begins.
    pub fn begin_fast(&mut self, sender: &mut Sender, terms: &Terms, now: Time) {
        let mss = terms.payload_mss();
        // Segments that have left the network, as duplicates show (RFC 5681, 3.2).
        let inflation = if terms.sack() { 0 } else { DUP_THRESH * mss };
        sender
            .window
            .begin_recovery(sender.flight(), inflation, mss, now);
        self.recover = sender.max();
        self.phase = Phase::Fast {
            point: sender.max(),
        };
        self.resend_from_first(sender);
    }

    /// The retransmission timer ran out with data under way: all of it is sent again. `is_first`:
    /// it did not run out for the same data before.
    pub fn timed_out(&mut self, sender: &mut Sender, terms: &Terms, is_first: bool, now: Time) {
        sender
            .window
            .timed_out(sender.flight(), terms.payload_mss(), is_first, now);
        self.recover = sender.max();
        self.phase = Phase::Loss {
            point: sender.max(),
        };
        // The receiver may have dropped what it reported (RFC 2018, 8).
        self.board.clear();
        sender.rewind();
        self.resent = sender.una();
        (self.duplicates, self.is_first_due) = (0, false);
    }
}
