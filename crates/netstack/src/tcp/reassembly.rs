//! Received data: sorted (RFC 9293, 3.10.7.4, seventh) and buffered until the application takes it.

use super::context::Context;
use super::seq;
use crate::api::Chunk;
use crate::core::NONE;
use crate::core::chunks::{Chunks, List, Node};
use crate::wire::tcp::MAX_SACK;

/// Ranges of received data, which occupy received buffers.
#[derive(Debug, Clone, Copy, Default)]
pub struct Reassembly {
    /// Data in order that waits for the application.
    ready: List,
    /// Data out of order: sorted ranges without overlap.
    out_of_order: List,
    out_of_order_count: u16,
    /// Positions of the latest segments that arrived out of order, at most one in each gapless
    /// range. The range of the latest is first.
    recent: [u32; MAX_SACK],
    recent_count: u8,
}

/// Result of adding data out of order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Insertion {
    /// The data was added; the range is the part that was already present.
    Stored(Option<(u32, u32)>),
    /// All of the data was already present.
    Duplicate,
    NoRoom,
}

/// Extends the duplicate to report (RFC 2883, 4) by a range that arrived twice. A range
/// that does not touch it stays unreported.
pub fn add_duplicate(duplicate: &mut Option<(u32, u32)>, (left, right): (u32, u32)) {
    match duplicate {
        None => *duplicate = Some((left, right)),
        Some((first, last)) if seq::le(left, *last) && seq::le(*first, right) => {
            if seq::lt(left, *first) {
                *first = left;
            }
            if seq::lt(*last, right) {
                *last = right;
            }
        }
        Some(_) => {}
    }
}

impl Reassembly {
    /// Whether data waits for the application.
    pub const fn is_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// First sequence number that waits for the application.
    pub fn first_ready(&self, chunks: &Chunks) -> Option<u32> {
        chunks.front(&self.ready).map(|node| node.seq)
    }

    /// Whether no data is out of order.
    pub const fn has_no_gap(&self) -> bool {
        self.out_of_order.is_empty()
    }

    /// Removes the first range that waits for the application.
    pub fn take(&mut self, chunks: &mut Chunks) -> Option<Node> {
        chunks.take_stored(&mut self.ready)
    }

    /// Resolves overlaps of new data at `next` with buffered data: releases buffered ranges that it
    /// covers, and cuts it where a range extends beyond it. Returns the range that arrived twice.
    pub fn resolve_overlap(
        &mut self,
        data: &mut Chunk,
        next: u32,
        context: &mut Context<'_>,
    ) -> Option<(u32, u32)> {
        let mut twice = None;
        let end = next.wrapping_add(data.len);
        while let Some(first) = context.chunks.front(&self.out_of_order).copied() {
            let first_end = first.seq.wrapping_add(first.chunk.len);
            if !seq::lt(first.seq, end) {
                break;
            }
            if seq::lt(end, first_end) {
                add_duplicate(&mut twice, (first.seq, end));
                data.len = first.seq.wrapping_sub(next);
                break;
            }
            add_duplicate(&mut twice, (first.seq, first_end));
            context
                .chunks
                .shift(&mut self.out_of_order, NONE, context.released);
            self.out_of_order_count -= 1;
        }
        twice
    }

    /// Appends data in order, which begins at `next`. Returns `false` if there is no free range.
    pub fn append(&mut self, data: Chunk, next: u32, context: &mut Context<'_>) -> bool {
        // The next segment takes precedence over data out of order.
        if context.chunks.free() == 0 {
            self.drop_last(context);
        }
        context.chunks.store_last(&mut self.ready, data, next)
    }

    /// Moves the first range that is out of order to the data in order if it begins at `next`.
    /// Returns its length in bytes.
    pub fn advance(&mut self, next: u32, chunks: &mut Chunks) -> Option<u32> {
        chunks
            .front(&self.out_of_order)
            .filter(|first| first.seq == next)?;
        let node = chunks.shift(&mut self.out_of_order, NONE, &mut self.ready)?;
        self.out_of_order_count -= 1;
        Some(node.chunk.len)
    }

    /// Inserts data out of order that begins at `start`. There may be `most` such ranges.
    pub fn insert(
        &mut self,
        mut start: u32,
        mut data: Chunk,
        most: u16,
        context: &mut Context<'_>,
    ) -> Insertion {
        let end = start.wrapping_add(data.len);
        let mut duplicate = None;
        let mut previous = NONE;
        let mut at = self.out_of_order.head;
        while at != NONE && seq::le(context.chunks.node(at).seq, start) {
            previous = at;
            at = context.chunks.node(at).next;
        }
        if previous != NONE {
            let node = context.chunks.node(previous);
            let node_end = node.seq.wrapping_add(node.chunk.len);
            if seq::le(end, node_end) {
                self.note(start, context.chunks);
                return Insertion::Duplicate;
            }
            let overlap = seq::distance(start, node_end);
            if overlap > 0 {
                add_duplicate(&mut duplicate, (start, node_end));
            }
            start = start.wrapping_add(overlap);
            data.offset += overlap;
            data.len -= overlap;
        }
        // A range that the new data covers is released; one that extends beyond it stays.
        while at != NONE {
            let node = *context.chunks.node(at);
            if seq::lt(end, node.seq.wrapping_add(node.chunk.len)) {
                if seq::lt(node.seq, end) {
                    add_duplicate(&mut duplicate, (node.seq, end));
                    data.len -= end.wrapping_sub(node.seq);
                }
                break;
            }
            add_duplicate(
                &mut duplicate,
                (node.seq, node.seq.wrapping_add(node.chunk.len)),
            );
            context
                .chunks
                .shift(&mut self.out_of_order, previous, context.released);
            self.out_of_order_count -= 1;
            at = node.next;
        }
        if self.out_of_order_count >= most
            || !context
                .chunks
                .store(&mut self.out_of_order, previous, data, start)
        {
            return Insertion::NoRoom;
        }
        self.out_of_order_count += 1;
        self.note(start, context.chunks);
        Insertion::Stored(duplicate)
    }

    /// Releases the highest range that is out of order. A range is free once the caller has
    /// processed the release; the peer retransmits both.
    fn drop_last(&mut self, context: &mut Context<'_>) {
        let mut previous = NONE;
        let mut at = self.out_of_order.head;
        while at != NONE && context.chunks.node(at).next != NONE {
            previous = at;
            at = context.chunks.node(at).next;
        }
        if context
            .chunks
            .shift(&mut self.out_of_order, previous, context.released)
            .is_some()
        {
            self.out_of_order_count -= 1;
        }
    }

    /// The gapless range that contains the byte at `wanted`.
    fn range_around(&self, wanted: u32, chunks: &Chunks) -> Option<(u32, u32)> {
        let mut at = self.out_of_order.head;
        while at != NONE {
            let (left, right);
            ((left, right), at) = gapless(at, chunks);
            if seq::lt(wanted, right) {
                return seq::le(left, wanted).then_some((left, right));
            }
        }
        None
    }

    /// Moves the range of a segment that arrived out of order at `start` to the front of the
    /// report.
    fn note(&mut self, start: u32, chunks: &Chunks) {
        let Some((left, right)) = self.range_around(start, chunks) else {
            return;
        };
        let mut recent = [start; MAX_SACK];
        let mut count = 1;
        for &at in &self.recent[..usize::from(self.recent_count)] {
            let is_same = seq::le(left, at) && seq::lt(at, right);
            if !is_same && count < MAX_SACK {
                recent[count] = at;
                count += 1;
            }
        }
        (self.recent, self.recent_count) = (recent, count as u8);
    }

    /// Reports the ranges for SACK: that of the latest segment, then those of earlier segments (RFC
    /// 2018, 4), then all ranges in ascending order. A range may be reported twice.
    pub fn report(&self, chunks: &Chunks, mut add: impl FnMut((u32, u32))) {
        for &at in &self.recent[..usize::from(self.recent_count)] {
            if let Some(range) = self.range_around(at, chunks) {
                add(range);
            }
        }
        let mut at = self.out_of_order.head;
        while at != NONE {
            let range;
            (range, at) = gapless(at, chunks);
            add(range);
        }
    }

    /// Releases the data that is out of order.
    pub fn release_out_of_order(&mut self, context: &mut Context<'_>) {
        context
            .chunks
            .append(&mut self.out_of_order, context.released);
        self.out_of_order_count = 0;
    }

    /// Releases the data that waits for the application.
    pub fn release_ready(&mut self, context: &mut Context<'_>) {
        context.chunks.append(&mut self.ready, context.released);
    }
}

/// Move to another stack.
impl Reassembly {
    /// Lists of the ranges in order and out of order.
    pub fn lists(&mut self) -> [&mut List; 2] {
        [&mut self.ready, &mut self.out_of_order]
    }

    /// Drops the lists without freeing their ranges, which have moved to another stack.
    pub fn forget(&mut self) {
        *self = Self::default();
    }
}

/// The gapless range that begins with the node `at`, and the node behind it.
fn gapless(at: u32, chunks: &Chunks) -> ((u32, u32), u32) {
    let first = chunks.node(at);
    let (left, mut right) = (first.seq, first.seq.wrapping_add(first.chunk.len));
    let mut next = first.next;
    while next != NONE && chunks.node(next).seq == right {
        let node = chunks.node(next);
        (right, next) = (right.wrapping_add(node.chunk.len), node.next);
    }
    ((left, right), next)
}
