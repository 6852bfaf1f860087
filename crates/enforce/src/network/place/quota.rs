//! The files that say which CPU quotas bind a container.

use crate::network::policy::OwnQuota;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Of one cgroup directory.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::network) struct QuotaFile {
    pub file: PathBuf,
    pub quota: OwnQuota,
}

/// The tightest quota from `directory` up, in CPUs. `own_us` is the container's own quota where its
/// file holds a correction.
pub(super) fn tightest(directory: &Path, v2: bool, own_us: Option<f64>) -> Option<f64> {
    let mut cpus: Option<f64> = None;
    // The root of a hierarchy has no such file.
    let levels = directory.ancestors().map_while(|at| look(at, v2).ok());
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

/// The quota of one directory; `None` without one.
pub(super) fn read(directory: &Path, v2: bool) -> Option<QuotaFile> {
    look(directory, v2).ok().flatten()
}

/// As [`read`]; an error where there is no such file.
fn look(directory: &Path, v2: bool) -> io::Result<Option<QuotaFile>> {
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
