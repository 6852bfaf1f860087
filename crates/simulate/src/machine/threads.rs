//! Behaviour of threads: runs, sleeps, barriers.

use super::average::Average;
use crate::scenario::Behaviour;

/// State of one thread.
#[derive(Clone, Debug)]
pub(super) struct Thread {
    /// Tenant of the thread.
    pub tenant: usize,
    /// Barrier of the thread, if it has one.
    pub barrier: Option<usize>,
    pub behaviour: Behaviour,
    /// CPU time until the end of its run; `None`: no end.
    pub left_ns: Option<u64>,
    /// Last time that it ran.
    pub ran_at_ns: u64,
    /// Time of its wake-up, until it runs.
    pub woken_ns: Option<u64>,
    pub is_asleep: bool,
    /// Part of its time in which it was runnable.
    pub average: Average,
    /// Whether it has never been in a run queue.
    pub is_new: bool,
}

/// Threads of one load, and their barrier.
#[derive(Clone, Debug, Default)]
pub(super) struct Barrier {
    pub members: Vec<usize>,
    pub arrived: usize,
}

impl Thread {
    pub fn new(tenant: usize, barrier: Option<usize>, behaviour: Behaviour) -> Thread {
        Thread {
            tenant,
            barrier,
            behaviour,
            left_ns: None,
            ran_at_ns: 0,
            woken_ns: None,
            is_asleep: true,
            average: Average::new(1.0, 0),
            is_new: true,
        }
    }

    /// Draws the next run.
    pub fn next_run(&mut self, random: &mut fastrand::Rng) {
        self.left_ns = match self.behaviour {
            Behaviour::CpuBound => None,
            Behaviour::Periodic { run_ns, .. } | Behaviour::Phases { run_ns } => Some(run_ns),
            Behaviour::Bursts { mean_run_ns, .. } => Some(exponential(mean_run_ns, random).max(1)),
        };
    }

    /// Draws the sleep after a run; not used with barriers.
    pub fn next_sleep_ns(&self, random: &mut fastrand::Rng) -> u64 {
        match self.behaviour {
            Behaviour::CpuBound | Behaviour::Phases { .. } => 0,
            Behaviour::Periodic { sleep_ns, .. } => sleep_ns,
            Behaviour::Bursts { mean_sleep_ns, .. } => exponential(mean_sleep_ns, random),
        }
    }

    /// Time of the first wake-up, drawn so that equal threads do not run in step.
    pub fn first_wake_ns(&self, random: &mut fastrand::Rng) -> u64 {
        match self.behaviour {
            Behaviour::CpuBound | Behaviour::Phases { .. } => 0,
            Behaviour::Periodic { run_ns, sleep_ns } => random.u64(0..run_ns + sleep_ns),
            Behaviour::Bursts { mean_sleep_ns, .. } => exponential(mean_sleep_ns, random),
        }
    }

    /// Updates its average to now.
    pub fn update_average(&mut self, now_ns: u64) {
        let was = if self.is_asleep { 0.0 } else { 1.0 };
        self.average.update(now_ns, was);
    }
}

/// Draws an exponentially distributed time with the mean `mean_ns`, at most twenty times that.
fn exponential(mean_ns: u64, random: &mut fastrand::Rng) -> u64 {
    let uniform = 1.0 - random.f64();
    ((-uniform.ln()).min(20.0) * mean_ns as f64) as u64
}
