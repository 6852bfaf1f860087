//! Buffers. The stack owns none: it hands over names and ranges of the caller's memory.

/// The caller's name for a buffer; the stack only keeps it and gives it back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct BufferId(pub u64);

/// A range of a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Chunk {
    /// The buffer.
    pub buffer: BufferId,
    /// First byte. For received data it counts from the first byte of the frame that was handed
    /// to [`crate::Stack::handle_frame`]; for data to send the caller decides.
    pub offset: u32,
    /// Length in bytes.
    pub len: u32,
}

/// What became of a frame's buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Disposition {
    /// The stack needs it no more: use it again.
    Free,
    /// It is part of the stack's state, or of an event to come. It comes back exactly once:
    /// in [`crate::Event::Recv`] or [`crate::Event::UdpRecv`] (the application has it then), in
    /// [`crate::Event::Release`], or in [`crate::Transmit::release`].
    Held,
}

/// Where reassembled datagrams go: fragments lie in several frames, data is handed up in one.
pub trait BufferPool {
    /// Copies `bytes` (at most 65,575) into a free buffer and names it. `None` when no free buffer
    /// is large enough: the datagram is dropped and counted.
    ///
    /// The stack then treats the buffer like that of a frame whose first byte is `bytes[0]`. If it
    /// does not keep it, it comes back through [`crate::Event::Release`].
    fn copy_in(&mut self, bytes: &[u8]) -> Option<BufferId>;
}

/// A pool without room: fragmented datagrams are dropped and counted.
impl BufferPool for () {
    fn copy_in(&mut self, _bytes: &[u8]) -> Option<BufferId> {
        None
    }
}
