//! The ranges of the caller's buffers that the stack refers to: data to send, received data, and
//! received buffers that are the caller's again.

use crate::api::{BufferId, Chunk, Config, Counters, Payload, Time};
use crate::core::chunks::{Chunks, List, Node};
use crate::tcp::context::Context;
use crate::tcp::state::Tcb;

/// The pool of ranges, and what was received and is to be given back.
#[derive(Debug)]
pub struct Ranges {
    pool: Chunks,
    released: List,
    /// Of the segment that is being made.
    payload: Payload,
}

/// The ranges of one connection, on its way to another stack.
#[derive(Debug, Clone)]
pub struct Luggage {
    send: Vec<(Chunk, u32)>,
    /// To be handed up, and out of order.
    received: [Vec<(Chunk, u32)>; 2],
}

impl Luggage {
    /// Ranges in it.
    pub fn len(&self) -> usize {
        self.send.len() + self.received.iter().map(Vec::len).sum::<usize>()
    }

    /// The received buffers.
    pub fn buffers(&self) -> impl Iterator<Item = BufferId> + '_ {
        let received = self.received.iter().flatten();
        received.map(|(chunk, _)| chunk.buffer)
    }
}

/// All ranges of a list, by `take`.
fn drain(take: impl FnMut() -> Option<Node>) -> Vec<(Chunk, u32)> {
    std::iter::from_fn(take)
        .map(|node| (node.chunk, node.seq))
        .collect()
}

impl Ranges {
    /// Room for `count`.
    pub fn new(count: u32) -> Self {
        Self {
            pool: Chunks::new(count),
            released: List::default(),
            payload: Payload::default(),
        }
    }

    /// What the rules of TCP may use beside one connection.
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
            most_kept: config.limits.kept,
        }
    }

    /// Where the payload of the segment lies that a connection has just put out.
    pub const fn payload(&self) -> Payload {
        self.payload
    }

    /// Ranges that are free.
    pub fn free(&self) -> u32 {
        self.pool.free()
    }

    /// Ranges in use.
    pub fn used(&self) -> u32 {
        self.pool.used()
    }

    /// Ranges in use of received buffers.
    pub fn kept(&self) -> u32 {
        self.pool.kept()
    }

    /// Takes the first range of received data that waits to be handed up.
    pub fn take_received(&mut self, tcb: &mut Tcb) -> Option<Chunk> {
        tcb.take_received(&mut self.pool).map(|node| node.chunk)
    }

    /// Bytes of received data that are to be handed up until the peer's urgent data ends.
    pub fn bytes_to_urgent_end(&self, tcb: &Tcb) -> u32 {
        tcb.receiver().bytes_to_urgent_end(&self.pool)
    }

    /// A buffer that no frame of this call lies in is the caller's again. Takes a range.
    pub fn release(&mut self, buffer: BufferId) {
        let chunk = Chunk {
            buffer,
            ..Chunk::default()
        };
        self.pool.keep_last(&mut self.released, chunk, 0);
    }

    /// The next buffer that is the caller's again.
    pub fn next_released(&mut self) -> Option<BufferId> {
        let node = self.pool.take_kept(&mut self.released)?;
        Some(node.chunk.buffer)
    }

    /// Takes all ranges of a connection out.
    pub fn pack(&mut self, tcb: &mut Tcb) -> Luggage {
        let received = tcb.received_lists();
        let received = received.map(|list| drain(|| self.pool.take_kept(list)));
        let send = drain(|| self.pool.pop(tcb.send_list()));
        Luggage { send, received }
    }

    /// Gives a connection its ranges; there is room for them.
    pub fn unpack(&mut self, tcb: &mut Tcb, luggage: &Luggage) {
        for (chunk, seq) in &luggage.send {
            self.pool.push(tcb.send_list(), *chunk, *seq);
        }
        let lists = tcb.received_lists();
        for (list, chunks) in lists.into_iter().zip(&luggage.received) {
            for (chunk, seq) in chunks {
                self.pool.keep_last(list, *chunk, *seq);
            }
        }
    }
}
