//! What else this host is doing: warnings that name the remedy, before figures are taken.

use crate::cpustat::{CpuStat, read};
use std::fs;
use std::time::Duration;

/// Looks at the two CPUs for `window` and at the load; returns warnings.
pub(crate) fn check(cpus: [u32; 2], window: Duration) -> Vec<String> {
    let before = cpus.map(read);
    std::thread::sleep(window);
    let mut warnings = Vec::new();
    for (i, cpu) in cpus.into_iter().enumerate() {
        if let (Some(earlier), Some(now)) = (before[i], read(cpu)) {
            warnings.extend(judge(cpu, now.since(&earlier)));
        }
    }
    if let Some(governor) = governor(cpus[0]).filter(|g| g != "performance") {
        warnings.push(format!(
            "CPU {} runs under the frequency governor '{governor}': set 'performance' (cpupower frequency-set -g performance) for steadier figures",
            cpus[0]
        ));
    }
    warnings
}

fn judge(cpu: u32, used: CpuStat) -> Vec<String> {
    let mut warnings = Vec::new();
    let total = used.total();
    if total <= 0.0 {
        return warnings;
    }
    let steal_pct = used.steal / total * 100.0;
    if steal_pct > 1.0 {
        warnings.push(format!(
            "the hypervisor takes {steal_pct:.0}% of CPU {cpu} (steal time): use a host with dedicated CPUs, or more pairs"
        ));
    }
    let busy_pct = (total - used.idle - used.steal) / total * 100.0;
    if busy_pct > 10.0 {
        warnings.push(format!(
            "CPU {cpu} is {busy_pct:.0}% busy before the start: stop other work, or choose other CPUs with --victim-cpu and --peer-cpu"
        ));
    }
    warnings
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
        assert!(judge(0, calm).is_empty());
        let noisy = CpuStat {
            idle: 50.0,
            busy: 40.0,
            softirq: 0.0,
            steal: 10.0,
        };
        let warnings = judge(3, noisy);
        assert_eq!(warnings.len(), 2);
        assert!(warnings[0].contains("10% of CPU 3") && warnings[1].contains("40% busy"));
    }
}
