//! Lists of connections that are linked through the connections.

use crate::core::NONE;

/// Links of a connection in the lists.
#[derive(Debug, Clone, Copy)]
pub struct Links {
    pub ready_next: u32,
    pub event_next: u32,
    pub group_next: u32,
    pub group_previous: u32,
    pub is_ready: bool,
    pub has_events: bool,
}

impl Default for Links {
    fn default() -> Self {
        Self {
            ready_next: NONE,
            event_next: NONE,
            group_next: NONE,
            group_previous: NONE,
            is_ready: false,
            has_events: false,
        }
    }
}

/// First and last connection of a list.
#[derive(Debug, Clone, Copy)]
pub struct Queue {
    head: u32,
    tail: u32,
}

impl Default for Queue {
    fn default() -> Self {
        Self {
            head: NONE,
            tail: NONE,
        }
    }
}

impl Queue {
    pub const fn is_empty(&self) -> bool {
        self.head == NONE
    }

    pub fn first(&self) -> Option<u32> {
        (!self.is_empty()).then_some(self.head)
    }

    /// Appends a slot. Returns the previous last slot, which the caller links to the new one.
    pub fn append(&mut self, slot: u32) -> Option<u32> {
        let last = std::mem::replace(&mut self.tail, slot);
        if last == NONE {
            self.head = slot;
            return None;
        }
        Some(last)
    }

    /// Removes the first slot; `next` is the one behind it.
    pub fn advance(&mut self, next: u32) {
        self.head = next;
        if next == NONE {
            self.tail = NONE;
        }
    }
}
