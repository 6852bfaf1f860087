//! Frame to send: the stack writes the headers and refers to the payload by ranges.

use super::{BufferId, Chunk, InterfaceId};

/// Space that [`crate::Stack::poll_transmit`] needs for headers: Ethernet 14, IPv6 40, TCP 60
/// bytes. ARP and neighbour discovery write their whole frames into it.
pub const MAX_HEADER_BYTES: usize = 128;

/// Largest number of ranges in one frame.
pub const MAX_CHUNKS: usize = 8;

/// Ranges of a frame's payload, in order.
#[derive(Debug, Clone, Copy, Default)]
pub struct Payload {
    chunks: [Chunk; MAX_CHUNKS],
    count: u8,
    bytes: u32,
}

impl Payload {
    /// Appends a range, or extends the last one if the new one continues it. Returns `false` and
    /// changes nothing if there are already [`MAX_CHUNKS`].
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

    /// Keeps the first `bytes` bytes.
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

    /// Removes all ranges.
    pub(crate) fn clear(&mut self) {
        (self.count, self.bytes) = (0, 0);
    }

    /// The ranges.
    pub fn chunks(&self) -> &[Chunk] {
        &self.chunks[..usize::from(self.count)]
    }

    /// Total length in bytes.
    pub const fn len(&self) -> usize {
        self.bytes as usize
    }

    /// Whether there is no payload.
    pub const fn is_empty(&self) -> bool {
        self.bytes == 0
    }
}

/// Checksum that the caller still has to complete, in the terms of the kernel's checksum offload
/// (`csum_start`, `csum_offset` of virtio-net and of AF_XDP's transmit metadata).
///
/// The field already contains the sum of the pseudo header. [`Checksum::complete`] completes it in
/// software.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Checksum {
    /// First byte of the frame that is summed; the sum runs to the frame's end.
    pub start: u16,
    /// Offset of the checksum field from `start`.
    pub offset: u16,
    /// Whether a result of zero is sent as 0xffff (UDP, RFC 768).
    pub zero_means_none: bool,
}

impl Checksum {
    /// Completes the checksum of a whole frame, headers and payload in one slice.
    ///
    /// # Panics
    ///
    /// If the field lies outside of the frame, which no [`Transmit`] of the stack causes.
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

/// Frame to send now. The caller sends the headers followed by the ranges of the payload, after it
/// has completed the checksum or left that to the device.
#[derive(Debug, Clone, Copy)]
pub struct Transmit {
    /// Interface that sends it.
    pub interface: InterfaceId,
    /// Length of the headers, which are at the start of the slice that was passed to
    /// `poll_transmit`.
    pub header_len: usize,
    /// Payload behind the headers.
    pub payload: Payload,
    /// Payload bytes of each segment if the packet holds several; the caller cuts it
    /// ([`super::Interface::segmentation`]). [`super::Train`] writes the headers for that.
    pub cut: Option<u16>,
    /// Checksum to complete; `None` if there is none (ARP).
    pub checksum: Option<Checksum>,
    /// Received buffer that the frame quotes or echoes (echo replies, ICMP errors). The caller may
    /// reuse it when it has sent the frame.
    pub release: Option<BufferId>,
}

impl Transmit {
    /// Length of the whole frame in bytes.
    pub const fn len(&self) -> usize {
        self.header_len + self.payload.len()
    }

    /// Always `false`: a frame is never empty.
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
        // The range reaches the largest offset.
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
