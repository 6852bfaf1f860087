//! Which CPUs have nothing left to give.

use std::collections::HashMap;
use std::fs;

/// Time constant of the idle fraction, seconds; `/proc/stat` counts in ticks of 10 ms.
const MEMORY_S: f64 = 0.05;
/// A CPU with less idle time than this is taken to be fully used.
const FULL: f64 = 0.15;

/// Idle time of each CPU.
#[derive(Debug, Default)]
pub(super) struct IdleTime {
    ticks: HashMap<u32, u64>,
    idle: HashMap<u32, f64>,
}

impl IdleTime {
    /// Reads `/proc/stat`, `seconds` after the last time.
    pub fn update(&mut self, seconds: f64) {
        let text = fs::read_to_string("/proc/stat").unwrap_or_default();
        self.take(&text, seconds);
    }

    fn take(&mut self, text: &str, seconds: f64) {
        for line in text.lines().take_while(|line| line.starts_with("cpu")) {
            let Some((cpu, ticks)) = parse(line) else {
                continue;
            };
            let Some(before) = self.ticks.insert(cpu, ticks) else {
                continue;
            };
            let part = (ticks.saturating_sub(before) as f64 / 100.0 / seconds.max(1e-3)).min(1.0);
            let keep = (-seconds / MEMORY_S).exp();
            let idle = self.idle.entry(cpu).or_insert(part);
            *idle = *idle * keep + part * (1.0 - keep);
        }
    }

    /// Whether somebody must wait when somebody else runs there.
    pub fn is_full(&self, cpu: u32) -> bool {
        self.idle.get(&cpu).is_some_and(|idle| *idle < FULL)
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
    fn a_cpu_is_full_when_its_idle_time_stands_still() {
        let mut idle = IdleTime::default();
        for i in 0..40 {
            let text = format!(
                "cpu  1 1 1 1 1\ncpu0 9 9 9 500 7 0\ncpu1 9 9 9 {} 7 0\nintr 1\n",
                500 + 4 * i
            );
            idle.take(&text, 0.05);
        }
        assert!(idle.is_full(0));
        assert!(!idle.is_full(1));
        assert!(!idle.is_full(2));
    }
}
