//! Consecutive segments of one connection as one large packet, which the device or the kernel cuts
//! again. The payload is not copied here, but from the application's memory into the kernel's
//! buffer.
//!
//! A segment waits for the next one only while the packets of a turn are built.

use super::Engine;
use super::buffers::{buffer_owner, buffer_place};
use crate::tuning::turns::LEAST_TRAIN_SEGMENT_BYTES;
use cofferdam_netstack::{Chunk, Payload, Train, Transmit};
use cofferdam_xsk::{Frame, Large, Port};

/// Segments that wait for the next one.
pub(super) struct Trains {
    waiting: Option<WaitingTrain>,
    /// Places of their payload. They are read only in the turn in which they were written.
    parts: Vec<libc::iovec>,
}

// SAFETY: only the thread that has written the pointers in `parts` follows them, in the same turn;
// `parts` is cleared before any is written.
unsafe impl Send for Trains {}

struct WaitingTrain {
    /// Headers of the first segment, and room for its payload.
    frame: Frame,
    first: Transmit,
    train: Train,
}

impl Trains {
    /// Trains of up to `most_parts` ranges.
    pub fn new(most_parts: usize) -> Trains {
        Trains {
            waiting: None,
            parts: Vec::with_capacity(most_parts),
        }
    }

    /// Adds a range. Returns false if there is no room.
    fn push(&mut self, from: *const u8, len: usize) -> bool {
        let base = from.cast_mut().cast::<libc::c_void>();
        if let Some(last) = self.parts.last_mut()
            && std::ptr::eq(last.iov_base.wrapping_byte_add(last.iov_len), base)
        {
            last.iov_len += len;
            return true;
        }
        let has_room = self.parts.len() < self.parts.capacity();
        if has_room {
            self.parts.push(libc::iovec {
                iov_base: base,
                iov_len: len,
            });
        }
        has_room
    }
}

impl<P: Port> Engine<P> {
    /// Appends a segment, whose headers are in `frame`, to the waiting ones. Returns false, and
    /// changes nothing, if it does not follow them.
    pub(super) fn join(&mut self, frame: Frame, segment: &Transmit) -> bool {
        let Some(mut waiting) = self.trains.waiting.take() else {
            return false;
        };
        // A failed append may have added a range, or extended the last one. Both are then removed.
        let (ranges, last) = (self.trains.parts.len(), self.trains.parts.last().copied());
        let mut train = waiting.train;
        let joins = train.append(self.memory.bytes(frame), segment) && self.note(&segment.payload);
        if joins {
            waiting.train = train;
        } else {
            self.trains.parts.truncate(ranges);
            if let (Some(place), Some(before)) = (self.trains.parts.last_mut(), last) {
                *place = before;
            }
        }
        self.trains.waiting = Some(waiting);
        joins
    }

    /// Makes a segment wait for the next one. No segment may wait already. Returns false, and
    /// changes nothing, if the next one cannot be appended to it.
    pub(super) fn wait(&mut self, frame: Frame, segment: &Transmit) -> bool {
        if segment.payload.len() < LEAST_TRAIN_SEGMENT_BYTES {
            return false;
        }
        let Some(train) = Train::begin(self.memory.bytes(frame), segment) else {
            return false;
        };
        self.trains.parts.clear();
        let waits = self.note(&segment.payload);
        if waits {
            self.trains.waiting = Some(WaitingTrain {
                frame,
                first: *segment,
                train,
            });
        }
        waits
    }

    /// Sends the waiting segments. Returns the number of packets.
    pub(super) fn send_waiting(&mut self) -> usize {
        let Some(mut waiting) = self.trains.waiting.take() else {
            return 0;
        };
        let interface = waiting.first.interface;
        let fits = waiting.first.len() <= self.memory.frame_bytes() as usize;
        if waiting.train.segments() == 1 && fits {
            let packet = self.assemble(waiting.frame, &waiting.first);
            if self.link.try_send(&mut self.memory, interface, packet) {
                return 1;
            }
        }
        let (is_cut, is_v4) = (waiting.train.segments() > 1, waiting.train.is_v4());
        let (tcp_start, segment_bytes) = (waiting.train.tcp_start(), waiting.train.segment_bytes());
        let large = Large {
            header: waiting.train.header(),
            tcp_start,
            is_v4,
            segment_bytes,
            is_cut,
        };
        // SAFETY: `note` wrote the ranges in this turn, after it had checked that they lie in the
        // packet memory or in an application's memory. Both stay mapped: applications are
        // detached before and after a turn's packets are made, not meanwhile.
        let sent = unsafe {
            self.link
                .send_large(&mut self.memory, interface, &large, &self.trains.parts)
        };
        self.memory.give(waiting.frame);
        if sent {
            let bytes: usize = self.trains.parts.iter().map(|part| part.iov_len).sum();
            self.tally.sent_payload_bytes += bytes as u64;
        }
        usize::from(sent)
    }

    /// Records the place of a payload. Returns false if there is no room, or the payload does not
    /// exist any more.
    fn note(&mut self, payload: &Payload) -> bool {
        payload.chunks().iter().all(|chunk| {
            let from = self.source(*chunk);
            from.is_some_and(|from| self.trains.push(from, chunk.len as usize))
        })
    }

    /// Address of a range with all its bytes; `None` if its application has ended.
    pub(super) fn source(&self, chunk: Chunk) -> Option<*const u8> {
        let Some((owner, generation)) = buffer_owner(chunk.buffer) else {
            let (frame, start) = buffer_place(chunk.buffer);
            let from = start + chunk.offset as usize;
            let bytes = self.memory.bytes(frame).get(from..)?;
            return Some(bytes.get(..chunk.len as usize)?.as_ptr());
        };
        let domain = self.domains.get_generation(owner, generation)?;
        domain.range(u64::from(chunk.offset), chunk.len)
    }
}
