//! Loss detection from acknowledgements with SACK (RFC 6675, RFC 8985, RFC 9937).

use super::context::Context;
use super::prr::Delivery;
use super::recovery::Phase;
use super::seq;
use super::state::Tcb;
use crate::api::Time;
use crate::wire::tcp::Segment;
use std::time::Duration;

/// Contents of an acknowledgement, compared with the state before it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Report {
    /// Some SACK range is new.
    pub is_news: bool,
    /// Number of bytes that arrived.
    pub bytes: u32,
    /// Round trip of the segment that was sent last, if it is unambiguous.
    pub round_trip: Option<Duration>,
    /// The acknowledgement covers new data.
    pub(super) advances: bool,
    /// Fast recovery was already active.
    pub(super) in_recovery: bool,
}

impl Tcb {
    /// Records the SACK ranges of an acknowledgement and the send times of what they report.
    pub fn take_ranges(&mut self, header: &Segment, now: Time) -> Report {
        if !self.terms.sack() {
            return Report::default();
        }
        let (una, max) = (self.sender.una(), self.sender.max());
        let advances = seq::lt(una, header.ack);
        let mut round_trip = None;
        if advances {
            round_trip = self.arrives(una, header.ack, now);
            let is_all = header.ack == max;
            self.recovery.rack.advance(header.ack, is_all);
        }
        let ranges = header.options.sack_ranges();
        let acked = seq::distance(una, header.ack);
        if ranges.is_empty() && self.recovery.board.is_empty() {
            return Report {
                bytes: acked,
                round_trip,
                advances,
                ..Report::default()
            };
        }
        let first = seq::max(una, header.ack);
        if reports_duplicate(ranges, first) {
            self.recovery.rack.spurious_retransmission(una, max);
        }
        for &(left, right) in ranges {
            if seq::lt(left, right) && seq::lt(first, left) && seq::le(right, max) {
                self.arrives(left, right, now);
            }
        }
        let before = self.recovery.board.bytes();
        let is_news = self.recovery.board.update(first, max, ranges);
        let after = self.recovery.board.bytes();
        Report {
            is_news,
            bytes: (acked + after).saturating_sub(before),
            round_trip,
            advances,
            in_recovery: self.recovery.is_fast(),
        }
    }

    /// Records that the missing parts of `from..to` have arrived. Returns the round trip of the
    /// last of them, if it is unambiguous.
    fn arrives(&mut self, from: u32, to: u32, now: Time) -> Option<Duration> {
        // After a timeout it is ambiguous which of two copies arrived.
        if matches!(self.recovery.phase(), Phase::Loss { .. }) {
            return None;
        }
        let (retransmitted_end, board) = (self.recovery.retransmitted_end(), &self.recovery.board);
        let end = board.last_missing(from, to)?;
        let was_retransmitted = seq::le(end, retransmitted_end);
        let late_by = board
            .highest()
            .filter(|top| !was_retransmitted && seq::lt(end, *top));
        let late_by = late_by.map(|top| {
            let first = board.next_gap(seq::max(from, retransmitted_end), to);
            top.wrapping_sub(first.map_or(end, |(start, _)| start))
        });
        let repaired = (!was_retransmitted && seq::lt(from, retransmitted_end))
            .then(|| board.last_missing(from, retransmitted_end))
            .flatten();
        if let Some(end) = repaired {
            self.recovery.rack.arrived(end, true, now);
        }
        let round_trip = self.recovery.rack.arrived(end, was_retransmitted, now);
        if let Some(bytes) = late_by {
            self.recovery.rack.reordered(bytes);
            self.recovery.board.ignore_segment_count();
        }
        round_trip
    }

    /// Finds lost segments, and computes how much recovery may send.
    pub fn judge(&mut self, report: Report, context: &mut Context<'_>) {
        let reveals = self.find_lost(context);
        if self.recovery.is_fast() {
            if !report.in_recovery {
                self.recovery.begins_with(report.bytes);
            }
            let delivery = Delivery {
                bytes: report.bytes,
                is_safe: report.advances && !reveals,
            };
            self.recovery
                .reduce(delivery, &mut self.sender, &self.terms);
        }
    }

    /// Finds segments that were sent long before others which have arrived (RFC 8985, 6.2, step 5).
    /// Returns whether it found a new loss.
    pub fn find_lost(&mut self, context: &mut Context<'_>) -> bool {
        // If everything arrived in order, nothing was sent after a missing segment.
        let is_in_order = self.recovery.board.is_empty() && !self.recovery.is_on();
        let is_timed_out = matches!(self.recovery.phase(), Phase::Loss { .. });
        if is_in_order || is_timed_out || !self.sender.is_waiting() {
            self.timers.stop_reordering();
            return false;
        }
        let una = self.sender.una();
        let is_clear =
            self.recovery.is_fast() || self.recovery.board.first_lost(self.payload_mss());
        let srtt = self.sender.rto.srtt();
        let report = self.recovery.rack.lost(una, is_clear, srtt, context.now);
        let mut reveals = false;
        if let Some(end) = report.first {
            reveals = self.recovery.board.all_lost_below(una, end);
            if !self.recovery.is_on() {
                self.begin_fast_recovery(context);
            }
        }
        if let (Some(end), true) = (report.again, self.recovery.is_fast()) {
            self.recovery.retransmission_lost(una, end);
            reveals = true;
        }
        match report.ask_at {
            Some(at) => self.timers.watch_reordering(at),
            None => self.timers.stop_reordering(),
        }
        reveals
    }
}

/// Whether the first SACK range is a duplicate (D-SACK; RFC 2883, 4): it lies below the cumulative
/// `ack` or within the second range.
fn reports_duplicate(ranges: &[(u32, u32)], ack: u32) -> bool {
    match ranges {
        [(left, _), ..] if seq::lt(*left, ack) => true,
        [(left, right), (outer_left, outer_right), ..] => {
            seq::le(*outer_left, *left) && seq::le(*right, *outer_right)
        }
        _ => false,
    }
}

impl Tcb {
    /// Handles the reordering timer (RFC 8985, 6.2, step 5).
    pub fn reordering_is_over(&mut self, context: &mut Context<'_>) {
        let was_fast = self.recovery.is_fast();
        self.find_lost(context);
        if self.recovery.is_fast() && !was_fast {
            let nothing = Delivery {
                bytes: 0,
                is_safe: false,
            };
            self.recovery.reduce(nothing, &mut self.sender, &self.terms);
        }
    }
}
