//! Clocks of the loop: nanoseconds for the stacks, cycles for its counts.

use cofferdam_netstack::Time;
use std::time::Instant;

/// Time-stamp counter, which costs a third of a clock reading.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn cycles() -> u64 {
    // SAFETY: every x86-64 CPU has it; it reads a register.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Nanoseconds, if the CPU has no time-stamp counter.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) fn cycles() -> u64 {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// Clock of the stacks: nanoseconds since the start of the dataplane. All cores have the same
/// clock, because flow groups move with their times.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock(Instant);

impl Clock {
    pub fn new() -> Clock {
        Clock(Instant::now())
    }

    pub fn now(&self) -> Time {
        Time::from_nanos(u64::try_from(self.0.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}
