//! Rules for lending reserved CPUs and reclaiming them.
//!
//! Two means work together. While a CPU is lent, standard containers may run on it, and the owner
//! has the kernel's largest weight. A task of the owner that wakes preempts them at once, within
//! the scheduler. If it stays, it has more than 99% of the CPU (256 to 1 against the default
//! weight). A wake-up therefore never waits for the agent. An owner that keeps its CPUs busy has
//! nothing to lend, and its borrowers would hardly run. The agent then reclaims the CPUs through
//! the borrowers' cpusets. Time that the hypervisor gives to other machines counts for neither
//! side: an owner that gets the rest keeps its CPUs busy.
//!
//! Rejected: narrowing cpusets at each wake-up, because user space is too slow for 1 kHz. Rejected:
//! `cpu.idle` for the borrowers. It preempts as fast, but removes their relative weights on every
//! CPU, and lets host processes starve them. Rejected: a short slice for the owner's threads. It
//! does not keep the reservation by itself, and must be set for every thread.

use std::ops::Sub;
use std::time::Duration;

/// Shortest time over which CPU use is measured. Shorter: a single burst reclaims a CPU.
pub const WINDOW: Duration = Duration::from_millis(50);
/// Busy part, in thousandths of the reservation, at which CPUs are reclaimed.
pub const RECLAIM_MILLI: u64 = 950;
/// Busy part, in thousandths of the reservation, below which CPUs are lent. The gap to
/// [`RECLAIM_MILLI`] keeps a steady owner from alternating.
pub const LEND_MILLI: u64 = 850;
/// Time before reclaimed CPUs are lent again: each change of a cpuset pauses the whole scheduler.
pub const LEND_AGAIN_AFTER: Duration = Duration::from_millis(500);

/// Lending of one owner. `T` is a point in time: an `Instant`, or the time of a simulation.
#[derive(Clone, Debug)]
pub struct Lending<T> {
    last: Option<(T, u64)>,
    reclaimed_at: Option<T>,
    lent: bool,
}

impl<T> Default for Lending<T> {
    fn default() -> Lending<T> {
        Lending {
            last: None,
            reclaimed_at: None,
            lent: false,
        }
    }
}

/// Whether the quotas of standard containers, in thousandths of a CPU, allow them more than their
/// `shared_cpus`: only then do they gain by lending. `None` is no quota.
pub fn is_wanted(shared_cpus: usize, quotas: impl IntoIterator<Item = Option<u64>>) -> bool {
    let mut quotas = quotas.into_iter();
    let sum = quotas.try_fold(0u64, |sum, one| sum.checked_add(one?));
    sum.is_none_or(|milli| milli > shared_cpus as u64 * 1000)
}

impl<T: Copy + Sub<Output = Duration>> Lending<T> {
    /// Whether its CPUs are lent now.
    pub fn is_lent(&self) -> bool {
        self.lent
    }

    /// Decides by the owner's CPU use so far. `milli_cpus` is its reservation, `stolen_milli` the
    /// thousandths of its CPUs' time that the hypervisor took: an owner that gets the whole rest is
    /// busy. Returns whether the decision changed.
    pub fn update(&mut self, now: T, used_ns: u64, milli_cpus: u32, stolen_milli: u32) -> bool {
        let Some((then, before)) = self.last else {
            self.last = Some((now, used_ns));
            return false;
        };
        let passed = now - then;
        if passed < WINDOW {
            return false;
        }
        self.last = Some((now, used_ns));
        let left_milli = 1000_u32.saturating_sub(stolen_milli);
        let reserved_ns =
            passed.as_nanos() * u128::from(milli_cpus) * u128::from(left_milli) / 1_000_000;
        let busy = u128::from(used_ns.saturating_sub(before)) * 1000 / reserved_ns.max(1);
        let busy = u64::try_from(busy).unwrap_or(u64::MAX);
        let rested = self
            .reclaimed_at
            .is_none_or(|at| now - at >= LEND_AGAIN_AFTER);
        match self.lent {
            true if busy >= RECLAIM_MILLI => {
                self.lent = false;
                self.reclaimed_at = Some(now);
                true
            }
            false if busy < LEND_MILLI && rested => {
                self.lent = true;
                true
            }
            _ => false,
        }
    }

    /// Stops lending.
    pub fn stop(&mut self) {
        *self = Lending::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    const MS: u64 = 1_000_000;

    #[test]
    fn an_idle_owner_lends_and_a_busy_one_reclaims() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut lending = Lending::default();
        assert!(!lending.update(at(0), 0, 1000, 0), "nothing is known yet");
        assert!(!lending.update(at(10), 0, 1000, 0), "too short to tell");
        assert!(lending.update(at(100), 10 * MS, 1000, 0));
        assert!(lending.is_lent());
        assert!(
            !lending.update(at(200), 100 * MS, 1000, 0),
            "90% is in between"
        );
        assert!(lending.update(at(300), 199 * MS, 1000, 0));
        assert!(!lending.is_lent());
        assert!(!lending.update(at(400), 199 * MS, 1000, 0), "it must rest");
        assert!(lending.update(at(800), 199 * MS, 1000, 0));
    }

    #[test]
    fn half_of_two_cpus_is_idle() {
        let start = Instant::now();
        let mut lending = Lending::default();
        lending.update(start, 0, 2000, 0);
        assert!(lending.update(start + Duration::from_millis(100), 100 * MS, 2000, 0));
    }

    /// Promise 37.
    #[test]
    fn an_owner_that_gets_all_unstolen_time_is_busy() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut lending = Lending::default();
        lending.update(at(0), 0, 1000, 100);
        assert!(
            !lending.update(at(100), 80 * MS, 1000, 100),
            "80 of 90 is in between"
        );
        assert!(lending.update(at(200), 90 * MS, 1000, 100));
        assert!(
            lending.update(at(300), 176 * MS, 1000, 100),
            "86 of 90 is busy"
        );
        assert!(!lending.is_lent());
        assert!(
            lending.update(at(900), 176 * MS, 1000, 1000),
            "all is stolen"
        );
    }

    #[test]
    fn a_count_that_goes_backwards_does_no_harm() {
        let start = Instant::now();
        let mut lending = Lending::default();
        lending.update(start, 500 * MS, 1, 0);
        assert!(lending.update(start + Duration::from_secs(1), 0, 1, 0));
        assert!(lending.update(start + Duration::from_secs(2), u64::MAX, 1, 0));
        assert!(!lending.is_lent());
    }
}
