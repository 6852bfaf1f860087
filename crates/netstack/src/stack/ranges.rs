//! Ranges of the caller's buffers that the stack uses: data to send, received data, and received
//! buffers to return to the caller.

use crate::api::{BufferId, Chunk, Config, Counters, Payload, Time};
use crate::core::chunks::{Chunks, List, Node};
use crate::tcp::context::Context;
use crate::tcp::state::Tcb;

/// Pool of ranges, and the received buffers to return.
#[derive(Debug)]
pub struct Ranges {
    pool: Chunks,
    released: List,
    /// Payload of the segment that is being built.
    payload: Payload,
}

/// Ranges of one connection that moves to another stack.
#[derive(Debug, Clone)]
pub struct ConnectionRanges {
    send: Vec<(Chunk, u32)>,
    /// Ranges in order and out of order.
    received: [Vec<(Chunk, u32)>; 2],
}

impl ConnectionRanges {
    /// Number of ranges.
    pub fn len(&self) -> usize {
        self.send.len() + self.received.iter().map(Vec::len).sum::<usize>()
    }

    /// Received buffers.
    pub fn buffers(&self) -> impl Iterator<Item = BufferId> + '_ {
        let received = self.received.iter().flatten();
        received.map(|(chunk, _)| chunk.buffer)
    }
}

/// All ranges of a list, which `take` removes.
fn drain(take: impl FnMut() -> Option<Node>) -> Vec<(Chunk, u32)> {
    std::iter::from_fn(take)
        .map(|node| (node.chunk, node.seq))
        .collect()
}

impl Ranges {
    /// A pool of `count` ranges.
    pub fn new(count: u32) -> Self {
        Self {
            pool: Chunks::new(count),
            released: List::default(),
            payload: Payload::default(),
        }
    }

    /// Resources of TCP's rules for one connection.
    #[inline]
    pub fn context<'a>(
        &'a mut self,
        config: &'a Config,
        counters: &'a mut Counters,
        now: Time,
    ) -> Context<'a> {
        Context {
            now,
            config: &config.tcp,
            chunks: &mut self.pool,
            released: &mut self.released,
            counters,
            payload: &mut self.payload,
            most_packet_bytes: 0,
            reader_is_stopped: false,
            kept_limit: config.limits.kept,
        }
    }

    /// Payload of the segment that a connection has just built.
    pub const fn payload(&self) -> Payload {
        self.payload
    }

    /// Number of free ranges.
    pub fn free(&self) -> u32 {
        self.pool.free()
    }

    /// Number of ranges in use.
    pub fn used(&self) -> u32 {
        self.pool.used()
    }

    /// Number of ranges of received buffers.
    pub fn stored(&self) -> u32 {
        self.pool.stored()
    }

    /// Removes the first range of received data that waits for the application.
    pub fn take_received(&mut self, tcb: &mut Tcb) -> Option<Chunk> {
        tcb.take_received(&mut self.pool).map(|node| node.chunk)
    }

    /// Bytes that the application gets until the peer's urgent data ends.
    pub fn bytes_to_urgent_end(&self, tcb: &Tcb) -> u32 {
        tcb.receiver().bytes_to_urgent_end(&self.pool)
    }

    /// Returns a buffer to the caller that contains no frame of this call. Uses one range.
    pub fn release(&mut self, buffer: BufferId) {
        let chunk = Chunk {
            buffer,
            ..Chunk::default()
        };
        self.pool.store_last(&mut self.released, chunk, 0);
    }

    /// Next buffer to return to the caller.
    pub fn next_released(&mut self) -> Option<BufferId> {
        let node = self.pool.take_stored(&mut self.released)?;
        Some(node.chunk.buffer)
    }

    /// Removes all ranges of a connection.
    pub fn take_ranges_of(&mut self, tcb: &mut Tcb) -> ConnectionRanges {
        let received = tcb.received_lists();
        let received = received.map(|list| drain(|| self.pool.take_stored(list)));
        let send = drain(|| self.pool.pop(tcb.send_list()));
        ConnectionRanges { send, received }
    }

    /// Adds the ranges to a connection; the caller has checked the space.
    pub fn add_ranges_to(&mut self, tcb: &mut Tcb, ranges: &ConnectionRanges) {
        for (chunk, seq) in &ranges.send {
            self.pool.push(tcb.send_list(), *chunk, *seq);
        }
        let lists = tcb.received_lists();
        for (list, chunks) in lists.into_iter().zip(&ranges.received) {
            for (chunk, seq) in chunks {
                self.pool.store_last(list, *chunk, *seq);
            }
        }
    }
}
