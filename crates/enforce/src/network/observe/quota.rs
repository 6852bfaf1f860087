//! The files that say which CPU quotas bind a container.

use super::place::Place;
use crate::network::policy::OwnQuota;
use crate::tuning::network::{QUOTA_LOOK, QUOTA_PERIOD};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The quotas above and of one container, as last read.
#[derive(Debug)]
pub(super) struct QuotaFiles {
    looked: Option<Instant>,
    /// The tightest quota of its cgroup and those above, in CPUs.
    pub cpus: Option<f64>,
    /// Its own quota's period, or the kernel's default.
    pub period: Duration,
}

impl Default for QuotaFiles {
    fn default() -> Self {
        QuotaFiles {
            looked: None,
            cpus: None,
            period: QUOTA_PERIOD,
        }
    }
}

/// Of one cgroup directory.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::network) struct QuotaFile {
    pub file: PathBuf,
    pub quota: OwnQuota,
}

impl QuotaFiles {
    /// Looks at the files when it is time to. `own_us` is the container's own quota where its file
    /// holds a correction.
    pub fn look(&mut self, place: &Place, own_us: Option<f64>) {
        if self.looked.is_some_and(|at| at.elapsed() < QUOTA_LOOK) {
            return;
        }
        self.looked = Some(Instant::now());
        let cpu = place.cpu.as_ref();
        self.cpus = cpu.and_then(|(directory, v2)| tightest(directory, *v2, own_us));
        let own = place
            .quota()
            .map(|found| Duration::from_secs_f64(found.quota.period_us / 1e6));
        self.period = own.unwrap_or(QUOTA_PERIOD);
    }
}

/// The tightest quota from `directory` up, in CPUs. `own_us` is the container's own quota where its
/// file holds a correction.
fn tightest(directory: &Path, v2: bool, own_us: Option<f64>) -> Option<f64> {
    let file = if v2 { "cpu.max" } else { "cpu.cfs_quota_us" };
    let mut cpus: Option<f64> = None;
    // The root of a hierarchy has no such file.
    let with_file = directory.ancestors().take_while(|d| d.join(file).exists());
    for (level, at) in with_file.enumerate() {
        let Some(found) = read(at, v2) else { continue };
        let quota_us = own_us
            .filter(|_| level == 0)
            .unwrap_or(found.quota.quota_us);
        let here = quota_us / found.quota.period_us;
        cpus = Some(cpus.map_or(here, |least| least.min(here)));
    }
    cpus
}

/// The quota of one directory; `None` without one.
pub(in crate::network) fn read(directory: &Path, v2: bool) -> Option<QuotaFile> {
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
        quota: OwnQuota {
            quota_us,
            period_us,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

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
