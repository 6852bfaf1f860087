//! Timing wheel for connections, TIME_WAIT, neighbours and application timers.

use crate::api::{Limits, Time};
use crate::core::wheel::Wheel;

/// Owner of a timer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timer {
    /// Connection in this slot.
    Connection(u32),
    /// Oldest TIME_WAIT entry.
    TimeWait,
    /// Neighbour in this slot.
    Neighbour(u32),
    /// Application timer in this slot.
    Application(u32),
}

/// All timers of a stack.
#[derive(Debug)]
pub struct Timers {
    wheel: Wheel,
    // First numbers on the wheel; those of connections begin at 0.
    time_wait: u32,
    neighbours: u32,
    application: u32,
}

impl Timers {
    /// A wheel with a timer for each connection, neighbour and application timer.
    pub fn new(limits: &Limits, now: Time) -> Self {
        let time_wait = limits.connection_places();
        let neighbours = time_wait + 1;
        let application = neighbours + limits.neighbours;
        let count = application + limits.timers;
        Self {
            wheel: Wheel::new(count as usize, now.as_nanos()),
            time_wait,
            neighbours,
            application,
        }
    }

    #[inline]
    fn number(&self, timer: Timer) -> u32 {
        match timer {
            Timer::Connection(slot) => slot,
            Timer::TimeWait => self.time_wait,
            Timer::Neighbour(slot) => self.neighbours + slot,
            Timer::Application(slot) => self.application + slot,
        }
    }

    fn timer(&self, number: u32) -> Timer {
        if number < self.time_wait {
            Timer::Connection(number)
        } else if number == self.time_wait {
            Timer::TimeWait
        } else if number < self.application {
            Timer::Neighbour(number - self.neighbours)
        } else {
            Timer::Application(number - self.application)
        }
    }

    /// Arms a timer for `at`.
    #[inline]
    pub fn arm(&mut self, timer: Timer, at: Time) {
        self.wheel.arm(self.number(timer), at.as_nanos());
    }

    /// Arms a timer for `at` unless it is due earlier: see [`Wheel::arm_no_later`].
    #[inline]
    pub fn arm_no_later(&mut self, timer: Timer, at: Time) {
        self.wheel.arm_no_later(self.number(timer), at.as_nanos());
    }

    /// Disarms a timer.
    pub fn disarm(&mut self, timer: Timer) {
        self.wheel.disarm(self.number(timer));
    }

    /// Removes and returns an expired timer.
    pub fn take_due(&mut self, now: Time) -> Option<Timer> {
        let number = self.wheel.take_due(now.as_nanos())?;
        Some(self.timer(number))
    }

    /// Expiry of the next timer; it may be early, never late.
    #[inline]
    pub fn next(&self) -> Option<Time> {
        self.wheel.next_ns().map(Time::from_nanos)
    }

    /// Next timer and its expiry.
    pub fn first(&self) -> Option<(Timer, Time)> {
        let (number, at_ns) = self.wheel.first()?;
        Some((self.timer(number), Time::from_nanos(at_ns)))
    }

    /// Number of armed timers.
    pub fn armed(&self) -> u32 {
        self.wheel.armed()
    }
}
