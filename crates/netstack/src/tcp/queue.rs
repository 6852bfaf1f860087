//! Data to send: ranges of the application's memory, until they are acknowledged.

use super::seq;
use crate::api::{Chunk, Payload};
use crate::core::NONE;
use crate::core::chunks::{Chunks, List};

/// Send queue. Its first byte is at SND.UNA once the handshake is complete.
#[derive(Debug, Clone, Copy, Default)]
pub struct SendQueue {
    ranges: List,
    bytes: u32,
    /// Position in `ranges`: a node and the sequence number of its first byte.
    cursor: Option<(u32, u32)>,
}

impl SendQueue {
    /// Bytes in the queue, sent or not.
    pub const fn bytes(&self) -> u32 {
        self.bytes
    }

    /// Appends a prefix of `data`, at most `room` bytes. Returns its length in bytes.
    pub fn push(&mut self, data: &[Chunk], mut room: u32, chunks: &mut Chunks) -> u32 {
        let mut taken = 0;
        for chunk in data {
            let len = chunk.len.min(room);
            if chunk.len == 0 {
                continue;
            }
            let part = Chunk { len, ..*chunk };
            if len == 0 || !chunks.push(&mut self.ranges, part, 0) {
                break;
            }
            room -= len;
            taken += len;
        }
        self.bytes += taken;
        taken
    }

    /// Removes the first `bytes`. Returns the number of ranges that ended with them.
    pub fn trim(&mut self, mut bytes: u32, chunks: &mut Chunks) -> u32 {
        let mut freed = 0;
        self.bytes -= bytes;
        while bytes > 0 {
            let head = self.ranges.head;
            let node = chunks.node_mut(head);
            if node.chunk.len > bytes {
                node.chunk.offset += bytes;
                node.chunk.len -= bytes;
                if let Some((at, start)) = &mut self.cursor
                    && *at == head
                {
                    *start = start.wrapping_add(bytes);
                }
                break;
            }
            bytes -= node.chunk.len;
            if self.cursor.is_some_and(|(at, _)| at == head) {
                self.cursor = None;
            }
            chunks.pop(&mut self.ranges);
            freed += 1;
        }
        freed
    }

    /// Gathers the ranges of `start..start + len` if the queue begins at `first`, or a part if
    /// there are too many ranges. The cursor makes sending in order O(1).
    pub fn gather(
        &mut self,
        first: u32,
        start: u32,
        len: u32,
        chunks: &Chunks,
        payload: &mut Payload,
    ) {
        payload.clear();
        if len == 0 {
            return;
        }
        let (mut at, mut first) = match self.cursor {
            Some((at, first)) if seq::le(first, start) => (at, first),
            _ => (self.ranges.head, first),
        };
        while at != NONE {
            let node = chunks.node(at);
            if seq::lt(start, first.wrapping_add(node.chunk.len)) {
                break;
            }
            first = first.wrapping_add(node.chunk.len);
            at = node.next;
        }
        let mut skip = start.wrapping_sub(first);
        let mut left = len;
        while at != NONE && left > 0 {
            let node = chunks.node(at);
            let mut part = node.chunk;
            part.offset += skip;
            part.len = (part.len - skip).min(left);
            if !payload.push(part) {
                break;
            }
            self.cursor = Some((at, first));
            left -= part.len;
            skip = 0;
            first = first.wrapping_add(node.chunk.len);
            at = node.next;
        }
    }

    /// Frees all ranges.
    pub fn clear(&mut self, chunks: &mut Chunks) {
        chunks.clear(&mut self.ranges);
        *self = Self::default();
    }

    /// Drops the list without freeing its ranges, which have moved to another list.
    pub fn forget(&mut self) {
        *self = Self::default();
    }

    /// List of ranges. The move of a connection to another stack empties or fills it.
    pub fn list(&mut self) -> &mut List {
        self.cursor = None;
        &mut self.ranges
    }
}
