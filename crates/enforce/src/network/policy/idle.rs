//! Idle time by CPU, and the CPUs that are fully used.

use super::facts::IdleParts;
use crate::tuning::network::{FULL_IDLE_PART, IDLE_MEMORY_S};
use std::collections::HashMap;

/// Idle part of each CPU, smoothed.
#[derive(Debug, Default)]
pub(super) struct IdleTime {
    by_cpu: HashMap<u32, f64>,
}

impl IdleTime {
    /// Adds the idle parts since the last call.
    pub fn update(&mut self, idle: &IdleParts) {
        let keep = (-idle.length.as_secs_f64() / IDLE_MEMORY_S).exp();
        for (cpu, part) in &idle.by_cpu {
            let smooth = self.by_cpu.entry(*cpu).or_insert(*part);
            *smooth = *smooth * keep + part * (1.0 - keep);
        }
    }

    /// Whether a task that wants to run on `cpu` must wait for another.
    pub fn is_full(&self, cpu: u32) -> bool {
        let idle = self.by_cpu.get(&cpu);
        idle.is_some_and(|idle| *idle < FULL_IDLE_PART)
    }

    /// The fully used CPUs among `cpus`.
    pub fn full(&self, cpus: &[u32]) -> Vec<u32> {
        let cpus = cpus.iter().copied();
        cpus.filter(|cpu| self.is_full(*cpu)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_cpu_is_full_when_its_idle_time_stands_still() {
        let mut idle = IdleTime::default();
        for _ in 0..40 {
            idle.update(&IdleParts {
                length: Duration::from_millis(50),
                by_cpu: [(0, 0.0), (1, 0.8)].into(),
            });
        }
        assert_eq!(idle.full(&[0, 1, 2]), [0]);
    }
}
