//! Sending: the stack writes headers into a frame, and the payload is gathered behind them.

use super::Engine;
use super::buffers::{buffer_owner, buffer_place};
use cofferdam_netstack::{Chunk, MAX_HEADER_BYTES, Time, Transmit};
use cofferdam_xsk::{Frame, Packet, Port};

impl<P: Port> Engine<P> {
    /// Queues all packets of the stack. Returns their number. Stops if a ring is full or no frame
    /// is free; the next turn continues.
    pub(super) fn transmit(&mut self, now: Time) -> usize {
        let Some(mut sent) = self.link.retry(&mut self.memory) else {
            return 0;
        };
        while self.stack.has_transmit() {
            let Some(frame) = self.memory.take() else {
                self.tally.out_of_frames += 1;
                self.link.starve();
                break;
            };
            let Some(header) = self.memory.bytes_mut(frame).get_mut(..MAX_HEADER_BYTES) else {
                self.memory.give(frame);
                break;
            };
            let Some(transmit) = self.stack.poll_transmit(now, header) else {
                self.memory.give(frame);
                break;
            };
            let interface = transmit.interface;
            if self.link.sends_large(interface) {
                if self.join(frame, &transmit) {
                    self.memory.give(frame);
                    continue;
                }
                sent += self.send_waiting();
                if self.wait(frame, &transmit) {
                    continue;
                }
            }
            if transmit.cut.is_some() {
                // The application has ended meanwhile.
                self.memory.give(frame);
                continue;
            }
            let Some(frame) = self.room_for(frame, &transmit) else {
                // The packet is lost, as on a wire: TCP sends it again.
                self.tally.out_of_frames += 1;
                if let Some(buffer) = transmit.release {
                    self.memory.give(buffer_place(buffer).0);
                }
                continue;
            };
            let packet = self.assemble(frame, &transmit);
            if let Some(buffer) = transmit.release {
                self.memory.give(buffer_place(buffer).0);
            }
            if !self.link.send(&mut self.memory, interface, packet) {
                break;
            }
            sent += 1;
        }
        sent += self.send_waiting();
        self.tally.sent += sent as u64;
        sent
    }

    /// Copies the payload behind the headers in `frame`, and completes the checksum.
    pub(super) fn assemble(&mut self, frame: Frame, transmit: &Transmit) -> Packet {
        let payload_bytes = transmit.payload.len() as u64;
        self.tally.sent_payload_bytes += payload_bytes;
        self.tally.copied_payload_bytes += payload_bytes;
        let mut end = transmit.header_len;
        for chunk in transmit.payload.chunks() {
            self.gather(*chunk, frame, end);
            end += chunk.len as usize;
        }
        if let Some(checksum) = transmit.checksum
            && let Some(bytes) = self.memory.bytes_mut(frame).get_mut(..end)
        {
            checksum.complete(bytes);
        }
        Packet {
            frame,
            start: 0,
            len: end as u32,
        }
    }

    /// Memory for a packet: the frame with its headers or, if the packet does not fit, a span to
    /// which the headers are copied. `None` if no span is free.
    fn room_for(&mut self, frame: Frame, transmit: &Transmit) -> Option<Frame> {
        if transmit.len() <= self.memory.frame_bytes() as usize {
            return Some(frame);
        }
        let span = self.memory.take_span();
        if let Some(span) = span {
            self.memory.copy((frame, 0), (span, 0), transmit.header_len);
        }
        self.memory.give(frame);
        span
    }

    /// Copies a range of payload into a frame. Concurrent writes of the application are sent as
    /// they are found, and harm only its own data.
    fn gather(&mut self, chunk: Chunk, frame: Frame, at: usize) {
        let len = chunk.len as usize;
        if buffer_owner(chunk.buffer).is_none() {
            let (from, start) = buffer_place(chunk.buffer);
            self.memory
                .copy((from, start + chunk.offset as usize), (frame, at), len);
            return;
        }
        let from = self.source(chunk);
        let into = self.memory.bytes_mut(frame).get_mut(at..at + len);
        if let (Some(from), Some(into)) = (from, into) {
            // SAFETY: `source` has checked that the bytes lie inside the application's memory,
            // which is mapped as long as its domain lives; `into` is `len` bytes of a frame of
            // ours. The application may write meanwhile: any bytes are valid.
            unsafe { std::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), len) };
        }
    }
}
