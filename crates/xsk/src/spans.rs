//! Long buffers behind the frames of a packet memory, for contiguous data that does not fit a
//! frame, such as a datagram that was assembled from fragments.

use crate::mapping::Mapping;
use crate::packet::Frame;
use std::sync::Arc;

/// Least bytes of a span: the largest IP packet.
const LEAST_BYTES: u32 = 65_575;

/// The spans of a memory. The number of its first frame names a span. No device gets such a number.
#[derive(Debug)]
pub struct Spans {
    map: Arc<Mapping>,
    /// Number of the first frame of the first span.
    first: u32,
    /// Frames in a span.
    frames_each: u32,
    frame_bytes: u32,
    free: Vec<Frame>,
    /// Whether each span is free.
    is_free: Vec<bool>,
}

impl Spans {
    /// Number of frames in a span.
    pub(crate) fn frames_each(frame_bytes: u32) -> u32 {
        LEAST_BYTES.div_ceil(frame_bytes)
    }

    /// `count` spans from frame `first` on. The mapping contains them.
    pub(crate) fn new(map: Arc<Mapping>, first: u32, frame_bytes: u32, count: u32) -> Spans {
        let frames_each = Spans::frames_each(frame_bytes);
        let names = (0..count)
            .rev()
            .map(|index| Frame(first + index * frames_each));
        Spans {
            map,
            first,
            frames_each,
            frame_bytes,
            free: names.collect(),
            is_free: vec![true; count as usize],
        }
    }

    /// Copies the spans for another thread. `has_free`: the copy has the free list.
    pub(crate) fn part(&self, has_free: bool) -> Spans {
        Spans {
            map: self.map.clone(),
            free: if has_free {
                self.free.clone()
            } else {
                Vec::new()
            },
            is_free: self.is_free.clone(),
            ..*self
        }
    }

    /// Copies `bytes` into a free span. `None` if none is free, or they do not fit. Never
    /// allocates.
    pub fn store(&mut self, bytes: &[u8]) -> Option<Frame> {
        if bytes.len() > self.span_bytes() {
            return None;
        }
        let span = self.take()?;
        let offset = self.offset(span);
        // SAFETY: the span lies inside the mapping (`new`), `bytes` fits it (checked above), and it
        // is of no other use: it was free, and the frames of the memory end before `first`. `bytes`
        // is no part of it, then. Who maps the file for reading finds any bytes valid.
        unsafe {
            let into = self.map.base().as_ptr().add(offset);
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), into, bytes.len());
        }
        Some(span)
    }

    /// Frees a span. Returns false if it was free already or does not exist. Never allocates.
    pub(crate) fn give(&mut self, span: Frame) -> bool {
        let place = self
            .index(span)
            .and_then(|index| self.is_free.get_mut(index));
        match place {
            Some(free) if !*free => {
                *free = true;
                self.free.push(span);
                true
            }
            _ => false,
        }
    }

    /// Takes a free span, to be written through the memory. Never allocates.
    pub(crate) fn take(&mut self) -> Option<Frame> {
        let span = self.free.pop()?;
        let index = self.index(span)?;
        *self.is_free.get_mut(index)? = false;
        Some(span)
    }

    /// Offset and length of a span in the mapping; `None` if it does not exist.
    pub(crate) fn range(&self, span: Frame) -> Option<(usize, usize)> {
        self.index(span)?;
        Some((self.offset(span), self.span_bytes()))
    }

    /// Whether a span is in use.
    pub(crate) fn is_taken(&self, span: Frame) -> bool {
        let free = self.index(span).and_then(|index| self.is_free.get(index));
        free.is_some_and(|free| !free)
    }

    /// Number of spans, free or not.
    pub(crate) fn count(&self) -> u32 {
        self.is_free.len() as u32
    }

    /// Number of free spans.
    pub fn available(&self) -> u32 {
        self.free.len() as u32
    }

    fn span_bytes(&self) -> usize {
        self.frames_each as usize * self.frame_bytes as usize
    }

    fn offset(&self, span: Frame) -> usize {
        span.0 as usize * self.frame_bytes as usize
    }

    /// Index of the span with this name.
    fn index(&self, span: Frame) -> Option<usize> {
        let behind = span.0.checked_sub(self.first)?;
        let index = (behind / self.frames_each) as usize;
        (behind % self.frames_each == 0 && index < self.is_free.len()).then_some(index)
    }
}

#[cfg(test)]
mod tests {
    use crate::memory::Memory;
    use crate::packet::{Frame, Packet};

    /// Promise 51.
    #[test]
    fn a_span_fits_what_no_frame_does_and_frees_once() {
        for frame_bytes in [2048, 4096] {
            let mut memory = Memory::with_spans(4, frame_bytes, 2).expect("memory");
            let long: Vec<u8> = (0..65_575_u32).map(|n| n as u8).collect();
            let first = memory.spans_mut().store(&long).expect("a span");
            let second = memory.spans_mut().store(&long[1..]).expect("a span");
            assert_eq!(memory.spans_mut().store(&[1]), None, "both are taken");
            assert_eq!(memory.available(), 4, "no frame was");
            assert!(first.0 >= 4 && second.0 > first.0);
            assert!(second.0 < memory.numbers());
            assert_eq!(memory.bytes(first)[..long.len()], long);
            assert_eq!(memory.bytes(second)[..long.len() - 1], long[1..]);
            assert!(memory.bytes(Frame(first.0 + 1)).is_empty(), "within a span");
            memory.bytes_mut(first)[65_000] ^= 1;
            assert_eq!(memory.bytes(first)[65_000], long[65_000] ^ 1);
            assert!(memory.give(first) && !memory.give(first));
            assert!(!memory.give(Frame(first.0 + 1)) && !memory.give(Frame(u32::MAX)));
            assert_eq!(memory.spans_mut().store(&[7; 9]), Some(first));
            assert_eq!(
                memory.bytes(second)[..9],
                long[1..10],
                "the other is as it was"
            );
        }
    }

    /// Promise 51.
    #[test]
    fn no_copy_reads_beyond_the_end_of_a_span() {
        let mut memory = Memory::with_spans(2, 2048, 1).expect("memory");
        let long: Vec<u8> = (0..5000_u32).map(|n| (n * 3) as u8).collect();
        let span = memory.spans_mut().store(&long).expect("a span");
        let frame = memory.take().expect("a frame");
        assert!(memory.copy((span, 1480), (frame, 34), 1480));
        assert_eq!(memory.bytes(frame)[34..34 + 1480], long[1480..2960]);
        let end = memory.bytes(span).len();
        assert!(memory.copy((span, end - 10), (frame, 0), 10));
        assert!(!memory.copy((span, end - 10), (frame, 0), 11));
        assert!(memory.copy((frame, 34), (span, 60_000), 1480));
        assert_eq!(memory.bytes(span)[60_000..61_480], long[1480..2960]);
        assert!(!memory.copy((frame, 0), (span, end - 10), 11));
        let packet = Packet {
            frame: span,
            start: 1,
            len: 3,
        };
        assert_eq!(memory.packet(packet), &long[1..4]);
    }

    /// Promise 51.
    #[test]
    fn what_is_stored_takes_a_frame_when_it_fits_one() {
        let mut memory = Memory::with_spans(1, 2048, 1).expect("memory");
        assert_eq!(memory.store(&[1; 2048]), Some(Frame(0)));
        assert_eq!(
            memory.store(&[1; 2048]),
            None,
            "a span is not for what fits a frame"
        );
        assert_eq!(memory.store(&[2; 2049]), Some(Frame(1)));
        assert_eq!(memory.store(&[2; 2049]), None);
        let mut without = Memory::new(1, 2048).expect("memory");
        assert_eq!(without.store(&[2; 2049]), None);
    }

    /// Promise 51.
    #[test]
    fn packet_and_spans_can_be_had_at_the_same_time() {
        let mut memory = Memory::with_spans(1, 2048, 1).expect("memory");
        let frame = memory.take().expect("a frame");
        memory.bytes_mut(frame)[..3].copy_from_slice(b"abc");
        let packet = Packet {
            frame,
            start: 0,
            len: 3,
        };
        let (bytes, spans) = memory.packet_and_spans(packet);
        let span = spans.store(&[bytes, bytes].concat()).expect("a span");
        assert_eq!(bytes, b"abc");
        // A packet may lie in a span that is in use.
        let packet = Packet {
            frame: span,
            start: 2,
            len: 3,
        };
        let (bytes, spans) = memory.packet_and_spans(packet);
        assert_eq!((bytes, spans.available()), (&b"cab"[..], 0));
        assert!(memory.give(span));
        assert!(memory.packet_and_spans(packet).0.is_empty());
    }
}
