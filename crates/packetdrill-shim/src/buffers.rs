//! Packet memory: one allocation a buffer. Scripts are short, and a leak shows as a count.

use cofferdam_netstack::{BufferId, BufferPool, Chunk};
use std::collections::HashMap;

/// Buffers by name.
#[derive(Debug, Default)]
pub struct Buffers {
    bytes: HashMap<u64, Vec<u8>>,
    next: u64,
}

impl Buffers {
    /// Keeps a copy.
    pub fn add(&mut self, bytes: &[u8]) -> BufferId {
        self.next += 1;
        self.bytes.insert(self.next, bytes.to_vec());
        BufferId(self.next)
    }

    /// Keeps a copy, as data to send.
    pub fn data(&mut self, bytes: &[u8]) -> Chunk {
        Chunk {
            buffer: self.add(bytes),
            offset: 0,
            len: bytes.len() as u32,
        }
    }

    /// The bytes of a range; none of a buffer that is gone.
    pub fn read(&self, chunk: Chunk) -> &[u8] {
        let (start, end) = (chunk.offset as usize, (chunk.offset + chunk.len) as usize);
        let bytes = self.bytes.get(&chunk.buffer.0);
        bytes.and_then(|b| b.get(start..end)).unwrap_or_default()
    }

    /// The buffer is of no use any more.
    pub fn free(&mut self, buffer: BufferId) {
        let was = self.bytes.remove(&buffer.0);
        debug_assert!(was.is_some(), "freed once");
    }

    /// Buffers in use.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }
}

impl BufferPool for Buffers {
    fn copy_in(&mut self, bytes: &[u8]) -> Option<BufferId> {
        Some(self.add(bytes))
    }
}
