//! One timing wheel for all: connections, TIME_WAIT, neighbours, the application's timers.

use crate::api::{Limits, Time};
use crate::core::wheel::Wheel;

/// Whose timer it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Timer {
    /// The connection in this slot.
    Connection(u32),
    /// The oldest entry in TIME_WAIT.
    TimeWait,
    /// The neighbour in this slot.
    Neighbour(u32),
    /// The application's timer in this slot.
    Application(u32),
}

/// All timers.
#[derive(Debug)]
pub struct Timers {
    wheel: Wheel,
    // Numbers on the wheel. Connections have 0.. .
    time_wait: u32,
    neighbours: u32,
    application: u32,
}

impl Timers {
    /// Room for a timer of each.
    pub fn new(limits: &Limits, now: Time) -> Self {
        let time_wait = limits.connections;
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

    /// The timer is due at `at`.
    #[inline]
    pub fn arm(&mut self, timer: Timer, at: Time) {
        self.wheel.arm(self.number(timer), at.as_nanos());
    }

    /// The timer is due at `at`, or before: see [`Wheel::arm_no_later`].
    #[inline]
    pub fn arm_no_later(&mut self, timer: Timer, at: Time) {
        self.wheel.arm_no_later(self.number(timer), at.as_nanos());
    }

    /// The timer is not due.
    pub fn disarm(&mut self, timer: Timer) {
        self.wheel.disarm(self.number(timer));
    }

    /// Takes a timer that is due by now.
    pub fn take_due(&mut self, now: Time) -> Option<Timer> {
        let number = self.wheel.take_due(now.as_nanos())?;
        Some(self.timer(number))
    }

    /// When the next timer is due; may be early, never late.
    #[inline]
    pub fn next(&self) -> Option<Time> {
        self.wheel.next_ns().map(Time::from_nanos)
    }

    /// The next timer, and when it is due.
    pub fn first(&self) -> Option<(Timer, Time)> {
        let (number, at_ns) = self.wheel.first()?;
        Some((self.timer(number), Time::from_nanos(at_ns)))
    }

    /// Timers armed.
    pub fn armed(&self) -> u32 {
        self.wheel.armed()
    }
}
