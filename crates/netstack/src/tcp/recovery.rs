//! Loss: fast retransmit and fast recovery (RFC 5681, 3.2; RFC 6582; RFC 6675), and the repair
//! after a timeout (RFC 6298, 5).

use super::prr::{Delivery, Prr};
use super::rack::Rack;
use super::sack::{DUP_THRESH, Scoreboard};
use super::sender::Sender;
use super::seq;
use super::terms::Terms;
use crate::api::Time;
use std::time::Duration;

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
    pub(super) rack: Rack,
    prr: Prr,
    /// What was sent again and is lost again lies here, and is to be sent from its start on.
    lost_again: (u32, u32),
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
    /// Of all that was under way, what this acknowledgement is the first to report: less than
    /// `bytes` where SACK reported a part before. Only with SACK.
    pub delivered: u32,
    /// Of what was acknowledged and sent last, if it is certain.
    pub round_trip: Option<Duration>,
    /// The window may grow by it.
    pub may_grow: bool,
}

impl Recovery {
    /// Sending starts at `iss`.
    pub fn start(&mut self, iss: u32) {
        (self.recover, self.resent, self.lost_again) = (iss, iss, (iss, iss));
    }

    /// Nothing from `una` on was sent again.
    pub fn repair_from(&mut self, una: u32) {
        self.resent = una;
        self.lost_again = (una, una);
        self.rack.repair_anew();
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

    /// Most bytes by which something arrived too late.
    pub const fn reordered_bytes(&self) -> u32 {
        self.rack.reordered_bytes()
    }

    /// End of what was sent again.
    pub const fn resent(&self) -> u32 {
        self.resent
    }

    /// `bytes` from `start` on go out again.
    pub fn sent_again(&mut self, start: u32, bytes: u32, now: Time) {
        let end = start.wrapping_add(bytes);
        if seq::lt(start, self.lost_again.1) {
            self.lost_again.0 = seq::max(self.lost_again.0, end);
        }
        self.resent = seq::max(self.resent, end);
        self.rack.sent_again(start, end, now);
        self.prr.sent(bytes);
    }

    /// What was sent again is lost again, up to `end`.
    pub fn lose_again(&mut self, una: u32, end: u32) {
        self.lost_again = (una, seq::max(end, self.lost_again.1));
        self.is_first_due = true;
    }

    /// The first that is lost again.
    pub fn next_lost_again(&self, una: u32) -> Option<(u32, u32)> {
        let (from, end) = (seq::max(una, self.lost_again.0), self.lost_again.1);
        self.board.next_gap(from, end)
    }

    /// `bytes` of new data, which end at `end`, go out.
    #[inline]
    pub fn sent(&mut self, end: u32, bytes: u32, now: Time) {
        self.rack.sent(end, now);
        self.prr.sent(bytes);
    }

    /// Sending resumes at what is not acknowledged: when it was sent before says nothing any more.
    pub fn rewound(&mut self, una: u32) {
        self.repair_from(una);
        self.rack.timed_out();
    }

    /// The acknowledgement with which fast recovery began reported `bytes`.
    pub fn begins_with(&mut self, bytes: u32) {
        self.prr.begins_with(bytes);
    }

    /// An acknowledgement during fast recovery: the window that it leaves (RFC 9937).
    pub fn reduce(&mut self, delivery: Delivery, sender: &mut Sender, terms: &Terms) {
        let pipe = self.under_way(sender, terms);
        let mss = terms.payload_mss();
        let is_due = delivery.bytes > 0 || !self.prr.has_sent();
        if let (true, Some(ssthresh)) = (is_due, sender.window.ssthresh()) {
            let window = self.prr.window(delivery, pipe, ssthresh, mss);
            sender.window.set_in_recovery(window);
        }
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
            let pipe = self.board.pipe(una, next, self.resent, terms.payload_mss());
            let (from, end) = (seq::max(una, self.lost_again.0), self.lost_again.1);
            pipe - self.board.missing_between(from, end).min(pipe)
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
    /// All up to `ack` is acknowledged.
    pub fn advance(&mut self, ack: u32) {
        self.resent = seq::max(self.resent, ack);
        self.lost_again.1 = seq::max(self.lost_again.1, ack);
        self.board.advance(ack);
    }

    /// New data was acknowledged; the sender knows of it.
    pub fn progress(&mut self, made: Progress, sender: &mut Sender, terms: &Terms, now: Time) {
        let mss = terms.payload_mss();
        let (una, srtt) = (sender.una(), sender.rto.srtt());
        match self.phase {
            Phase::None => {
                if let Some(round_trip) = made.round_trip {
                    sender.window.measured(round_trip, una, sender.max(), mss);
                }
                if made.may_grow && sender.window.is_used() {
                    sender
                        .window
                        .acknowledged(self.reported(made, terms), mss, now, srtt);
                }
                self.duplicates = 0;
            }
            Phase::Loss { point } => {
                let bytes = self.reported(made, terms);
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
            // A partial acknowledgement: the next hole is lost as well (RFC 6582, 3.2, step 3).
            Phase::Fast { .. } if !terms.sack() => {
                self.is_first_due = true;
                sender.window.deflate(made.bytes, mss);
            }
            Phase::Fast { .. } => {}
        }
    }

    /// Bytes by which the window may grow: what duplicates have reported before has let out its own
    /// (RFC 3042), and counts once.
    fn reported(&self, made: Progress, terms: &Terms) -> u32 {
        if terms.sack() {
            return made.delivered;
        }
        let mss = terms.payload_mss();
        (made.bytes)
            .saturating_sub(self.duplicates.saturating_mul(mss))
            .max(mss.min(made.bytes))
    }

    /// A duplicate acknowledgement. Says whether fast recovery began with it.
    pub fn duplicate(&mut self, sender: &mut Sender, terms: &Terms, now: Time) -> bool {
        let mss = terms.payload_mss();
        self.duplicates += 1;
        match self.phase {
            Phase::None => {
                let lost = if terms.sack() {
                    let many = self.duplicates >= DUP_THRESH && !self.rack.is_reordered();
                    many || self.board.first_lost(mss)
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
            _ => false,
        }
    }

    /// The first segment is lost, or lost again: the repair begins with it.
    pub fn resend_from_first(&mut self, sender: &Sender) {
        self.repair_from(sender.una());
        self.is_first_due = true;
    }

    /// Fast recovery begins.
    pub fn begin_fast(&mut self, sender: &mut Sender, terms: &Terms, now: Time) {
        let mss = terms.payload_mss();
        // Segments that have left the network, as duplicates show (RFC 5681, 3.2).
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
        self.rewound(sender.una());
        (self.duplicates, self.is_first_due) = (0, false);
    }
}
