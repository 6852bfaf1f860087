//! Table of the free pages of a range. Its size is fixed, so that it can describe the memory from
//! which everything else is allocated.

/// Bytes of a page.
pub(crate) const PAGE: usize = 4096;

/// Pages from `start` on, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
struct Span {
    start: usize,
    len: usize,
}

impl Span {
    fn end(self) -> usize {
        self.start + self.len
    }
}

/// The free spans of a range by address, at most `N`. All zero is a valid, empty table.
#[repr(C)]
pub(crate) struct Spans<const N: usize> {
    count: usize,
    /// Memory from here on was never taken.
    fresh: usize,
    free: [Span; N],
}

impl<const N: usize> Spans<N> {
    /// Frees all of `start..end`, which was never used.
    pub fn reset(&mut self, start: usize, end: usize) {
        self.count = 1;
        self.fresh = start;
        self.free[0] = Span {
            start,
            len: end - start,
        };
    }

    /// Takes `len` bytes at a multiple of `align`, both whole pages, at the lowest address that
    /// fits. Returns the address, and whether they were never taken before.
    pub fn take(&mut self, len: usize, align: usize) -> Option<(usize, bool)> {
        let align = align.max(PAGE);
        let (index, start) = (0..self.count).find_map(|index| {
            let span = self.free[index];
            let start = span.start.checked_next_multiple_of(align)?;
            (start.checked_add(len)? <= span.end()).then_some((index, start))
        })?;
        let span = self.free[index];
        let before = Span {
            start: span.start,
            len: start - span.start,
        };
        let after = Span {
            start: start + len,
            len: span.end() - start - len,
        };
        match (before.len > 0, after.len > 0) {
            (false, false) => self.remove(index),
            (true, false) => self.free[index] = before,
            (false, true) => self.free[index] = after,
            // No entry is left for the second half: the pages before the taken ones are lost.
            (true, true) if self.count == N => self.free[index] = after,
            (true, true) => {
                self.free[index] = before;
                self.insert(index + 1, after);
            }
        }
        let is_fresh = start >= self.fresh;
        self.fresh = self.fresh.max(start + len);
        Some((start, is_fresh))
    }

    /// Frees bytes that [`Spans::take`] returned. Adjacent spans become one.
    pub fn give(&mut self, start: usize, len: usize) {
        let index = self.free[..self.count].partition_point(|span| span.start < start);
        let joins_before = index > 0 && self.free[index - 1].end() == start;
        let joins_after = index < self.count && self.free[index].start == start + len;
        match (joins_before, joins_after) {
            (true, true) => {
                self.free[index - 1].len += len + self.free[index].len;
                self.remove(index);
            }
            (true, false) => self.free[index - 1].len += len,
            (false, true) => {
                self.free[index].start = start;
                self.free[index].len += len;
            }
            // A full table loses the pages: it describes as many holes as it has entries.
            (false, false) if self.count == N => {}
            (false, false) => self.insert(index, Span { start, len }),
        }
    }

    fn remove(&mut self, index: usize) {
        self.free.copy_within(index + 1..self.count, index);
        self.count -= 1;
    }

    fn insert(&mut self, index: usize, span: Span) {
        self.free.copy_within(index..self.count, index + 1);
        self.free[index] = span;
        self.count += 1;
    }

    #[cfg(test)]
    fn free_bytes(&self) -> usize {
        self.free[..self.count].iter().map(|span| span.len).sum()
    }
}

#[cfg(test)]
impl<const N: usize> Default for Spans<N> {
    fn default() -> Spans<N> {
        Spans {
            count: 0,
            fresh: 0,
            free: [Span::default(); N],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_given_back_becomes_one_span_again() {
        let mut spans = Spans::<16>::default();
        spans.reset(PAGE, 101 * PAGE);
        let taken: Vec<_> = (0..10).filter_map(|_| spans.take(3 * PAGE, 0)).collect();
        assert!(taken.iter().all(|(_, fresh)| *fresh));
        for (start, _) in taken
            .iter()
            .step_by(2)
            .chain(taken.iter().skip(1).step_by(2))
        {
            spans.give(*start, 3 * PAGE);
        }
        assert_eq!((spans.count, spans.free_bytes()), (1, 100 * PAGE));
        assert_eq!(spans.take(PAGE, 0), Some((PAGE, false)), "used before");
        assert_eq!(spans.take(100 * PAGE, 0), None, "more than there is");
    }

    /// Promise 69.
    #[test]
    fn no_order_of_takes_and_gives_loses_a_page() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..50 {
            let mut spans = Spans::<512>::default();
            spans.reset(0x10_0000, 0x10_0000 + 1000 * PAGE);
            let mut taken: Vec<(usize, usize)> = Vec::new();
            for _ in 0..2000 {
                if random.bool() || taken.is_empty() {
                    let len = random.usize(1..20) * PAGE;
                    let align = PAGE << random.u32(0..4);
                    if let Some((start, _)) = spans.take(len, align) {
                        assert!(start.is_multiple_of(align));
                        assert!((0x10_0000..=0x10_0000 + 1000 * PAGE - len).contains(&start));
                        let is_apart =
                            |(at, own): &(usize, usize)| start + len <= *at || at + own <= start;
                        assert!(taken.iter().all(is_apart));
                        taken.push((start, len));
                    }
                } else {
                    let (start, len) = taken.swap_remove(random.usize(0..taken.len()));
                    spans.give(start, len);
                }
                let used: usize = taken.iter().map(|(_, len)| len).sum();
                assert_eq!(used + spans.free_bytes(), 1000 * PAGE);
            }
        }
    }

    #[test]
    fn a_full_table_loses_holes_and_gives_nothing_out_twice() {
        let mut spans = Spans::<4>::default();
        spans.reset(0, 64 * PAGE);
        let taken: Vec<_> = (0..20).filter_map(|_| spans.take(PAGE, 0)).collect();
        taken
            .iter()
            .step_by(2)
            .for_each(|(start, _)| spans.give(*start, PAGE));
        let again: Vec<_> = std::iter::from_fn(|| spans.take(PAGE, 0)).collect();
        let in_use: Vec<usize> = taken
            .iter()
            .skip(1)
            .step_by(2)
            .map(|(start, _)| *start)
            .collect();
        assert!(again.iter().all(|(start, _)| !in_use.contains(start)));
    }
}
