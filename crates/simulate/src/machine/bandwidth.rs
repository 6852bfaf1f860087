//! Pool of a CFS quota: filled each period, taken by CPUs in slices, returned by idle ones.
//! Sources: kernel/sched/fair.c (`assign_cfs_rq_runtime`, `__return_cfs_rq_runtime`,
//! `distribute_cfs_runtime`) and Documentation/scheduler/sched-bwc.rst.

use crate::scenario::Quota;
use std::collections::VecDeque;

/// Runtime that a CPU takes from the pool at once (`sched_cfs_bandwidth_slice_us`).
pub(crate) const BANDWIDTH_SLICE_NS: i64 = 5_000_000;
/// Runtime that an idle CPU keeps when it returns the rest (`min_cfs_rq_runtime`).
pub(crate) const IDLE_RUNTIME_NS: i64 = 1_000_000;
/// Time after which returned runtime goes to throttled CPUs (`cfs_bandwidth_slack_period`).
pub(crate) const SLACK_NS: u64 = 5_000_000;
/// Shortest time before a new period for that (`min_bandwidth_expiration`).
const NEAR_PERIOD_NS: u64 = 2_000_000;

/// Pool of one cgroup.
#[derive(Clone, Debug)]
pub(super) struct Bandwidth {
    quota_ns: i64,
    period_ns: u64,
    pool_ns: i64,
    /// Whether its period timer runs.
    pub is_active: bool,
    /// Whether no CPU has taken anything since the last period began.
    is_idle: bool,
    next_period_ns: u64,
    /// Throttled CPUs, the longest throttled first.
    pub throttled: VecDeque<usize>,
    slack_armed: bool,
}

impl Bandwidth {
    pub fn new(quota: Quota) -> Bandwidth {
        let quota_ns = i64::try_from(quota.quota_ns).unwrap_or(i64::MAX);
        Bandwidth {
            quota_ns,
            period_ns: quota.period_ns,
            pool_ns: quota_ns,
            is_active: false,
            is_idle: false,
            next_period_ns: 0,
            throttled: VecDeque::new(),
            slack_armed: false,
        }
    }

    /// Starts the timer with the first demand; returns the end of the first period.
    pub fn start(&mut self, now_ns: u64) -> Option<u64> {
        if self.is_active {
            return None;
        }
        self.is_active = true;
        self.next_period_ns = now_ns + self.period_ns;
        Some(self.next_period_ns)
    }

    /// Takes runtime for a CPU that has `has_ns` left: up to a full slice, as far as the pool
    /// lasts.
    pub fn take(&mut self, has_ns: i64) -> i64 {
        self.is_idle = false;
        let taken = (BANDWIDTH_SLICE_NS - has_ns).min(self.pool_ns).max(0);
        self.pool_ns -= taken;
        taken
    }

    /// Takes runtime back from a CPU that went idle with `has_ns` left. Returns the amount, and the
    /// time at which it goes to throttled CPUs.
    pub fn return_runtime(&mut self, has_ns: i64, now_ns: u64) -> (i64, Option<u64>) {
        let returned_ns = has_ns - IDLE_RUNTIME_NS;
        if returned_ns <= 0 {
            return (0, None);
        }
        self.pool_ns += returned_ns;
        let arms = self.pool_ns > BANDWIDTH_SLICE_NS
            && !self.throttled.is_empty()
            && !self.slack_armed
            && self.next_period_ns > now_ns + SLACK_NS + NEAR_PERIOD_NS;
        self.slack_armed |= arms;
        (returned_ns, arms.then_some(now_ns + SLACK_NS))
    }

    /// Starts a period. Returns the time of the next, or `None` if the timer stops because no CPU
    /// ran.
    pub fn refill(&mut self, now_ns: u64) -> Option<u64> {
        if self.is_idle && self.throttled.is_empty() {
            self.is_active = false;
            // A timer that is started again finds a full pool.
            self.pool_ns = self.quota_ns;
            return None;
        }
        self.is_idle = true;
        self.pool_ns = self.quota_ns;
        self.next_period_ns = now_ns + self.period_ns;
        Some(self.next_period_ns)
    }

    /// Handles the end of the slack timer.
    pub fn slack(&mut self) {
        self.slack_armed = false;
    }

    /// Runtime that a throttled CPU with `has_ns` (its debt) gets so that it may run again.
    pub fn pay(&mut self, has_ns: i64) -> i64 {
        let paid = (1 - has_ns).min(self.pool_ns).max(0);
        self.pool_ns -= paid;
        self.is_idle = false;
        paid
    }

    pub fn is_dry(&self) -> bool {
        self.pool_ns <= 0
    }
}
