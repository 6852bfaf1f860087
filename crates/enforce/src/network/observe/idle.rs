//! Idle time of each CPU, from `/proc/stat`.

use crate::network::policy::IdleParts;
use std::collections::HashMap;
use std::fs;
use std::time::Duration;

/// `/proc/stat` counts in `USER_HZ`, which is 100 for user space on every architecture.
const TICKS_PER_S: f64 = 100.0;

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
        let lines = text.lines().take_while(|line| line.starts_with("cpu"));
        let since = lines.filter_map(parse).filter_map(|(cpu, ticks)| {
            let before = self.by_cpu.insert(cpu, ticks)?;
            let idle_s = ticks.saturating_sub(before) as f64 / TICKS_PER_S;
            Some((cpu, (idle_s / seconds).min(1.0)))
        });
        IdleParts {
            length,
            by_cpu: since.collect(),
        }
    }
}

/// CPU number and its idle ticks (idle and waiting for disks).
fn parse(line: &str) -> Option<(u32, u64)> {
    let mut fields = line.strip_prefix("cpu")?.split_whitespace();
    let cpu = fields.next()?.parse().ok()?;
    let mut idle = fields.skip(3);
    let ticks: u64 = idle.next()?.parse().ok()?;
    Some((cpu, ticks + idle.next()?.parse::<u64>().ok()?))
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
