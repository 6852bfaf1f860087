//! What else this host is doing: warnings that name the remedy, before figures are taken.

use crate::cpustat::{CpuStat, read};
use std::fs;
use std::time::Duration;

/// Share of a CPU in other work from which on nothing can be judged, percent.
const BUSY_PCT: f64 = 10.0;
/// Share of a CPU that the hypervisor takes from which on it is told, percent.
const STEAL_PCT: f64 = 1.0;

/// Share of the CPUs that the hypervisor takes from which on a measurement is disturbed, 0 to 1: it is
/// made again where an experiment can.
pub const DISTURBING_STEAL: f64 = 0.05;

/// What was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Noise {
    /// Each names its remedy.
    pub warnings: Vec<String>,
    /// It was so much that nothing can be judged.
    pub is_busy: bool,
}

/// Looks at the two CPUs for `window` and at the load. `placed_by` names the options that choose
/// other CPUs, where the command has any.
pub(crate) fn check(cpus: [u32; 2], window: Duration, placed_by: Option<&str>) -> Noise {
    let before = cpus.map(read);
    std::thread::sleep(window);
    let mut noise = Noise::default();
    for (i, cpu) in cpus.into_iter().enumerate() {
        if let (Some(earlier), Some(now)) = (before[i], read(cpu)) {
            judge(&mut noise, cpu, now.since(&earlier), placed_by);
        }
    }
    if let Some(governor) = governor(cpus[0]).filter(|g| g != "performance") {
        noise.warnings.push(format!(
            "CPU {} runs under the frequency governor '{governor}': set 'performance' (cpupower frequency-set -g performance) for more stable figures",
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
            "the hypervisor takes {steal_pct:.0}% of CPU {cpu} (steal time): use a host with dedicated CPUs, or measure more often"
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
        let told = judged(3, noisy, None);
        assert!(told.is_busy && told.warnings.len() == 2);
        assert!(told.warnings[0].contains("10% of CPU 3"));
        assert!(told.warnings[1].ends_with("40% busy before the start: stop other work"));
        // Named only where the command has these options.
        let told = judged(3, noisy, Some("--victim-cpu"));
        assert!(
            told.warnings[1].ends_with("stop other work, or choose other CPUs with --victim-cpu")
        );
        let taken = CpuStat {
            steal: 4.0,
            idle: 96.0,
            busy: 0.0,
            softirq: 0.0,
        };
        let told = judged(3, taken, None);
        assert!(!told.is_busy && told.warnings.len() == 1, "{told:?}");
    }
}
