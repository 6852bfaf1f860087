//! Idle time of each CPU, from `/proc/stat`.

use crate::network::policy::IdleParts;
use cofferdam_host::TICKS_PER_S;
use cofferdam_host::parse::cpu_ticks;
use cofferdam_types::CpuId;
use std::collections::HashMap;
use std::fs;
use std::time::Duration;

/// Idle ticks of each CPU at the last look.
#[derive(Debug, Default)]
pub(super) struct IdleTicks {
    by_cpu: HashMap<u32, u64>,
}

impl IdleTicks {
    /// Reads `/proc/stat`, `length` after the last time.
    pub fn look(&mut self, length: Duration) -> IdleParts {
        let text = fs::read_to_string("/proc/stat").unwrap_or_default();
        self.take(&text, length)
    }

    fn take(&mut self, text: &str, length: Duration) -> IdleParts {
        let seconds = length.as_secs_f64().max(1e-3);
        let since = cpu_ticks(text).filter_map(|(CpuId(cpu), ticks)| {
            // Idle and waiting for disks.
            let idle = ticks.get(3)? + ticks.get(4)?;
            let before = self.by_cpu.insert(cpu, idle)?;
            let idle_s = idle.saturating_sub(before) as f64 / TICKS_PER_S;
            Some((cpu, (idle_s / seconds).min(1.0)))
        });
        IdleParts {
            length,
            by_cpu: since.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_is_what_was_added_since_the_last_look() {
        let mut idle = IdleTicks::default();
        let text = |ticks: u64| {
            format!("cpu  1 1 1 1 1\ncpu0 9 9 9 500 7 0\ncpu1 9 9 9 {ticks} 7 0\nintr 1\n")
        };
        let length = Duration::from_millis(100);
        assert!(idle.take(&text(500), length).by_cpu.is_empty());
        let parts = idle.take(&text(505), length).by_cpu;
        assert_eq!(parts, [(0, 0.0), (1, 0.5)].into());
    }
}
