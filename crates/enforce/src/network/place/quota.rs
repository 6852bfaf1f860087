//! Files of the CPU quotas that bind a container.

use crate::network::policy::OwnQuota;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Quota file of one cgroup directory.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::network) struct QuotaFile {
    pub file: PathBuf,
    pub quota: OwnQuota,
}

/// File whose value the kernel wants within a quota.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::network) struct Follower {
    pub file: PathBuf,
    /// Period of its cgroup, microseconds.
    pub period_us: f64,
}

/// Most child cgroups that are searched.
const MOST_BELOW: usize = 1_000;

/// Files that must stay within the quota of `directory`, the nearest first: its burst and, in v1,
/// quotas and bursts of the cgroups below (kernel/sched/core.c, `tg_set_cfs_bandwidth`,
/// `tg_cfs_schedulable_down`).
pub(super) fn followers(directory: &Path, v2: bool) -> Vec<Follower> {
    let mut files = Vec::new();
    let Some(own) = read(directory, v2) else {
        return files;
    };
    files.extend(burst(directory, v2, own.quota.period_us));
    let mut left = MOST_BELOW;
    if !v2 {
        add_below(directory, &mut files, &mut left);
    }
    files
}

fn burst(directory: &Path, v2: bool, period_us: f64) -> Option<Follower> {
    let name = if v2 {
        "cpu.max.burst"
    } else {
        "cpu.cfs_burst_us"
    };
    let file = directory.join(name);
    file.exists().then_some(Follower { file, period_us })
}

fn add_below(directory: &Path, files: &mut Vec<Follower>, left: &mut usize) {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let is_directory = |entry: &fs::DirEntry| entry.file_type().is_ok_and(|kind| kind.is_dir());
    for below in entries.filter(is_directory).map(|entry| entry.path()) {
        if *left == 0 {
            return;
        }
        *left -= 1;
        if let Some(found) = read(&below, false) {
            let period_us = found.quota.period_us;
            let file = found.file;
            files.push(Follower { file, period_us });
            files.extend(burst(&below, false, period_us));
        }
        add_below(&below, files, left);
    }
}

/// Quota of the nearest v1 cgroup above `directory` that has one, CPUs. The kernel accepts no more
/// below it.
pub(super) fn above(directory: &Path, v2: bool) -> Option<f64> {
    let above = directory.ancestors().skip(1).filter(|_| !v2);
    // The root of a hierarchy has no such file.
    let mut levels = above.map_while(|at| read_quota(at, false).ok());
    levels.find_map(|found| found.map(|found| found.quota.cpus()))
}

/// Tightest quota from `directory` up, CPUs. `own_us` is the container's own quota if its file
/// contains a correction.
pub(super) fn tightest(directory: &Path, v2: bool, own_us: Option<f64>) -> Option<f64> {
    let mut cpus: Option<f64> = None;
    // The root of a hierarchy has no such file.
    let levels = directory
        .ancestors()
        .map_while(|at| read_quota(at, v2).ok());
    for (level, found) in levels.enumerate() {
        let Some(found) = found else { continue };
        let quota_us = own_us
            .filter(|_| level == 0)
            .unwrap_or(found.quota.quota_us);
        let here = quota_us / found.quota.period_us;
        cpus = Some(cpus.map_or(here, |least| least.min(here)));
    }
    cpus
}

/// Quota of one directory; `None` without one.
pub(super) fn read(directory: &Path, v2: bool) -> Option<QuotaFile> {
    read_quota(directory, v2).ok().flatten()
}

/// Reads as [`read`] does, with an error if the file does not exist.
fn read_quota(directory: &Path, v2: bool) -> io::Result<Option<QuotaFile>> {
    let name = if v2 { "cpu.max" } else { "cpu.cfs_quota_us" };
    let file = directory.join(name);
    let text = fs::read_to_string(&file)?;
    let number = |text: &str| text.trim().parse().ok().filter(|n: &f64| *n > 0.0);
    let (quota, period) = text.trim().split_once(' ').unwrap_or((text.as_str(), ""));
    let Some(quota_us) = number(quota) else {
        return Ok(None);
    };
    let period_us = match v2 {
        true => number(period),
        false => number(&fs::read_to_string(directory.join("cpu.cfs_period_us"))?),
    };
    Ok(period_us.map(|period_us| QuotaFile {
        file,
        quota: OwnQuota {
            quota_us,
            period_us,
        },
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise 33.
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
        // The file contains a correction of ours.
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
