//! Send times of the data in flight: a few entries, each a range of sequence numbers with its time.
//! Segments that are sent in the same turn of the caller's loop share an entry.

use super::seq;
use crate::api::Time;
use crate::tuning::loss::SEND_TIMES;

/// Compact moment. It wraps after 73 minutes; data is in flight for less.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tick(u32);

/// Binary logarithm of a tick's 1,024 ns: a shift instead of a division for each segment.
const TICK_SHIFT: u32 = 10;

impl Tick {
    #[inline]
    pub fn of(now: Time) -> Self {
        Self((now.as_nanos() >> TICK_SHIFT) as u32)
    }

    /// Ticks from `earlier` to this moment.
    pub const fn since(self, earlier: Self) -> u32 {
        self.0.wrapping_sub(earlier.0)
    }

    /// The moment that is `ticks` earlier.
    pub const fn before(self, ticks: u32) -> Self {
        Self(self.0.wrapping_sub(ticks))
    }

    /// Whether this moment is later than `other`.
    pub fn is_after(self, other: Self) -> bool {
        seq::lt(other.0, self.0)
    }
}

/// Duration of `ticks`.
pub const fn duration(ticks: u32) -> std::time::Duration {
    std::time::Duration::from_nanos((ticks as u64) << TICK_SHIFT)
}

/// Send time of the data up to `end` that no earlier entry covers.
#[derive(Debug, Clone, Copy, Default)]
struct Entry {
    end: u32,
    at: Tick,
}

/// Send times of ascending sequence numbers.
#[derive(Debug, Clone, Copy, Default)]
pub struct SentLog {
    entries: [Entry; SEND_TIMES],
    first: u8,
    count: u8,
}

impl SentLog {
    const fn index_of(&self, index: usize) -> usize {
        (self.first as usize + index) % SEND_TIMES
    }

    fn entry(&self, index: usize) -> &Entry {
        &self.entries[self.index_of(index)]
    }

    fn iter(&self) -> impl Iterator<Item = &Entry> {
        (0..usize::from(self.count)).map(|index| self.entry(index))
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.count = 0;
    }

    /// Records that everything up to `end` was sent by `at`.
    #[inline]
    pub fn sent(&mut self, end: u32, at: Tick) {
        if self.count > 0 {
            let last = self.index_of(usize::from(self.count) - 1);
            if self.entries[last].at == at {
                self.entries[last].end = end;
                return;
            }
        }
        if usize::from(self.count) == SEND_TIMES {
            self.halve();
        }
        let slot = self.index_of(usize::from(self.count));
        self.entries[slot] = Entry { end, at };
        self.count += 1;
    }

    /// Records that `start..end` was retransmitted at `at`. The entries below and above keep their
    /// times.
    pub fn retransmitted(&mut self, start: u32, end: u32, at: Tick) {
        if usize::from(self.count) == SEND_TIMES {
            self.halve();
        }
        let count = usize::from(self.count);
        let before = (0..count).take_while(|index| seq::le(self.entry(*index).end, start));
        let mut from = before.count();
        let within = (from..count).take_while(|index| seq::le(self.entry(*index).end, end));
        let to = from + within.count();
        if from > 0 && self.entry(from - 1).at == at {
            from -= 1;
        }
        // The entries from..to are merged into one.
        if from == to {
            for index in (to..count).rev() {
                self.entries[self.index_of(index + 1)] = *self.entry(index);
            }
        } else {
            for index in to..count {
                self.entries[self.index_of(from + 1 + index - to)] = *self.entry(index);
            }
        }
        let slot = self.index_of(from);
        self.entries[slot] = Entry { end, at };
        self.count = (count + from + 1 - to) as u8;
    }

    /// The longest prefix of the data in flight whose send times all satisfy `is_late`: its end and
    /// its last send time.
    pub fn late_front(&self, is_late: impl Fn(Tick) -> bool) -> Option<(u32, Tick)> {
        self.iter()
            .take_while(|entry| is_late(entry.at))
            .last()
            .map(|entry| (entry.end, entry.at))
    }

    /// Makes space: of each two neighbouring entries the later time counts for both, so that no
    /// data appears to be sent earlier than it was.
    fn halve(&mut self) {
        for index in 0..SEND_TIMES / 2 {
            let (first, second) = (*self.entry(2 * index), *self.entry(2 * index + 1));
            let later = if first.at.is_after(second.at) {
                first.at
            } else {
                second.at
            };
            self.entries[self.index_of(index)] = Entry {
                end: second.end,
                at: later,
            };
        }
        self.count = (SEND_TIMES / 2) as u8;
    }

    /// Forgets everything below `una`.
    #[inline]
    pub fn advance(&mut self, una: u32) {
        while self.count > 0 && seq::le(self.entry(0).end, una) {
            self.first = self.index_of(1) as u8;
            self.count -= 1;
        }
    }

    /// Send time of the byte at `at`.
    pub fn time_of(&self, at: u32) -> Option<Tick> {
        self.iter()
            .find(|entry| seq::lt(at, entry.end))
            .map(|entry| entry.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise 58.
    #[test]
    fn a_full_log_never_reports_too_early_a_time() {
        let mut log = SentLog::default();
        let start = u32::MAX - 500;
        for n in 0..100 {
            log.sent(start.wrapping_add(10 * (n + 1)), Tick(n));
            for byte in 0..=n {
                let at = log.time_of(start.wrapping_add(10 * byte + 5));
                assert!(
                    at.is_some_and(|at| byte <= at.0 && at.0 <= n),
                    "{byte} of {n}: {at:?}"
                );
            }
            assert_eq!(log.time_of(start.wrapping_add(10 * (n + 1))), None);
        }
        log.advance(start.wrapping_add(900));
        assert!(
            log.time_of(start.wrapping_add(901))
                .is_some_and(|at| at.0 >= 90)
        );
        log.advance(start.wrapping_add(1000));
        assert_eq!(log.count, 0);
    }

    /// Comparison with a time for each byte: the log is never earlier, and exact until it is full.
    /// Promise 58.
    #[test]
    fn a_retransmission_has_its_own_time() {
        let mut log = SentLog::default();
        let mut times = [Tick(0); 100];
        for (at, (start, end)) in [
            (0, 40),
            (40, 60),
            (60, 100),
            (0, 10),
            (10, 20),
            (20, 60),
            (0, 5),
        ]
        .into_iter()
        .enumerate()
        {
            log.retransmitted(start, end, Tick(at as u32 + 1));
            times[start as usize..end as usize].fill(Tick(at as u32 + 1));
            for byte in 0..end {
                assert_eq!(
                    log.time_of(byte),
                    Some(times[byte as usize]),
                    "{byte}: {log:?}"
                );
            }
        }
        assert_eq!(log.late_front(|at| at.0 > 6), Some((5, Tick(7))));
        assert_eq!(log.late_front(|at| at.0 < 7), None);
        for round in 0..50 {
            log.retransmitted(round, round + 1, Tick(100 + round));
            assert!(log.time_of(round).is_some_and(|at| at.0 >= 100 + round));
        }
    }
}
