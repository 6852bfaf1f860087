//! Idle time of each CPU, from `/proc/stat`.

use crate::network::policy::IdleParts;
use crate::ticks::TickParts;
use std::fs;
use std::time::Duration;

/// Columns `idle` and `iowait`.
const IDLE: &[usize] = &[3, 4];

/// Idle ticks of each CPU at the last reading.
#[derive(Debug)]
pub(super) struct IdleTicks(TickParts);

impl Default for IdleTicks {
    fn default() -> IdleTicks {
        IdleTicks(TickParts::new(IDLE))
    }
}

impl IdleTicks {
    /// Reads `/proc/stat`, `length` after the last call.
    pub fn update(&mut self, length: Duration) -> IdleParts {
        let text = fs::read_to_string("/proc/stat").unwrap_or_default();
        self.take(&text, length)
    }

    fn take(&mut self, text: &str, length: Duration) -> IdleParts {
        IdleParts {
            length,
            by_cpu: self.0.update(text, length),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_time_is_counted_since_the_last_reading() {
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
