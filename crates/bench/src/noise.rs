//! Check for other work on this host before a measurement. Each warning names its remedy.

use crate::cpustat::{CpuStat, read};
use std::fs;
use std::time::Duration;

/// Share of a CPU in other work above which nothing can be judged, percent.
const BUSY_PCT: f64 = 10.0;
/// Share of a CPU taken by the hypervisor above which a warning is given, percent.
const STEAL_PCT: f64 = 1.0;

/// Share of the CPUs taken by the hypervisor above which a measurement is disturbed, 0 to 1.
/// Experiments that can do so repeat it.
pub const DISTURBING_STEAL: f64 = 0.05;

/// Time over which other work is measured.
const WINDOW: Duration = Duration::from_millis(500);
/// Most busy windows before a run begins all the same: 20 s.
const MOST_WINDOWS: u32 = 40;

/// Result of the check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Noise {
    /// Warnings, each with its remedy.
    pub warnings: Vec<String>,
    /// Whether the noise is so high that nothing can be judged.
    pub is_busy: bool,
}

/// Measures two CPUs until they are calm, at most [`MOST_WINDOWS`] times: a build that has just
/// ended should not cost a run its verdict. Calls `wait` after each busy window with the reason;
/// `wait` returns false to stop waiting. `placed_by` names the options that choose other CPUs, if
/// the command has any.
pub(crate) fn await_calm(
    cpus: [u32; 2],
    placed_by: Option<&str>,
    wait: impl FnMut(&str) -> bool,
) -> Noise {
    until_calm(|| check(cpus, placed_by), wait)
}

fn until_calm(mut measure: impl FnMut() -> Noise, mut wait: impl FnMut(&str) -> bool) -> Noise {
    let mut noise = measure();
    for _ in 1..MOST_WINDOWS {
        let reason = noise.warnings.first().map_or("", String::as_str);
        if !noise.is_busy || !wait(&format!("waiting for a calm host: {reason}")) {
            break;
        }
        noise = measure();
    }
    noise
}

/// Measures the two CPUs for [`WINDOW`], and reads the frequency governor.
fn check(cpus: [u32; 2], placed_by: Option<&str>) -> Noise {
    let before = cpus.map(read);
    std::thread::sleep(WINDOW);
    let mut noise = Noise::default();
    for (i, cpu) in cpus.into_iter().enumerate() {
        if let (Some(earlier), Some(now)) = (before[i], read(cpu)) {
            judge(&mut noise, cpu, now.since(&earlier), placed_by);
        }
    }
    if let Some(governor) = governor(cpus[0]).filter(|g| g != "performance") {
        noise.warnings.push(format!(
            "CPU {} runs under the frequency governor '{governor}': set 'performance' \
             (cpupower frequency-set -g performance) for more stable figures",
            cpus[0]
        ));
    }
    noise
}

fn judge(noise: &mut Noise, cpu: u32, used: CpuStat, placed_by: Option<&str>) {
    let total = used.total();
    if total <= 0.0 {
        return;
    }
    let steal_pct = used.steal / total * 100.0;
    if steal_pct > STEAL_PCT {
        noise.warnings.push(format!(
            "the hypervisor takes {steal_pct:.0}% of CPU {cpu} (steal time): use a host with \
             dedicated CPUs, or measure more often"
        ));
    }
    let busy_pct = (total - used.idle - used.steal) / total * 100.0;
    if busy_pct > BUSY_PCT {
        let elsewhere = placed_by.map_or(String::new(), |options| {
            format!(", or choose other CPUs with {options}")
        });
        noise.warnings.push(format!(
            "CPU {cpu} is {busy_pct:.0}% busy before the start: stop other work{elsewhere}"
        ));
    }
    noise.is_busy |= busy_pct > BUSY_PCT || steal_pct > DISTURBING_STEAL * 100.0;
}

fn governor(cpu: u32) -> Option<String> {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_governor");
    fs::read_to_string(path).ok().map(|g| g.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise 44.
    #[test]
    fn a_run_waits_for_a_calm_host() {
        let busy = |is_busy| Noise {
            warnings: vec!["CPU 0 is 40% busy".to_owned()],
            is_busy,
        };
        let measured = |busy_windows: u32, patience: u32| {
            let (mut windows, mut reasons) = (0, Vec::new());
            let noise = until_calm(
                || {
                    windows += 1;
                    busy(windows <= busy_windows)
                },
                |reason| {
                    reasons.push(reason.to_owned());
                    (reasons.len() as u32) < patience
                },
            );
            (noise.is_busy, windows, reasons.len())
        };
        assert_eq!(measured(0, 100), (false, 1, 0));
        assert_eq!(measured(3, 100), (false, 4, 3));
        // The user interrupts the wait; the host never becomes calm.
        assert_eq!(measured(3, 2), (true, 2, 2));
        assert_eq!(measured(1_000, 100), (true, MOST_WINDOWS, 39));
    }

    /// Promise 76.
    #[test]
    fn judges() {
        let calm = CpuStat {
            idle: 98.0,
            busy: 2.0,
            softirq: 0.0,
            steal: 0.0,
        };
        let judged = |cpu, used, placed_by| {
            let mut noise = Noise::default();
            judge(&mut noise, cpu, used, placed_by);
            noise
        };
        assert_eq!(judged(0, calm, None), Noise::default());
        let noisy = CpuStat {
            idle: 50.0,
            busy: 40.0,
            softirq: 0.0,
            steal: 10.0,
        };
        let noise = judged(3, noisy, None);
        assert!(noise.is_busy && noise.warnings.len() == 2);
        assert!(noise.warnings[0].contains("10% of CPU 3"));
        assert!(noise.warnings[1].ends_with("40% busy before the start: stop other work"));
        // The warning names these options only if the command has them.
        let noise = judged(3, noisy, Some("--victim-cpu"));
        assert!(
            noise.warnings[1].ends_with("stop other work, or choose other CPUs with --victim-cpu")
        );
        let taken = CpuStat {
            steal: 4.0,
            idle: 96.0,
            busy: 0.0,
            softirq: 0.0,
        };
        let noise = judged(3, taken, None);
        assert!(!noise.is_busy && noise.warnings.len() == 1, "{noise:?}");
    }
}
