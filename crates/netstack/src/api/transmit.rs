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
    /// Appends a range; `false`, and nothing done, when there are [`MAX_CHUNKS`] already.
    pub(crate) fn push(&mut self, chunk: Chunk) -> bool {
        let Some(place) = self.chunks.get_mut(usize::from(self.count)) else {
            return false;
        };
        *place = chunk;
        self.count += 1;
        self.bytes += chunk.len;
        true
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
