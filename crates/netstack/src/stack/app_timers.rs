//! Timers of applications.

use crate::api::{Event, Time, TimerId};
use crate::core::slots::Slots;
use std::collections::VecDeque;

/// Timers of applications.
#[derive(Debug)]
pub struct AppTimers {
    slots: Slots,
    timers: Vec<(Time, u64)>,
    /// Slots of expired timers that are not reported yet.
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

    fn id(&self, slot: u32) -> TimerId {
        TimerId {
            slot,
            generation: self.slots.generation(slot),
        }
    }

    /// Adds a timer for a moment. Returns `None` if the table is full.
    pub fn add(&mut self, at: Time, cookie: u64) -> Option<TimerId> {
        let slot = self.slots.take()?;
        self.timers[slot as usize] = (at, cookie);
        Some(self.id(slot))
    }

    /// Handles the wheel's expiry of the timer in this slot. Returns the moment for another expiry
    /// if it was too early.
    pub fn wake(&mut self, slot: u32, now: Time) -> Option<Time> {
        let at = self.timers[slot as usize].0;
        if at <= now {
            self.due.push_back(slot);
        }
        (at > now).then_some(at)
    }

    /// Removes all timers whose cookie satisfies `is_theirs`, and calls `removed` with the slot of
    /// each. Examines every timer once.
    pub fn remove_all(&mut self, is_theirs: impl Fn(u64) -> bool, mut removed: impl FnMut(u32)) {
        let Self { slots, timers, due } = self;
        due.retain(|slot| !is_theirs(timers[*slot as usize].1));
        for slot in (0..slots.count()).filter(|slot| is_theirs(timers[*slot as usize].1)) {
            if slots.is_used(slot) {
                slots.free(slot);
                removed(slot);
            }
        }
    }

    /// Removes a timer. Returns `false` if the handle is stale.
    pub fn remove(&mut self, timer: TimerId) -> bool {
        let is_there = self.slots.check(timer.slot, timer.generation).is_some();
        if is_there {
            self.due.retain(|slot| *slot != timer.slot);
            self.slots.free(timer.slot);
        }
        is_there
    }

    /// Next expired timer as an event.
    pub fn poll(&mut self) -> Option<Event> {
        loop {
            let slot = self.due.pop_front()?;
            // The timer was cancelled after its expiry.
            if !self.slots.is_used(slot) {
                continue;
            }
            let timer = self.id(slot);
            let cookie = self.timers[slot as usize].1;
            self.slots.free(slot);
            return Some(Event::Timer { timer, cookie });
        }
    }
}
