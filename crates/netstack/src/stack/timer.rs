//! Timers: their places on the wheel, what they lead to, and those of the application.

use super::{Stack, context};
use crate::api::{Event, Limits, Time, TimerId};
use crate::core::slots::Slots;
use std::collections::VecDeque;

/// Timers that [`Stack::sleep_until`] puts right at a time.
const STALE_AT_ONCE: usize = 64;

/// Which numbers on the wheel are whose.
#[derive(Debug, Clone, Copy)]
pub struct Timers {
    // Connections have 0.. .
    pub time_wait: u32,
    pub neighbours: u32,
    pub app: u32,
    pub count: u32,
}

impl Timers {
    pub const fn of(limits: &Limits) -> Self {
        let time_wait = limits.connections;
        let neighbours = time_wait + 1;
        let app = neighbours + limits.neighbours;
        Self {
            time_wait,
            neighbours,
            app,
            count: app + limits.timers,
        }
    }
}

/// The application's timers.
#[derive(Debug)]
pub struct AppTimers {
    slots: Slots,
    timers: Vec<(Time, u64)>,
    due: VecDeque<u32>,
}

impl AppTimers {
    pub fn new(count: u32) -> Self {
        Self {
            slots: Slots::new(count),
            timers: vec![(Time::ZERO, 0); count as usize],
            due: VecDeque::with_capacity(count as usize),
        }
    }

    pub fn len(&self) -> u32 {
        self.slots.used()
    }

    /// The next due timer as an event.
    pub fn poll(&mut self) -> Option<Event> {
        loop {
            let slot = self.due.pop_front()?;
            // Cancelled after it was due.
            if !self.slots.is_used(slot) {
                continue;
            }
            let timer = TimerId {
                slot,
                generation: self.slots.generation(slot),
            };
            let cookie = self.timers[slot as usize].1;
            self.slots.free(slot);
            return Some(Event::Timer { timer, cookie });
        }
    }
}

impl Stack {
    /// Does what is due by now.
    pub fn handle_timers(&mut self, now: Time) {
        let timers = Timers::of(&self.config.limits);
        while let Some(id) = self.wheel.take_due(now.as_nanos()) {
            if id < timers.time_wait {
                self.connection_due(id, now);
            } else if id == timers.time_wait {
                while self.time_wait.next_end().is_some_and(|end| end <= now) {
                    self.drop_old_time_wait(now);
                }
                self.arm_time_wait();
            } else if id < timers.app {
                self.neighbour_due(id - timers.neighbours, now);
            } else {
                self.app_timer_due(id - timers.app, now);
            }
        }
    }

    /// The wheel may wake a connection before its deadline: see `Wheel::arm_no_later`.
    fn connection_due(&mut self, slot: u32, now: Time) {
        let tcb = self.connections.tcb_mut(slot);
        if tcb.notices.has_ended() {
            return;
        }
        if tcb.deadline().is_some_and(|at| at <= now) {
            tcb.tick(&mut context!(self, now));
            self.settle(slot);
        } else if let Some(at) = tcb.deadline() {
            self.wheel.arm(slot, at.as_nanos());
        }
    }

    /// When [`Self::handle_timers`] next has something to do, for a caller that sleeps until then:
    /// more exact than [`Self::poll_at`], and dearer. May be early, never late.
    pub fn sleep_until(&mut self) -> Option<Time> {
        let timers = Timers::of(&self.config.limits);
        for _ in 0..STALE_AT_ONCE {
            let (id, at) = self.wheel.first()?;
            let tcb = (id < timers.time_wait).then(|| self.connections.tcb(id));
            let Some(tcb) = tcb else {
                return Some(Time::from_nanos(at));
            };
            // The wheel may wake a connection before its deadline.
            match tcb.deadline().filter(|_| !tcb.notices.has_ended()) {
                None => self.wheel.disarm(id),
                Some(real) if real.as_nanos() > at => self.wheel.arm(id, real.as_nanos()),
                Some(_) => return Some(Time::from_nanos(at)),
            }
        }
        self.poll_at()
    }

    fn app_timer_due(&mut self, slot: u32, now: Time) {
        let at = self.app_timers.timers[slot as usize].0;
        if at <= now {
            self.app_timers.due.push_back(slot);
        } else {
            self.wheel
                .arm(Timers::of(&self.config.limits).app + slot, at.as_nanos());
        }
    }

    /// Asks for [`Event::Timer`] at a moment. `None` when the table is full.
    pub fn set_timer(&mut self, at: Time, cookie: u64) -> Option<TimerId> {
        let slot = self.app_timers.slots.take()?;
        self.app_timers.timers[slot as usize] = (at, cookie);
        self.wheel
            .arm(Timers::of(&self.config.limits).app + slot, at.as_nanos());
        Some(TimerId {
            slot,
            generation: self.app_timers.slots.generation(slot),
        })
    }

    /// Forgets all timers whose cookie `is_theirs`; how many. Looks at all there are.
    pub fn cancel_timers(&mut self, is_theirs: impl Fn(u64) -> bool) -> u32 {
        let mut count = 0;
        for slot in 0..self.app_timers.slots.count() {
            let timer = TimerId {
                slot,
                generation: self.app_timers.slots.generation(slot),
            };
            if is_theirs(self.app_timers.timers[slot as usize].1) {
                count += u32::from(self.cancel_timer(timer));
            }
        }
        count
    }

    /// Forgets a timer; `false` when the handle names none.
    pub fn cancel_timer(&mut self, timer: TimerId) -> bool {
        let found = self
            .app_timers
            .slots
            .check(timer.slot, timer.generation)
            .is_some();
        if found {
            self.wheel
                .disarm(Timers::of(&self.config.limits).app + timer.slot);
            self.app_timers.due.retain(|slot| *slot != timer.slot);
            self.app_timers.slots.free(timer.slot);
        }
        found
    }
}
