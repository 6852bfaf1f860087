//! Timestamps of a connection (RFC 7323): our clock, and the peer's value to echo.

use super::{isn, seq};
use crate::api::Time;
use crate::tuning::loss::ECHO_LIMIT_MS;
use std::time::Duration;

/// Lifetime of a remembered timestamp (RFC 7323, 5.5: 24 days).
const VALID: Duration = Duration::from_secs(24 * 86_400);

/// Our clock and the peer's. [`super::terms::Terms`] decides whether they are used.
#[derive(Debug, Clone, Copy)]
pub struct Timestamps {
    /// Offset of the millisecond clock (RFC 7323, 5.4).
    offset: u32,
    /// Peer's value to echo (`TS.Recent`), and its arrival time.
    recent: u32,
    recent_at: Time,
}

impl Timestamps {
    /// The state before the peer's first timestamp.
    pub fn new(offset: u32, now: Time) -> Self {
        Self {
            offset,
            recent: 0,
            recent_at: now,
        }
    }

    /// Whether a value is not older than the last one (PAWS; RFC 7323, 5.3).
    pub fn is_fresh(&self, value: u32, now: Time) -> bool {
        !seq::lt(value, self.recent) || now.since(self.recent_at) > VALID
    }

    /// Stores the value to echo.
    pub fn remember(&mut self, value: u32, now: Time) {
        (self.recent, self.recent_at) = (value, now);
    }

    /// Stores the value to echo unless it is older than the current one.
    pub fn remember_newer(&mut self, value: u32, now: Time) {
        if !seq::lt(value, self.recent) {
            self.remember(value, now);
        }
    }

    /// Timestamp option of a segment: our value and the peer's.
    pub fn option(&self, now: Time) -> (u32, u32) {
        (isn::timestamp(now, self.offset), self.recent)
    }

    /// Round trip according to an echo (RFC 7323, 4), rounded up to the clock's millisecond. `None`
    /// if the value cannot be one of this connection's.
    pub fn round_trip(&self, echo: u32, now: Time) -> Option<Duration> {
        let ms = isn::timestamp(now, self.offset).wrapping_sub(echo);
        (ms < ECHO_LIMIT_MS).then(|| Duration::from_millis(u64::from(ms) + 1))
    }

    /// Whether `echo` is a value that was sent between two moments.
    pub fn was_sent(&self, echo: u32, from: Time, to: Time) -> bool {
        let first = isn::timestamp(from, self.offset);
        let last = isn::timestamp(to, self.offset);
        seq::le(first, echo) && seq::le(echo, last)
    }

    /// Values that TIME_WAIT needs: the peer's timestamp and our offset.
    pub const fn time_wait_values(&self) -> (u32, u32) {
        (self.recent, self.offset)
    }
}
