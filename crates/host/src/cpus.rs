//! Lists of CPUs.

use crate::fs::HostFs;
use crate::{HostError, procfs};
use cofferdam_types::CpuId;

/// Returns the CPUs that are online.
pub fn online_cpus(fs: &HostFs) -> Result<Vec<CpuId>, HostError> {
    list(fs, "/sys/devices/system/cpu/online")
}

/// Returns the CPUs that may ever be online: per-CPU maps have one value for each.
pub fn possible_cpus(fs: &HostFs) -> Result<Vec<CpuId>, HostError> {
    list(fs, "/sys/devices/system/cpu/possible")
}

fn list(fs: &HostFs, path: &str) -> Result<Vec<CpuId>, HostError> {
    let text = fs.read_text(path).map_err(HostError::reading(path))?;
    procfs::cpu_list(&text).ok_or_else(|| HostError::Content {
        path: path.into(),
        text: text.trim().chars().take(80).collect(),
    })
}
