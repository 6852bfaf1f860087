//! Expired timers of the stack, and the application's calls for timers.

use super::Stack;
use super::timers::Timer;
use crate::api::{Time, TimerId};
use crate::tuning::neighbours::SILENT_TIMEOUTS;
use crate::tuning::timers::STALE_AT_ONCE;

impl Stack {
    /// Handles all expired timers.
    pub fn handle_timers(&mut self, now: Time) {
        while let Some(timer) = self.timers.take_due(now) {
            match timer {
                Timer::Connection(slot) => self.connection_due(slot, now),
                Timer::TimeWait => {
                    while self.time_wait.next_end().is_some_and(|end| end <= now) {
                        self.drop_old_time_wait(now);
                    }
                    self.arm_time_wait();
                }
                Timer::Neighbour(slot) => self.neighbour_due(slot, now),
                Timer::Application(slot) => {
                    if let Some(at) = self.app_timers.wake(slot, now) {
                        self.timers.arm(timer, at);
                    }
                }
            }
        }
    }

    /// Handles the wheel's expiry of a connection's timer, which may be early: see
    /// [`Timers::arm_no_later`].
    ///
    /// [`Timers::arm_no_later`]: super::timers::Timers::arm_no_later
    fn connection_due(&mut self, slot: u32, now: Time) {
        let tcb = self.connections.tcb_mut(slot);
        if tcb.notices.has_ended() {
            return;
        }
        if tcb.deadline().is_some_and(|at| at <= now) {
            let before = tcb.timers().retries();
            let context = &mut self.ranges.context(&self.config, &mut self.counters, now);
            let resets = tcb.tick(context);
            let (retries, key) = (tcb.timers().retries(), tcb.key);
            if retries > before && retries >= SILENT_TIMEOUTS {
                self.suspect_neighbour(&key, now);
            }
            if resets {
                self.send_reset(slot, now);
            }
            self.update_tables(slot);
        } else if let Some(at) = tcb.deadline() {
            self.timers.arm(Timer::Connection(slot), at);
        }
    }

    /// Moment of the next call of [`Self::handle_timers`]; it may be early, never late.
    pub fn poll_at(&self) -> Option<Time> {
        self.timers.next()
    }

    /// Moment of the next call of [`Self::handle_timers`] for a caller that sleeps. It is more
    /// exact and more expensive than [`Self::poll_at`]; it may be early, never late.
    pub fn sleep_until(&mut self) -> Option<Time> {
        for _ in 0..STALE_AT_ONCE {
            let (timer, at) = self.timers.first()?;
            let Timer::Connection(slot) = timer else {
                return Some(at);
            };
            // The wheel's expiry may be before the connection's deadline.
            let tcb = self.connections.tcb(slot);
            match tcb.deadline().filter(|_| !tcb.notices.has_ended()) {
                None => self.timers.disarm(timer),
                Some(real) if real > at => self.timers.arm(timer, real),
                Some(_) => return Some(at),
            }
        }
        self.poll_at()
    }

    /// Requests [`Event::Timer`](crate::Event::Timer) at a moment. Returns `None` if the table is
    /// full.
    pub fn set_timer(&mut self, at: Time, cookie: u64) -> Option<TimerId> {
        let timer = self.app_timers.add(at, cookie)?;
        self.timers.arm(Timer::Application(timer.slot), at);
        Some(timer)
    }

    /// Cancels all timers whose cookie satisfies `is_theirs`, and returns their number. Examines
    /// every timer.
    pub fn cancel_timers(&mut self, is_theirs: impl Fn(u64) -> bool) -> u32 {
        let mut count = 0;
        let timers = &mut self.timers;
        self.app_timers.remove_all(is_theirs, |slot| {
            timers.disarm(Timer::Application(slot));
            count += 1;
        });
        count
    }

    /// Cancels a timer. Returns `false` if the handle is stale.
    pub fn cancel_timer(&mut self, timer: TimerId) -> bool {
        let is_there = self.app_timers.remove(timer);
        if is_there {
            self.timers.disarm(Timer::Application(timer.slot));
        }
        is_there
    }
}
