//! Packet memory with one allocation per buffer. Scripts are short, and a leaked buffer shows up in
//! the count.

use cofferdam_netstack::{BufferId, BufferPool, Chunk};
use std::collections::HashMap;

/// Packet buffers by identifier.
#[derive(Debug, Default)]
pub struct Buffers {
    bytes: HashMap<u64, Vec<u8>>,
    next: u64,
}

impl Buffers {
    /// Stores a copy of `bytes`.
    pub fn add(&mut self, bytes: &[u8]) -> BufferId {
        self.next += 1;
        self.bytes.insert(self.next, bytes.to_vec());
        BufferId(self.next)
    }

    /// Stores a copy of `bytes` as data to send.
    pub fn data(&mut self, bytes: &[u8]) -> Chunk {
        Chunk {
            buffer: self.add(bytes),
            offset: 0,
            len: bytes.len() as u32,
        }
    }

    /// The bytes of a chunk; empty if its buffer has been freed.
    pub fn read(&self, chunk: Chunk) -> &[u8] {
        let (start, end) = (chunk.offset as usize, (chunk.offset + chunk.len) as usize);
        let bytes = self.bytes.get(&chunk.buffer.0);
        bytes.and_then(|b| b.get(start..end)).unwrap_or_default()
    }

    /// Frees a buffer.
    pub fn free(&mut self, buffer: BufferId) {
        let was = self.bytes.remove(&buffer.0);
        debug_assert!(was.is_some(), "freed once");
    }

    /// Number of buffers in use.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }
}

impl BufferPool for Buffers {
    fn copy_in(&mut self, bytes: &[u8]) -> Option<BufferId> {
        Some(self.add(bytes))
    }
}
