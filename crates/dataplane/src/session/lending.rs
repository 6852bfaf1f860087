//! Memory for sending, lent to connections by need and reclaimed under pressure.
//!
//! A connection may use [`START_BYTES`], and the number of bytes that its peer has acknowledged in
//! addition, up to a part of the free memory. A peer that advertises a window and acknowledges
//! nothing thus gets no more than the start. The last [`RESERVE_PART`] of the memory, and of the
//! unacknowledged sends, is reserved for the minimum of each connection: [`FLOOR_BYTES`] and one
//! send. While that is in use, connections whose peers have acknowledged nothing for
//! [`STALLED_FOR`] are reset, first those with more than their minimum.

use super::connection::{IS_RESET, Place};
use super::{Connection, Event, Session};
use crate::abi::Call;
use crate::tuning::session::{
    FLOOR_BYTES, LOOK_AT_ONCE, LOOK_EVERY, LOOK_TIMER, RESERVE_PART, SHARE_PART, STALLED_FOR,
    START_BYTES,
};
use std::time::Instant;

/// State of the lending.
pub(super) struct Lending {
    begun: Instant,
    /// Bytes reserved for the minimum of each connection.
    reserve_bytes: u32,
    /// Place of the connection that is checked next.
    next: usize,
    /// Number of connections that are being reset. The next fields are the memory and the sends
    /// that their ends free.
    resets: u32,
    reset_bytes: u32,
    reset_ranges: u32,
    /// Time of the timer's last check, in milliseconds since the start. The next field says whether
    /// the timer is set.
    looked_ms: u32,
    is_armed: bool,
}

impl Lending {
    /// Lending of a memory with so many bytes.
    pub fn new(area_bytes: u32) -> Lending {
        Lending {
            begun: Instant::now(),
            reserve_bytes: area_bytes / RESERVE_PART,
            next: 0,
            resets: 0,
            reset_bytes: 0,
            reset_ranges: 0,
            looked_ms: 0,
            is_armed: false,
        }
    }

    /// Milliseconds since the start; neither 0 nor [`IS_RESET`].
    fn now_ms(&self) -> u32 {
        (self.begun.elapsed().as_millis() as u32).clamp(1, IS_RESET - 1)
    }

    /// Number of bytes that a connection may still take.
    fn left_bytes(&self, place: &Place, free_bytes: u32) -> u32 {
        let spare = free_bytes.saturating_sub(self.reserve_bytes);
        let needed = START_BYTES.saturating_add(place.earned_bytes);
        let allowed = needed.min(spare / SHARE_PART).max(FLOOR_BYTES);
        allowed.saturating_sub(place.cost_bytes)
    }

    /// Records the end of a connection.
    pub fn ended(&mut self, place: &Place) {
        if place.stalled_ms != IS_RESET {
            return;
        }
        self.resets -= 1;
        // A late acknowledgement may have freed some of the counted memory before.
        let (bytes, ranges) = match self.resets {
            0 => (0, 0),
            _ => (
                self.reset_bytes.saturating_sub(place.cost_bytes),
                self.reset_ranges.saturating_sub(place.ranges),
            ),
        };
        (self.reset_bytes, self.reset_ranges) = (bytes, ranges);
    }
}

impl Session {
    /// Number of bytes that a connection may still take; 0 if it is not open.
    pub(super) fn lendable_bytes(&mut self, connection: Connection) -> u32 {
        let free_bytes = self.pieces.free_bytes();
        let place = self.connections.get_mut(connection);
        place.map_or(0, |place| self.lending.left_bytes(place, free_bytes))
    }

    /// Number of sends available to connections that have others unacknowledged.
    fn spare_ranges(&self) -> u32 {
        let reserved = self.most_ranges / RESERVE_PART;
        let used = self.ranges.saturating_sub(self.lending.reset_ranges);
        (self.most_ranges - reserved).saturating_sub(used)
    }

    /// Whether the reserve is in use.
    fn is_short(&self) -> bool {
        self.pieces.free_bytes() < self.lending.reserve_bytes || self.spare_ranges() == 0
    }

    /// Checks for stalled connections, now and periodically, while memory is short.
    pub(super) fn look_after_memory(&mut self) {
        if self.is_short() && !std::mem::replace(&mut self.lending.is_armed, true) {
            self.timer(LOOK_EVERY, LOOK_TIMER);
        }
    }

    /// Runs the periodic check.
    pub(super) fn look_is_due(&mut self) {
        let now_ms = self.lending.now_ms();
        let since_ms = now_ms - self.lending.looked_ms;
        (self.lending.is_armed, self.lending.looked_ms) = (false, now_ms);
        if !self.is_short() {
            return;
        }
        self.reset_stalled(now_ms);
        // Without a place in the table of timers the timer fires at once. The next send sets it
        // again.
        if u128::from(since_ms) >= LOOK_EVERY.as_millis() / 2 {
            self.look_after_memory();
        }
    }

    fn reset_stalled(&mut self, now_ms: u32) {
        let count = self.connections.count();
        for _ in 0..LOOK_AT_ONCE.min(count) {
            let free_bytes = self.pieces.free_bytes() + self.lending.reset_bytes;
            let enough_bytes = self.lending.reserve_bytes;
            let is_dire = free_bytes < enough_bytes / 4 || self.spare_ranges() == 0;
            let index = self.lending.next % count;
            self.lending.next = (index + 1) % count;
            let Some(place) = self.connections.at(index) else {
                continue;
            };
            if place.cost_bytes == 0 || place.stalled_ms == IS_RESET {
                continue;
            }
            if place.stalled_ms == 0 {
                place.stalled_ms = now_ms;
                continue;
            }
            let stalled_ms = u128::from(now_ms.saturating_sub(place.stalled_ms));
            let is_needed = is_dire || free_bytes < enough_bytes && place.cost_bytes > FLOOR_BYTES;
            if stalled_ms < STALLED_FOR.as_millis() || !is_needed {
                continue;
            }
            let Some(handle) = place.handle() else {
                continue;
            };
            place.stalled_ms = IS_RESET;
            self.lending.resets += 1;
            self.lending.reset_bytes += place.cost_bytes;
            self.lending.reset_ranges += place.ranges;
            self.call(Call::Abort { handle });
        }
    }

    pub(super) fn want_memory(&mut self, connection: Connection) {
        if let Some(place) = self.connections.get_mut(connection)
            && !std::mem::replace(&mut place.wants_memory, true)
        {
            self.wanting.push_back(connection);
        }
    }

    /// Reports free memory to a connection that found none.
    pub(super) fn memory_again(&mut self) -> Option<Event> {
        while !self.wanting.is_empty() && self.pieces.has_room() {
            let connection = self.wanting.pop_front()?;
            if let Some(place) = self.connections.get_mut(connection) {
                place.wants_memory = false;
                return Some(Event::Sent {
                    connection,
                    bytes: 0,
                    window_bytes: place.window_bytes(),
                });
            }
        }
        None
    }
}
