//! A frame to send: headers written by the stack, payload named by range.

use super::{BufferId, Chunk, InterfaceId};

/// Room that [`crate::Stack::poll_transmit`] needs for headers: Ethernet 14, IPv6 40, TCP 60, and
/// for ARP and neighbour discovery whole frames.
pub const MAX_HEADER_BYTES: usize = 128;

/// Most ranges that one frame gathers.
pub const MAX_CHUNKS: usize = 8;

/// The ranges of a frame's payload, in order.
#[derive(Debug, Clone, Copy, Default)]
pub struct Payload {
    chunks: [Chunk; MAX_CHUNKS],
    count: u8,
    bytes: u32,
}

impl Payload {
    /// Appends a range; `false`, and nothing done, when there are [`MAX_CHUNKS`] already. One that
    /// continues the last one makes that longer.
    pub(crate) fn push(&mut self, chunk: Chunk) -> bool {
        if let Some(last) = self.chunks[..usize::from(self.count)].last_mut()
            && last.buffer == chunk.buffer
            && last.offset.checked_add(last.len) == Some(chunk.offset)
        {
            last.len += chunk.len;
            self.bytes += chunk.len;
            return true;
        }
        let Some(place) = self.chunks.get_mut(usize::from(self.count)) else {
            return false;
        };
        *place = chunk;
        self.count += 1;
        self.bytes += chunk.len;
        true
    }

    /// Keeps the first `bytes`.
    pub(crate) fn truncate(&mut self, bytes: u32) {
        while let Some(last) = self.chunks[..usize::from(self.count)].last_mut()
            && self.bytes > bytes
        {
            let over = self.bytes - bytes;
            let taken = over.min(last.len);
            last.len -= taken;
            self.bytes -= taken;
            self.count -= u8::from(last.len == 0);
        }
    }

    /// Takes all out.
    pub(crate) fn clear(&mut self) {
        (self.count, self.bytes) = (0, 0);
    }

    /// The ranges.
    pub fn chunks(&self) -> &[Chunk] {
        &self.chunks[..usize::from(self.count)]
    }

    /// Their bytes together.
    pub const fn len(&self) -> usize {
        self.bytes as usize
    }

    /// Whether there is no payload.
    pub const fn is_empty(&self) -> bool {
        self.bytes == 0
    }
}

/// A checksum the sender still has to complete, in the terms of the kernel's checksum offload
/// (`csum_start`, `csum_offset` of virtio-net and of AF_XDP's transmit metadata).
///
/// The field already holds the sum of the pseudo header. [`Checksum::complete`] does it in software.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checksum {
    /// Sum from this byte of the frame to its end.
    pub start: u16,
    /// The field's place, from `start`.
    pub offset: u16,
    /// A result of zero is sent as 0xffff (UDP, RFC 768).
    pub zero_means_none: bool,
}

impl Checksum {
    /// Completes the checksum of a whole frame, headers and payload in one slice.
    ///
    /// # Panics
    /// When the field lies outside the frame, which no [`Transmit`] of the stack's does.
    pub fn complete(self, frame: &mut [u8]) {
        let start = usize::from(self.start);
        let at = start + usize::from(self.offset);
        let mut sum = !crate::wire::checksum::sum(&frame[start..]);
        if sum == 0 && self.zero_means_none {
            sum = 0xffff;
        }
        frame[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    }
}

/// A frame to send now. The caller puts the headers and the ranges of the payload behind each
/// other, completes the checksum or has the device do it, and sends.
#[derive(Debug, Clone, Copy)]
pub struct Transmit {
    /// The interface that it leaves by.
    pub interface: InterfaceId,
    /// Bytes of header at the start of the slice handed to `poll_transmit`.
    pub header_len: usize,
    /// What follows them.
    pub payload: Payload,
    /// The packet holds several segments, each of so many bytes of payload: the caller cuts it
    /// ([`super::Interface::segmentation`]). [`super::Train`] has the headers for that.
    pub cut: Option<u16>,
    /// The checksum to complete; `None` when there is nothing to do (ARP).
    pub checksum: Option<Checksum>,
    /// A received buffer that the stack held for this frame (echo replies, ICMP errors quote
    /// it): the caller may use it again once the frame is sent.
    pub release: Option<BufferId>,
}

impl Transmit {
    /// Length of the whole frame in bytes.
    pub const fn len(&self) -> usize {
        self.header_len + self.payload.len()
    }

    /// A frame is never empty.
    pub const fn is_empty(&self) -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(buffer: u64, offset: u32, len: u32) -> Chunk {
        let buffer = BufferId(buffer);
        Chunk {
            buffer,
            offset,
            len,
        }
    }

    #[test]
    fn ranges_that_continue_each_other_are_one() {
        let mut payload = Payload::default();
        for part in [chunk(1, 0, 10), chunk(1, 10, 5), chunk(2, 15, 5)] {
            assert!(payload.push(part));
        }
        assert_eq!(payload.chunks(), [chunk(1, 0, 15), chunk(2, 15, 5)]);
        for n in 2..MAX_CHUNKS as u32 {
            assert!(payload.push(chunk(3, n * 10, 1)));
        }
        assert!(!payload.push(chunk(4, 0, 1)), "no place");
        assert!(payload.push(chunk(3, 71, 9)), "none is needed");
        assert_eq!(payload.len(), 15 + 5 + 5 + 10);
        // Up to the last byte that has an offset.
        let mut payload = Payload::default();
        for part in [chunk(1, u32::MAX - 9, 10), chunk(1, 0, 10)] {
            assert!(payload.push(part));
        }
        assert_eq!(payload.chunks().len(), 2);
    }

    #[test]
    fn a_payload_is_cut_within_ranges_and_between_them() {
        let mut whole = Payload::default();
        for n in 0..4 {
            assert!(whole.push(chunk(n, 0, 10)));
        }
        for bytes in 0..=45 {
            let mut payload = whole;
            payload.truncate(bytes);
            assert_eq!(payload.len() as u32, bytes.min(40));
            let sum: u32 = payload.chunks().iter().map(|part| part.len).sum();
            assert_eq!(sum, bytes.min(40));
            assert!(payload.chunks().iter().all(|part| part.len > 0));
        }
    }
}
