//! Buffers. The stack owns none: it passes buffer identifiers and ranges of the caller's memory.

/// Identifier that the caller gave a buffer. The stack stores it and returns it, nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct BufferId(pub u64);

/// Range of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Chunk {
    /// Buffer that contains the range.
    pub buffer: BufferId,
    /// Offset of the first byte. For received data it counts from the first byte of the frame that
    /// was passed to [`crate::Stack::handle_frame`]; for data to send the caller defines it.
    pub offset: u32,
    /// Length in bytes.
    pub len: u32,
}

/// Owner of a received frame's buffer after [`crate::Stack::handle_frame`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Disposition {
    /// The caller: the stack no longer needs the buffer, which can be reused.
    Free,
    /// The stack: the buffer belongs to its state or to a pending event. The caller gets it back
    /// exactly once: in [`crate::Event::Recv`] or [`crate::Event::UdpRecv`], which pass it to the
    /// application, in [`crate::Event::Release`], or in [`crate::Transmit::release`].
    Held,
}

/// Buffers for reassembled datagrams: fragments arrive in several frames, the application gets the
/// datagram in one buffer.
pub trait BufferPool {
    /// Copies `bytes` (at most 65,575) into a free buffer and returns its identifier. Returns
    /// `None` if no free buffer is large enough; the stack then drops and counts the datagram.
    ///
    /// The stack treats the buffer like that of a received frame whose first byte is `bytes[0]`. If
    /// no event passes it to the application, [`crate::Event::Release`] returns it.
    fn copy_in(&mut self, bytes: &[u8]) -> Option<BufferId>;
}

/// Pool without buffers: the stack drops and counts every fragmented datagram.
impl BufferPool for () {
    fn copy_in(&mut self, _bytes: &[u8]) -> Option<BufferId> {
        None
    }
}
