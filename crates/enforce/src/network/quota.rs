//! A container's CPU quota: how much it may use, and what of that is left for its packets.

use super::control::{Debt, LOWEST_BUDGET, Rates};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How often the files are looked at again: somebody may set or lift a quota at any time.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// The kernel's default period.
const PERIOD: Duration = Duration::from_millis(100);
/// Of a quota that a container's packets and its tasks both want, each has this part.
const HALF: f64 = 0.5;
/// Packets that pass always have this part, whatever it costs to drop the others: a flood must not
/// silence whom it floods.
const QUARTER: f64 = 0.25;

/// The quotas above and of one container.
#[derive(Debug, Default)]
pub(super) struct Quota {
    looked: Option<Instant>,
    /// CPUs that it may use: the tightest quota of its cgroup and those above.
    cpus: Option<f64>,
    /// Its own quota's period, or the kernel's default.
    period: Duration,
    /// What it used beyond.
    pub debt: Debt,
}

/// Of one cgroup directory.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct QuotaFile {
    pub file: PathBuf,
    pub quota_us: f64,
    pub period_us: f64,
}

impl Quota {
    /// Looks at the files when it is time to. `directory` has the CPU controller's files, `own_us`
    /// is the container's own quota where the file holds one of ours.
    pub fn look(&mut self, cpu: Option<&(PathBuf, bool)>, own_us: Option<f64>, now: Instant) {
        if self.looked.is_some_and(|at| now - at < LOOK_AGAIN) {
            return;
        }
        self.looked = Some(now);
        self.cpus = cpu.and_then(|(directory, v2)| tightest(directory, *v2, own_us));
        let own = cpu.and_then(|(directory, v2)| read(directory, *v2));
        let own = own.map(|found| Duration::from_secs_f64(found.period_us / 1e6));
        self.period = own.unwrap_or(PERIOD);
        if self.cpus.is_none() {
            self.debt.lapse();
        }
    }

    /// How long its packets may save up, so that they come in bursts as its tasks run: a task that
    /// has used up its quota reads nothing until the next period, and then all that has waited.
    /// `None` without a quota.
    pub fn saves_up(&self) -> Option<Duration> {
        self.cpus.map(|_| self.period)
    }

    /// CPUs that it may use; `None` without a quota.
    pub fn cpus(&self) -> Option<f64> {
        self.cpus
    }

    /// Takes in an interval in which it used `used` CPUs, its packets included.
    pub fn update(&mut self, used: f64, length: Duration, bound: Duration) {
        if let Some(cpus) = self.cpus {
            self.debt.update(used, cpus, length, bound);
        }
    }

    /// Network CPU, in CPUs, that it may cause anywhere: what its tasks leave of its quota. Where
    /// both want more than half, half: neither can stop the other. `dropping` CPUs went into packets
    /// that were dropped: those come out of the packets' half, down to a quarter.
    pub fn budget(&self, rates: &Rates, dropping: f64) -> Option<f64> {
        let cpus = self.cpus?;
        let left = cpus - self.debt.payment();
        let all = left - rates.own_work_anywhere() - dropping;
        let floor = (left * HALF - dropping).max(left * QUARTER);
        Some(all.max(floor).max(cpus * LOWEST_BUDGET))
    }

    /// What of its own quota `cpus` is left for its tasks once its packets are paid. With `bounded`
    /// packets are dropped, and it is for them to pay the debt: its tasks keep their half. What it
    /// costs to drop them grows with the flood, not with what the container does.
    pub fn left_for_tasks(&self, cpus: f64, rates: &Rates, bounded: bool) -> f64 {
        let left = cpus - self.debt.payment();
        let floor = if bounded { cpus * HALF } else { 0.0 };
        (left - rates.owed()).max(floor).max(cpus * LOWEST_BUDGET)
    }
}

/// The tightest quota from `directory` up, in CPUs.
fn tightest(directory: &Path, v2: bool, own_us: Option<f64>) -> Option<f64> {
    let file = if v2 { "cpu.max" } else { "cpu.cfs_quota_us" };
    let mut cpus: Option<f64> = None;
    // The root of a hierarchy has no such file.
    let with_file = directory.ancestors().take_while(|d| d.join(file).exists());
    for (level, at) in with_file.enumerate() {
        let Some(found) = read(at, v2) else { continue };
        let quota_us = own_us.filter(|_| level == 0).unwrap_or(found.quota_us);
        let here = quota_us / found.period_us;
        cpus = Some(cpus.map_or(here, |least| least.min(here)));
    }
    cpus
}

/// The quota of one directory; `None` without one.
pub(super) fn read(directory: &Path, v2: bool) -> Option<QuotaFile> {
    let read = |file: &str| fs::read_to_string(directory.join(file)).ok();
    let (file, quota, period) = if v2 {
        let text = read("cpu.max")?;
        let (quota, period) = text.trim().split_once(' ')?;
        ("cpu.max", quota.to_owned(), period.to_owned())
    } else {
        (
            "cpu.cfs_quota_us",
            read("cpu.cfs_quota_us")?,
            read("cpu.cfs_period_us")?,
        )
    };
    let quota_us: f64 = quota.trim().parse().ok()?;
    let period_us: f64 = period.trim().parse().ok()?;
    (quota_us > 0.0 && period_us > 0.0).then(|| QuotaFile {
        file: directory.join(file),
        quota_us,
        period_us,
    })
}

#[cfg(test)]
mod tests {
    use super::super::control::Use;
    use super::*;

    const STEP: Duration = Duration::from_millis(20);
    const BOUND: Duration = Duration::from_secs(1);

    fn under(cpus: f64) -> Quota {
        Quota {
            cpus: Some(cpus),
            ..Quota::default()
        }
    }

    /// A model: packets cost what they may, tasks use what the quota leaves them and `wants`. To
    /// drop the rest of what is offered costs `dropping`.
    fn settle(quota: &mut Quota, offered: f64, wants: f64, dropping: f64) -> (f64, f64) {
        let (mut rates, mut packets, mut tasks) = (Rates::default(), offered, 0.0);
        let cpus = quota.cpus.unwrap();
        let ns = |part: f64| part * STEP.as_nanos() as f64;
        for _ in 0..600 {
            rates.update(
                &Use {
                    usage_ns: ns(tasks),
                    caused_ns: ns(packets + dropping),
                    owed_ns: ns(packets + dropping),
                    ..Use::default()
                },
                STEP,
            );
            quota.update(rates.corrected_anywhere() - dropping, STEP, BOUND);
            packets = quota.budget(&rates, dropping).unwrap().min(offered);
            tasks = quota.left_for_tasks(cpus, &rates, true).min(wants);
        }
        (packets, tasks)
    }

    #[test]
    fn packets_and_tasks_share_the_quota_and_neither_stops_the_other() {
        for (offered, wants) in [(1.0, 1.0), (1.0, 0.05), (0.02, 1.0)] {
            let (packets, tasks) = settle(&mut under(0.2), offered, wants, 0.0);
            let facts = format!("{offered} {wants}: {packets:.3} {tasks:.3}");
            assert!(packets + tasks < 0.21, "{facts}");
            assert!(
                packets + tasks > 0.19_f64.min(offered + wants) * 0.9,
                "{facts}"
            );
            assert!(tasks > 0.09_f64.min(wants * 0.9), "{facts}");
        }
    }

    /// Dropping alone takes more than the quota: what it needs passes all the same.
    #[test]
    fn a_flood_does_not_silence_whom_it_floods() {
        let (packets, tasks) = settle(&mut under(0.2), 1.0, 0.03, 0.3);
        assert!((0.045..0.055).contains(&packets), "{packets:.3}");
        assert!(tasks > 0.029, "{tasks:.3}");
        // A cheap flood takes from the packets' half, no more than it costs.
        let (packets, _) = settle(&mut under(0.2), 1.0, 1.0, 0.02);
        assert!((0.075..0.085).contains(&packets), "{packets:.3}");
    }

    #[test]
    fn the_tightest_quota_up_to_the_root_counts() {
        let root = tempfile::tempdir().unwrap();
        let (pod, own) = (root.path().join("pod"), root.path().join("pod/own"));
        fs::create_dir_all(&own).unwrap();
        let write = |at: &Path, text: &str| fs::write(at.join("cpu.max"), text).unwrap();
        write(&pod, "50000 100000\n");
        write(&own, "max 100000\n");
        assert_eq!(tightest(&own, true, None), Some(0.5));
        write(&own, "20000 100000\n");
        assert_eq!(tightest(&own, true, None), Some(0.2));
        // The file holds a correction of ours.
        assert_eq!(tightest(&own, true, Some(60_000.0)), Some(0.5));
        write(&pod, "max 100000\n");
        assert_eq!(tightest(&own, true, Some(60_000.0)), Some(0.6));
        for (file, text) in [
            ("cpu.cfs_quota_us", "-1\n"),
            ("cpu.cfs_period_us", "100000\n"),
        ] {
            fs::write(pod.join(file), text).unwrap();
        }
        assert_eq!(tightest(&pod, false, None), None);
    }
}
