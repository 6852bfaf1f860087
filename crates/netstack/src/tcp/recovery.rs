//! Loss recovery: fast retransmit and fast recovery (RFC 5681, 3.2; RFC 6582; RFC 6675), and
//! retransmission after a timeout (RFC 6298, 5).

use super::prr::{Delivery, Prr};
use super::rack::Rack;
use super::sack::{DUP_THRESH, Scoreboard};
use super::sender::Sender;
use super::seq;
use super::terms::Terms;
use crate::api::Time;
use std::time::Duration;

/// Active loss recovery.
#[derive(Debug, Clone, Copy, Default)]
pub enum Phase {
    #[default]
    None,
    /// Fast recovery (RFC 6582, RFC 6675) until `point` is acknowledged.
    Fast { point: u32 },
    /// Recovery after a timeout (RFC 6298, RFC 5681): everything up to `point` is retransmitted.
    Loss { point: u32 },
}

/// State of loss detection and recovery.
#[derive(Debug, Clone, Copy, Default)]
pub struct Recovery {
    phase: Phase,
    pub(super) board: Scoreboard,
    /// End of the data that this recovery has retransmitted (RFC 6675, HighRxt).
    resent: u32,
    pub(super) rack: Rack,
    prr: Prr,
    /// Retransmitted data that was lost again, from the first byte that is still to be
    /// retransmitted.
    lost_again: (u32, u32),
    /// The retransmission of the first segment is due.
    is_first_due: bool,
    duplicates: u32,
    /// Highest sequence number sent when a recovery began (RFC 6582, `recover`).
    recover: u32,
    /// Number of segments retransmitted since the start.
    retransmits: u32,
}

/// Acknowledgement of new data.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    pub bytes: u32,
    /// Bytes that this acknowledgement is the first to report: less than `bytes` if SACK reported a
    /// part before. Only with SACK.
    pub delivered: u32,
    /// Round trip of the segment that was sent last, if it is unambiguous.
    pub round_trip: Option<Duration>,
    /// Whether the acknowledgement may grow the window.
    pub may_grow: bool,
}

impl Recovery {
    /// Sets the initial sequence number.
    pub fn start(&mut self, iss: u32) {
        (self.recover, self.resent, self.lost_again) = (iss, iss, (iss, iss));
    }

    /// Restarts the repair: nothing from `una` on counts as retransmitted.
    pub fn restart_repair(&mut self, una: u32) {
        self.resent = una;
        self.lost_again = (una, una);
        self.rack.forget_retransmissions();
    }

    /// Active recovery.
    pub const fn phase(&self) -> Phase {
        self.phase
    }

    /// Whether a recovery is active.
    pub const fn is_on(&self) -> bool {
        !matches!(self.phase, Phase::None)
    }

    /// Whether fast recovery is active.
    pub const fn is_fast(&self) -> bool {
        matches!(self.phase, Phase::Fast { .. })
    }

    /// Whether duplicate acknowledgements or SACK ranges suggest a loss.
    pub const fn is_suspicious(&self) -> bool {
        self.duplicates > 0 || !self.board.is_empty()
    }

    /// Whether only a probe or the timeout could reveal a lost tail (RFC 8985, 7.2). This includes
    /// fast recovery, where nothing reveals the loss of a retransmission.
    pub const fn may_probe_tail(&self) -> bool {
        match self.phase {
            Phase::None => self.board.is_empty(),
            Phase::Fast { .. } => true,
            Phase::Loss { .. } => false,
        }
    }

    /// Data that the peer has reported (RFC 2018).
    pub const fn board(&self) -> &Scoreboard {
        &self.board
    }

    /// Largest distance in bytes of a reordered segment.
    pub const fn reordered_bytes(&self) -> u32 {
        self.rack.reordered_bytes()
    }

    /// End of the data that this recovery has retransmitted.
    pub const fn retransmitted_end(&self) -> u32 {
        self.resent
    }

    /// Records that `bytes` from `start` on are retransmitted.
    pub fn retransmitted(&mut self, start: u32, bytes: u32, now: Time) {
        let end = start.wrapping_add(bytes);
        if seq::lt(start, self.lost_again.1) {
            self.lost_again.0 = seq::max(self.lost_again.0, end);
        }
        self.resent = seq::max(self.resent, end);
        self.rack.retransmitted(start, end, now);
        self.prr.sent(bytes);
    }

    /// Records that retransmitted data up to `end` was lost again.
    pub fn retransmission_lost(&mut self, una: u32, end: u32) {
        self.lost_again = (una, seq::max(end, self.lost_again.1));
        self.is_first_due = true;
    }

    /// First range that was lost again.
    pub fn next_lost_again(&self, una: u32) -> Option<(u32, u32)> {
        let (from, end) = (seq::max(una, self.lost_again.0), self.lost_again.1);
        self.board.next_gap(from, end)
    }

    /// Records that `bytes` of new data, which end at `end`, are sent.
    #[inline]
    pub fn sent(&mut self, end: u32, bytes: u32, now: Time) {
        self.rack.sent(end, now);
        self.prr.sent(bytes);
    }

    /// Records that sending restarts at SND.UNA, which makes earlier send times meaningless.
    pub fn rewound(&mut self, una: u32) {
        self.restart_repair(una);
        self.rack.timed_out();
    }

    /// Adds the bytes that were reported by the acknowledgement which started fast recovery.
    pub fn begins_with(&mut self, bytes: u32) {
        self.prr.begins_with(bytes);
    }

    /// Sets the window after an acknowledgement during fast recovery (RFC 9937).
    pub fn reduce(&mut self, delivery: Delivery, sender: &mut Sender, terms: &Terms) {
        let pipe = self.bytes_in_flight(sender, terms);
        let mss = terms.payload_mss();
        let is_due = delivery.bytes > 0 || !self.prr.has_sent();
        if let (true, Some(ssthresh)) = (is_due, sender.window.ssthresh()) {
            let window = self.prr.window(delivery, pipe, ssthresh, mss);
            sender.window.set_in_recovery(window);
        }
    }

    /// Number of segments retransmitted since the start.
    pub const fn retransmits(&self) -> u32 {
        self.retransmits
    }

    /// Counts a retransmitted segment.
    pub fn count_retransmit(&mut self) {
        self.retransmits += 1;
    }

    /// Whether the retransmission of the first segment is due.
    pub const fn is_first_due(&self) -> bool {
        self.is_first_due
    }

    /// Returns [`Self::is_first_due`] and clears it.
    pub fn take_first(&mut self) -> bool {
        std::mem::take(&mut self.is_first_due)
    }

    /// Cancels a pending retransmission because the connection has ended.
    pub fn stop(&mut self) {
        self.is_first_due = false;
    }

    /// Segments that duplicate acknowledgements allow beyond the window (RFC 3042).
    pub fn limited_transmit(&self, terms: &Terms) -> u32 {
        if terms.sack() || self.is_on() {
            0
        } else {
            self.duplicates.min(2)
        }
    }
}

/// Byte counts for the `sender` and `terms` of one connection.
impl Recovery {
    /// Bytes in flight (RFC 6675, 4, SetPipe).
    #[inline]
    pub fn bytes_in_flight(&self, sender: &Sender, terms: &Terms) -> u32 {
        let (una, next) = (sender.una(), sender.next());
        if terms.sack() && !self.board.is_empty() {
            let pipe = self.board.pipe(una, next, self.resent, terms.payload_mss());
            let (from, end) = (seq::max(una, self.lost_again.0), self.lost_again.1);
            pipe - self.board.missing_between(from, end).min(pipe)
        } else {
            next.wrapping_sub(una)
        }
    }

    /// Bytes that count as lost, retransmitted or not.
    pub fn lost(&self, sender: &Sender, terms: &Terms) -> u32 {
        let (una, mss) = (sender.una(), terms.payload_mss());
        match self.phase {
            // Everything that the peer has not reported is lost.
            Phase::Loss { point } => {
                seq::distance(una, point) - self.board.bytes_between(una, point)
            }
            // Without SACK only the first segment is known to be lost (RFC 6582).
            Phase::Fast { .. } if self.board.is_empty() => {
                mss.min(seq::distance(una, sender.max()))
            }
            _ => self.board.lost(una, mss),
        }
    }

    /// Bytes that were retransmitted and are not acknowledged.
    pub fn retransmitted_bytes(&self, sender: &Sender) -> u32 {
        let end = match self.phase {
            Phase::None => return 0,
            Phase::Fast { .. } => self.resent,
            Phase::Loss { point } => seq::min(sender.next(), point),
        };
        seq::distance(sender.una(), end) - self.board.bytes_between(sender.una(), end)
    }
}

/// Reactions to acknowledgements and to the timer.
impl Recovery {
    /// Records that everything up to `ack` is acknowledged.
    pub fn advance(&mut self, ack: u32) {
        self.resent = seq::max(self.resent, ack);
        self.lost_again.1 = seq::max(self.lost_again.1, ack);
        self.board.advance(ack);
    }

    /// Reacts to an acknowledgement of new data that the sender has already recorded.
    pub fn progress(&mut self, progress: Progress, sender: &mut Sender, terms: &Terms, now: Time) {
        let mss = terms.payload_mss();
        let (una, srtt) = (sender.una(), sender.rto.srtt());
        match self.phase {
            Phase::None => {
                if let Some(round_trip) = progress.round_trip {
                    sender.window.measured(round_trip, una, sender.max(), mss);
                }
                if progress.may_grow && sender.window.is_used() {
                    sender
                        .window
                        .acknowledged(self.reported(progress, terms), mss, now, srtt);
                }
                self.duplicates = 0;
            }
            Phase::Loss { point } => {
                let bytes = self.reported(progress, terms);
                sender.window.acknowledged(bytes, mss, now, srtt);
                self.duplicates = 0;
                if seq::le(point, una) {
                    self.phase = Phase::None;
                }
            }
            Phase::Fast { point } if seq::le(point, una) => {
                if terms.sack() {
                    sender.window.end_sack_recovery();
                    self.rack.recovered();
                } else {
                    sender.window.end_recovery(sender.flight(), mss);
                }
                self.phase = Phase::None;
                self.duplicates = 0;
            }
            // After a partial acknowledgement the next hole is lost as well (RFC 6582, 3.2, step
            // 3).
            Phase::Fast { .. } if !terms.sack() => {
                self.is_first_due = true;
                sender.window.deflate(progress.bytes, mss);
            }
            Phase::Fast { .. } => {}
        }
    }

    /// Bytes by which the window may grow. Data that duplicate acknowledgements have reported has
    /// already allowed new segments (RFC 3042) and does not count again.
    fn reported(&self, progress: Progress, terms: &Terms) -> u32 {
        if terms.sack() {
            return progress.delivered;
        }
        let mss = terms.payload_mss();
        (progress.bytes)
            .saturating_sub(self.duplicates.saturating_mul(mss))
            .max(mss.min(progress.bytes))
    }

    /// Reacts to a duplicate acknowledgement. Returns whether it started fast recovery.
    pub fn duplicate(&mut self, sender: &mut Sender, terms: &Terms, now: Time) -> bool {
        let mss = terms.payload_mss();
        self.duplicates += 1;
        match self.phase {
            Phase::None => {
                let lost = if terms.sack() {
                    let has_duplicates = self.duplicates >= DUP_THRESH && !self.rack.is_reordered();
                    has_duplicates || self.board.first_lost(mss)
                } else {
                    // RFC 6582, 3.2, step 1: duplicates of an earlier recovery's data do not count.
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
            _ => false,
        }
    }

    /// Restarts the repair with the first segment.
    pub fn restart_from_first(&mut self, sender: &Sender) {
        self.restart_repair(sender.una());
        self.is_first_due = true;
    }

    /// Starts fast recovery.
    pub fn begin_fast(&mut self, sender: &mut Sender, terms: &Terms, now: Time) {
        let mss = terms.payload_mss();
        // Duplicate acknowledgements show that these segments have left the network (RFC 5681,
        // 3.2).
        let inflation = if terms.sack() { 0 } else { DUP_THRESH * mss };
        sender
            .window
            .begin_recovery(sender.flight(), inflation, mss, now);
        self.prr
            .begin(sender.flight().saturating_sub(self.board.bytes()));
        self.recover = sender.max();
        self.phase = Phase::Fast {
            point: sender.max(),
        };
        self.restart_from_first(sender);
    }

    /// Starts the retransmission of all data in flight after a timeout. `is_first` is `false` if
    /// the same data timed out before.
    pub fn timed_out(&mut self, sender: &mut Sender, terms: &Terms, is_first: bool, now: Time) {
        sender
            .window
            .timed_out(sender.flight(), terms.payload_mss(), is_first, now);
        self.recover = sender.max();
        self.phase = Phase::Loss {
            point: sender.max(),
        };
        // The receiver may discard data that it has reported (RFC 2018, 8).
        self.board.clear();
        sender.rewind();
        self.rewound(sender.una());
        (self.duplicates, self.is_first_due) = (0, false);
    }
}
