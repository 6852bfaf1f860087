//! Lists of ranges of the caller's buffers, allocated from one pool.

use super::NONE;
use crate::api::Chunk;

/// Range with its place in a sequence.
#[derive(Debug, Clone, Copy)]
pub struct Node {
    pub chunk: Chunk,
    /// Sequence number of the first byte, in lists that have one.
    pub seq: u32,
    pub next: u32,
}

/// Linked list; empty by default.
#[derive(Debug, Clone, Copy)]
pub struct List {
    pub head: u32,
    pub tail: u32,
}

impl Default for List {
    fn default() -> Self {
        Self {
            head: NONE,
            tail: NONE,
        }
    }
}

impl List {
    pub const fn is_empty(&self) -> bool {
        self.head == NONE
    }
}

/// Pool of the ranges of all lists.
#[derive(Debug)]
pub struct Chunks {
    nodes: Vec<Node>,
    free: u32,
    used: u32,
    /// Number of ranges in lists of received buffers.
    kept: u32,
}

impl Chunks {
    /// A pool of `count` ranges.
    pub fn new(count: u32) -> Self {
        let nodes = (1..=count)
            .map(|next| Node {
                chunk: Chunk::default(),
                seq: 0,
                next: if next == count { NONE } else { next },
            })
            .collect();
        Self {
            nodes,
            free: if count == 0 { NONE } else { 0 },
            used: 0,
            kept: 0,
        }
    }

    /// Number of ranges in use.
    pub fn used(&self) -> u32 {
        self.used
    }

    /// Number of free ranges.
    pub fn free(&self) -> u32 {
        self.nodes.len() as u32 - self.used
    }

    /// Number of ranges of received buffers: added by [`Chunks::store`] and not yet removed by
    /// [`Chunks::take_stored`].
    pub fn stored(&self) -> u32 {
        self.kept
    }

    pub fn node(&self, at: u32) -> &Node {
        &self.nodes[at as usize]
    }

    pub fn node_mut(&mut self, at: u32) -> &mut Node {
        &mut self.nodes[at as usize]
    }

    /// First range of a list.
    pub fn front(&self, list: &List) -> Option<&Node> {
        self.nodes.get(list.head as usize)
    }

    fn take(&mut self, chunk: Chunk, seq: u32, next: u32) -> Option<u32> {
        let at = self.free;
        let node = self.nodes.get_mut(at as usize)?;
        self.free = node.next;
        *node = Node { chunk, seq, next };
        self.used += 1;
        Some(at)
    }

    /// Appends a range. Returns `false` if the pool is empty.
    pub fn push(&mut self, list: &mut List, chunk: Chunk, seq: u32) -> bool {
        let tail = list.tail;
        self.insert_after(list, tail, chunk, seq)
    }

    /// Inserts a range behind `previous` ([`NONE`]: at the front). Returns `false` if the pool is
    /// empty.
    pub fn insert_after(&mut self, list: &mut List, previous: u32, chunk: Chunk, seq: u32) -> bool {
        let next = if previous == NONE {
            list.head
        } else {
            self.node(previous).next
        };
        let Some(at) = self.take(chunk, seq, next) else {
            return false;
        };
        self.link(list, previous, at);
        if next == NONE {
            list.tail = at;
        }
        true
    }

    /// Inserts a range of a received buffer like [`Chunks::insert_after`]. Such a range may move to
    /// another list of received buffers.
    pub fn store(&mut self, list: &mut List, previous: u32, chunk: Chunk, seq: u32) -> bool {
        let has_room = self.insert_after(list, previous, chunk, seq);
        self.kept += u32::from(has_room);
        has_room
    }

    /// Appends a range of a received buffer like [`Chunks::push`].
    pub fn store_last(&mut self, list: &mut List, chunk: Chunk, seq: u32) -> bool {
        let tail = list.tail;
        self.store(list, tail, chunk, seq)
    }

    /// Removes the first range of a list of received buffers.
    pub fn take_stored(&mut self, list: &mut List) -> Option<Node> {
        let node = self.pop(list)?;
        self.kept -= 1;
        Some(node)
    }

    fn link(&mut self, list: &mut List, previous: u32, at: u32) {
        if previous == NONE {
            list.head = at;
        } else {
            self.node_mut(previous).next = at;
        }
    }

    /// Removes the first range.
    pub fn pop(&mut self, list: &mut List) -> Option<Node> {
        self.remove_after(list, NONE)
    }

    /// Removes the range behind `previous` ([`NONE`]: the first).
    pub fn remove_after(&mut self, list: &mut List, previous: u32) -> Option<Node> {
        let at = self.unlink_after(list, previous)?;
        let node = self.nodes[at as usize];
        self.nodes[at as usize].next = self.free;
        self.free = at;
        self.used -= 1;
        Some(node)
    }

    /// Moves the range behind `previous` ([`NONE`]: the first) to the end of another list. The pool
    /// need not have a free range.
    pub fn shift(&mut self, from: &mut List, previous: u32, to: &mut List) -> Option<Node> {
        let at = self.unlink_after(from, previous)?;
        self.node_mut(at).next = NONE;
        let tail = to.tail;
        self.link(to, tail, at);
        to.tail = at;
        Some(*self.node(at))
    }

    /// Moves a whole list to the end of another.
    pub fn append(&mut self, from: &mut List, to: &mut List) {
        if from.is_empty() {
            return;
        }
        let tail = to.tail;
        self.link(to, tail, from.head);
        to.tail = from.tail;
        *from = List::default();
    }

    fn unlink_after(&mut self, list: &mut List, previous: u32) -> Option<u32> {
        let at = if previous == NONE {
            list.head
        } else {
            self.node(previous).next
        };
        let next = self.nodes.get(at as usize)?.next;
        if previous == NONE {
            list.head = next;
        } else {
            self.node_mut(previous).next = next;
        }
        if next == NONE {
            list.tail = previous;
        }
        Some(at)
    }

    /// Frees all ranges of a list.
    pub fn clear(&mut self, list: &mut List) {
        while self.pop(list).is_some() {}
    }
}
