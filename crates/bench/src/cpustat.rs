//! Times of one CPU from `/proc/stat`, in clock ticks. A kernel without IRQ_TIME_ACCOUNTING samples
//! them at each tick: rough, but always available.

use cofferdam_host::parse::cpu_ticks;
use std::fs;
use std::ops::Sub;

/// Times of one CPU by use, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct CpuStat {
    /// Idle and iowait.
    pub idle: f64,
    /// User, nice, system, hardirq.
    pub busy: f64,
    /// Softirq.
    pub softirq: f64,
    /// Taken by the hypervisor.
    pub steal: f64,
}

impl CpuStat {
    pub fn total(&self) -> f64 {
        self.idle + self.busy + self.softirq + self.steal
    }

    pub fn since(&self, earlier: &CpuStat) -> CpuStat {
        let minus = |now: f64, old: f64| f64::max(now.sub(old), 0.0);
        CpuStat {
            idle: minus(self.idle, earlier.idle),
            busy: minus(self.busy, earlier.busy),
            softirq: minus(self.softirq, earlier.softirq),
            steal: minus(self.steal, earlier.steal),
        }
    }

    /// Shares of softirq and of steal, 0 to 1; `None` if no tick has passed.
    pub fn fractions(&self) -> Option<(f64, f64)> {
        let total = self.total();
        (total > 0.0).then(|| (self.softirq / total, self.steal / total))
    }
}

/// Reads the line of one CPU.
pub(crate) fn read(cpu: u32) -> Option<CpuStat> {
    parse(&fs::read_to_string("/proc/stat").ok()?, cpu)
}

fn parse(text: &str, cpu: u32) -> Option<CpuStat> {
    let (_, ticks) = cpu_ticks(text).find(|(id, _)| id.0 == cpu)?;
    let ticks: Vec<f64> = ticks.into_iter().map(|ticks| ticks as f64).collect();
    let [user, nice, system, idle, iowait, irq, softirq, steal, ..] = ticks[..] else {
        return None;
    };
    Some(CpuStat {
        idle: idle + iowait,
        busy: user + nice + system + irq,
        softirq,
        steal,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_right_cpu() {
        let text =
            "cpu  9 9 9 9 9 9 9 9 0 0\ncpu1 1 2 3 4 5 6 7 8 0 0\ncpu10 0 0 0 0 0 0 0 0 0 0\n";
        let expected = CpuStat {
            idle: 9.0,
            busy: 12.0,
            softirq: 7.0,
            steal: 8.0,
        };
        assert_eq!(parse(text, 1), Some(expected));
        assert_eq!(parse(text, 2), None);
        assert!(read(0).is_some());
    }

    #[test]
    fn fractions_of_a_difference() {
        let early = CpuStat {
            idle: 10.0,
            busy: 10.0,
            softirq: 0.0,
            steal: 0.0,
        };
        let late = CpuStat {
            idle: 10.0,
            busy: 70.0,
            softirq: 30.0,
            steal: 10.0,
        };
        assert_eq!(late.since(&early).fractions(), Some((0.3, 0.1)));
        assert_eq!(early.since(&early).fractions(), None);
    }
}
