//! Initial sequence numbers and timestamp offsets (RFC 6528; RFC 7323, 5.4).

use super::super::stack::flow::FlowKey;
use crate::api::Time;
use crate::core::siphash::Key;

/// Secrets of the sequence numbers.
#[derive(Debug, Clone, Copy)]
pub struct Numbers {
    sequence: Key,
    timestamps: Key,
}

impl Numbers {
    pub fn new(secret: &[u8; 16]) -> Self {
        Self {
            sequence: Key::new(secret, 2),
            timestamps: Key::new(secret, 3),
        }
    }

    /// `M + F(4-tuple, secret)`: a clock of 4 µs (RFC 9293, 3.4.1) and a hash, so that numbers
    /// of one connection's successors rise, and those of others tell nothing.
    pub fn initial(&self, key: &FlowKey, now: Time) -> u32 {
        let clock = (now.as_nanos() / 4000) as u32;
        clock.wrapping_add(self.sequence.hash(&key.words()) as u32)
    }

    /// What to add to the millisecond clock in this connection's timestamps: the same for each
    /// connection of the 4-tuple, so that values rise over TIME_WAIT (RFC 6191).
    pub fn timestamp_offset(&self, key: &FlowKey) -> u32 {
        self.timestamps.hash(&key.words()) as u32
    }
}

/// The timestamp clock: milliseconds.
pub fn timestamp(now: Time, offset: u32) -> u32 {
    ((now.as_nanos() / 1_000_000) as u32).wrapping_add(offset)
}
