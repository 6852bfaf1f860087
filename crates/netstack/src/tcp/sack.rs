//! Selective acknowledgements: the data that the receiver reports (RFC 2018), and what follows from
//! it (RFC 6675): bytes in flight, lost data, data to retransmit.

use super::seq;
use crate::tuning::loss::SACK_RANGES;
use crate::wire::tcp::MAX_SACK;

/// Segments above a hole that make it count as lost (RFC 6675, 2).
pub const DUP_THRESH: u32 = 3;

/// Ranges that the receiver has reported: sorted, with gaps between them.
#[derive(Debug, Clone, Copy, Default)]
pub struct Scoreboard {
    ranges: [(u32, u32); SACK_RANGES],
    count: u8,
    /// Everything missing below this number is lost: it was sent long before data that has arrived.
    late: Option<u32>,
    /// The path reorders segments: the number of segments above a hole proves no loss.
    by_time_only: bool,
}

impl Scoreboard {
    /// Reported ranges.
    pub fn ranges(&self) -> &[(u32, u32)] {
        &self.ranges[..usize::from(self.count)]
    }

    /// Whether nothing is reported and nothing counts as lost.
    pub const fn is_empty(&self) -> bool {
        self.count == 0 && self.late.is_none()
    }

    pub fn clear(&mut self) {
        (self.count, self.late) = (0, None);
    }

    /// Marks everything missing from `una` to `end` as lost: it was sent long before data that has
    /// arrived. Returns whether a part of it did not count as lost before.
    pub fn all_lost_below(&mut self, una: u32, end: u32) -> bool {
        let start = self.late.map_or(una, |late| seq::max(una, late));
        if seq::le(end, start) {
            return false;
        }
        self.late = Some(end);
        self.missing_between(start, end) > 0
    }

    /// Ignores the number of segments above a hole from now on (RFC 8985, 6.2, step 3).
    pub fn ignore_segment_count(&mut self) {
        self.by_time_only = true;
    }

    /// Number of bytes that the receiver has reported.
    pub fn bytes(&self) -> u32 {
        let len = |(left, right): &(u32, u32)| right.wrapping_sub(*left);
        self.ranges().iter().map(len).sum()
    }

    /// End of the highest range.
    pub fn highest(&self) -> Option<u32> {
        self.ranges().last().map(|range| range.1)
    }

    /// End of the last missing byte of `from..to`.
    pub fn last_missing(&self, from: u32, to: u32) -> Option<u32> {
        let mut at = to;
        for &(left, right) in self.ranges().iter().rev() {
            if seq::lt(left, at) && seq::le(at, right) {
                at = left;
            }
        }
        seq::lt(from, at).then_some(at)
    }

    /// Adds the ranges of an acknowledgement of `una`; `sent` is the end of all sent data. Ignores
    /// ranges that are no part of the data in flight (RFC 2018, 8; the first may report a
    /// duplicate, RFC 2883). Returns whether a range was new.
    pub fn update(&mut self, una: u32, sent: u32, ranges: &[(u32, u32)]) -> bool {
        self.advance(una);
        let mut has_news = false;
        for &(left, right) in ranges.iter().take(MAX_SACK) {
            if seq::lt(left, right) && seq::lt(una, left) && seq::le(right, sent) {
                has_news |= self.add(left, right);
            }
        }
        has_news
    }

    /// Forgets everything below `una`.
    pub fn advance(&mut self, una: u32) {
        let mut count = 0;
        for at in 0..usize::from(self.count) {
            let (left, right) = self.ranges[at];
            if seq::lt(una, right) {
                self.ranges[count] = (seq::max(left, una), right);
                count += 1;
            }
        }
        self.count = count as u8;
        self.late = self.late.filter(|late| seq::lt(una, *late));
    }

    fn add(&mut self, left: u32, right: u32) -> bool {
        let ranges = self.ranges();
        let from = ranges
            .iter()
            .take_while(|range| seq::lt(range.1, left))
            .count();
        let to = ranges
            .iter()
            .take_while(|range| seq::le(range.0, right))
            .count();
        if from == to {
            if usize::from(self.count) == SACK_RANGES {
                if from == SACK_RANGES {
                    return false;
                }
                self.count -= 1;
            }
            self.ranges
                .copy_within(from..usize::from(self.count), from + 1);
            self.ranges[from] = (left, right);
            self.count += 1;
            return true;
        }
        let merged = (
            seq::min(left, ranges[from].0),
            seq::max(right, ranges[to - 1].1),
        );
        let has_news = to - from > 1 || ranges[from] != merged;
        self.ranges[from] = merged;
        self.ranges
            .copy_within(to..usize::from(self.count), from + 1);
        self.count -= (to - from - 1) as u8;
        has_news
    }

    /// End of the range that contains the byte at `at`, if the receiver has reported it.
    pub fn covered(&self, at: u32) -> Option<u32> {
        self.ranges()
            .iter()
            .find(|(left, right)| seq::le(*left, at) && seq::lt(at, *right))
            .map(|range| range.1)
    }

    /// Start of the next range after `at`.
    pub fn next_range(&self, at: u32) -> Option<u32> {
        self.ranges()
            .iter()
            .map(|range| range.0)
            .find(|left| seq::lt(at, *left))
    }

    /// Whether the data directly below range `above` is lost (RFC 6675, 4, IsLost): there are three
    /// ranges or more than two segments' bytes above it, or it was sent too long ago.
    fn lost_below(&self, above: usize, mss: u32) -> bool {
        let higher = &self.ranges()[above..];
        let is_late = |late| higher.first().is_some_and(|(left, _)| seq::lt(*left, late));
        if self.late.is_some_and(is_late) {
            return true;
        }
        if self.by_time_only {
            return false;
        }
        higher.len() >= DUP_THRESH as usize
            || higher
                .iter()
                .map(|(left, right)| right.wrapping_sub(*left))
                .sum::<u32>()
                > (DUP_THRESH - 1) * mss
    }

    /// Bytes of `from..to` that the receiver has reported.
    pub fn bytes_between(&self, from: u32, to: u32) -> u32 {
        let part =
            |(left, right): &(u32, u32)| seq::distance(seq::max(*left, from), seq::min(*right, to));
        self.ranges().iter().map(part).sum()
    }

    /// Bytes of `from..to` that are missing.
    pub fn missing_between(&self, from: u32, to: u32) -> u32 {
        match seq::distance(from, to) {
            0 => 0,
            all => all - self.bytes_between(from, to),
        }
    }

    /// First missing part of `from..to`: its start and end.
    pub fn next_gap(&self, from: u32, to: u32) -> Option<(u32, u32)> {
        let start = self.covered(from).unwrap_or(from);
        let end = self.next_range(start).unwrap_or(to);
        seq::lt(start, to).then(|| (start, seq::min(end, to)))
    }

    /// Bytes from `from` on that are lost.
    pub fn lost(&self, from: u32, mss: u32) -> u32 {
        let (mut at, mut lost) = (from, 0);
        for (index, &(left, right)) in self.ranges().iter().enumerate() {
            if self.lost_below(index, mss) {
                lost += seq::distance(at, left);
            }
            at = seq::max(at, right);
        }
        lost + self.late_after(at)
    }

    /// Lost bytes above `at`, where no range is.
    fn late_after(&self, at: u32) -> u32 {
        self.late.map_or(0, |late| seq::distance(at, late))
    }

    /// Whether the byte at `una` is lost.
    pub fn first_lost(&self, mss: u32) -> bool {
        self.count > 0 && self.lost_below(0, mss)
    }

    /// Bytes in flight (RFC 6675, 4, SetPipe): neither reported nor lost, plus lost bytes that were
    /// retransmitted (below `retransmitted_end`).
    pub fn pipe(&self, una: u32, next: u32, retransmitted_end: u32, mss: u32) -> u32 {
        let mut pipe = 0;
        let mut at = una;
        for (index, &(left, right)) in self.ranges().iter().enumerate() {
            let hole = seq::distance(at, seq::min(left, next));
            if !self.lost_below(index, mss) {
                pipe += hole;
            }
            pipe += seq::distance(at, seq::min(left, retransmitted_end)).min(hole);
            at = seq::max(at, right);
        }
        // Data above all ranges counts as lost only because of its send time.
        let rest = seq::distance(at, next);
        let late_bytes = self.late_after(at).min(rest);
        pipe + rest - late_bytes + seq::distance(at, retransmitted_end).min(late_bytes)
    }

    /// First hole at or after `from` that is lost (RFC 6675, 4, NextSeg rule 1) or, if `any`, that
    /// has a range above it (rule 3): its start and end.
    pub fn next_hole(&self, from: u32, any: bool, mss: u32) -> Option<(u32, u32)> {
        let mut at = from;
        for (index, &(left, right)) in self.ranges().iter().enumerate() {
            if seq::lt(at, left) {
                return (any || self.lost_below(index, mss)).then_some((at, left));
            }
            at = seq::max(at, right);
        }
        let late = self.late.filter(|late| seq::lt(at, *late));
        late.map(|late| (at, late))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MSS: u32 = 100;

    fn board(una: u32, ranges: &[(u32, u32)]) -> Scoreboard {
        let mut board = Scoreboard::default();
        board.update(una, una.wrapping_add(1 << 20), ranges);
        board
    }

    #[test]
    fn ranges_outside_the_data_in_flight_are_ignored() {
        let mut board = Scoreboard::default();
        let hostile = [(50, 90), (300, 250), (90, 150), (900, 1001)];
        assert!(!board.update(100, 1000, &hostile) && board.is_empty());
        assert!(board.update(100, 1000, &[(200, 300)]) && !board.update(100, 1000, &[(200, 300)]));
    }

    /// RFC 6675, 4: three ranges or more than two segments above a hole make it lost.
    /// Promise 58.
    #[test]
    fn a_hole_is_lost_by_sacked_ranges_or_bytes() {
        assert!(!board(0, &[(100, 300)]).first_lost(MSS));
        assert!(board(0, &[(100, 301)]).first_lost(MSS));
        assert!(board(0, &[(100, 101), (110, 111), (120, 121)]).first_lost(MSS));
        let board = board(0, &[(100, 200), (300, 400), (500, 600)]);
        assert_eq!(board.next_hole(0, false, MSS), Some((0, 100)));
        assert_eq!(board.next_hole(100, false, MSS), None);
        assert_eq!(board.next_hole(100, true, MSS), Some((200, 300)));
        assert_eq!(board.next_hole(600, true, MSS), None);
    }

    /// RFC 6675, 4, SetPipe by hand: of 0..1000 the receiver has [100,400), and [0,100) is lost.
    /// Promise 58.
    #[test]
    fn pipe_counts_outstanding_and_retransmitted_bytes() {
        let board = board(0, &[(100, 400)]);
        assert_eq!(board.pipe(0, 1000, 0, MSS), 600);
        assert_eq!(board.pipe(0, 1000, 100, MSS), 700);
    }

    /// Promise 58.
    #[test]
    fn late_segments_above_all_ranges_count_as_lost() {
        let mut board = board(0, &[(100, 150)]);
        board.all_lost_below(0, 300);
        assert_eq!(board.next_hole(0, false, MSS), Some((0, 100)));
        assert_eq!(board.next_hole(100, false, MSS), Some((150, 300)));
        assert_eq!(board.next_hole(300, false, MSS), None);
        assert_eq!(board.lost(0, MSS), 250);
        assert_eq!(board.pipe(0, 500, 0, MSS), 200);
        assert_eq!(board.pipe(0, 500, 200, MSS), 350);
        board.advance(150);
        assert_eq!(board.next_hole(150, false, MSS), Some((150, 300)));
        board.advance(300);
        assert!(board.is_empty());
    }

    proptest! {
        /// Comparison with a plain set of bytes.
        /// Promise 58.
        #[test]
        fn the_scoreboard_agrees_with_a_set_of_bytes(
            start in any::<u32>(),
            updates in prop::collection::vec(
                (0u32..400, prop::collection::vec((0u32..400, 1u32..40), 1..4)),
                1..40,
            ),
        ) {
            let mut board = Scoreboard::default();
            let mut set = std::collections::BTreeSet::new();
            let mut una = 0u32;
            for (ack, ranges) in updates {
                una = una.max(ack.min(una + 20));
                let ranges: Vec<_> = ranges.iter()
                    .map(|(at, len)| (start.wrapping_add(*at), start.wrapping_add(at + len)))
                    .collect();
                board.update(start.wrapping_add(una), start.wrapping_add(440), &ranges);
                for (left, right) in ranges {
                    let (left, right) = (left.wrapping_sub(start), right.wrapping_sub(start));
                    if left > una && right <= 440 {
                        set.extend(left..right);
                    }
                }
                set = set.split_off(&una);
                let had: std::collections::BTreeSet<u32> = board.ranges().iter()
                    .flat_map(|(l, r)| l.wrapping_sub(start)..r.wrapping_sub(start)).collect();
                // The board may forget the highest of more than 16 ranges, but it must invent none.
                prop_assert!(had.is_subset(&set));
                if board.ranges().len() < SACK_RANGES {
                    prop_assert!(set.is_subset(&had) || had.len() < set.len());
                }
                prop_assert!(board.ranges().windows(2).all(|w| seq::lt(w[0].1, w[1].0)));
            }
        }
    }
}
