//! Cgroups with a tenant's limits, for runtimes that set none.

use super::tenant::{Limit, TenantSpec};
use crate::error::BenchError;
use cofferdam_lab::UndoStack;
use cofferdam_lab::cgroup::{Cgroup, enable, layout, mounts, remove, remove_below};
use cofferdam_lab::names::CGROUP_PREFIX;
use std::path::{Path, PathBuf};

/// Period of the quotas, microseconds.
const PERIOD_US: u64 = 100_000;

/// Makes a tenant's cgroup in every hierarchy, with the limit of `spec`.
pub(super) fn make_limited(
    tag: &str,
    spec: &TenantSpec,
    undo: &mut UndoStack,
) -> Result<Vec<PathBuf>, BenchError> {
    let layout = layout()?;
    enable(
        &layout,
        &["cpu", "memory", "io"],
        &layout.v2_mount,
        Some(undo),
    )?;
    let mounts = mounts(&layout, &["cpu", "cpuacct", "memory", "blkio"]);
    let group = Cgroup::make(&mounts, &Path::new("/").join(name(tag, spec)), undo)?;
    for dir in group.dirs() {
        below(dir, undo);
    }
    if let Some(limit) = &spec.limit {
        group.set(&files(limit))?;
    }
    Ok(group.dirs().to_vec())
}

/// Registers the removal of a tenant's cgroups in the hierarchies without a controller: a runtime
/// that manages cgroups itself (nspawn) makes them there too.
pub(super) fn take_named(
    tag: &str,
    spec: &TenantSpec,
    undo: &mut UndoStack,
) -> Result<(), BenchError> {
    take_below(&layout()?.v1_named, &name(tag, spec), undo);
    Ok(())
}

/// Registers the removal of cgroups called `name` directly below `roots`, if they exist then.
fn take_below(roots: &[PathBuf], name: &str, undo: &mut UndoStack) {
    for root in roots {
        let dir = root.join(name);
        let own = dir.clone();
        undo.push(format!("cgroup {}", dir.display()), move || remove(&own));
        below(&dir, undo);
    }
}

/// Name of a tenant's cgroup in each hierarchy.
fn name(tag: &str, spec: &TenantSpec) -> String {
    format!("{CGROUP_PREFIX}{tag}-{}", spec.name)
}

/// Registers the removal of cgroups below `dir`, before that of `dir`.
fn below(dir: &Path, undo: &mut UndoStack) {
    let group = dir.to_owned();
    undo.push(format!("cgroups below {}", dir.display()), move || {
        remove_below(&group)
    });
}

/// Files of v1 and v2 that set a limit.
fn files(limit: &Limit) -> Vec<(&'static str, String)> {
    match limit {
        Limit::Cpus(cpus) => {
            let quota = (cpus * PERIOD_US as f64).round();
            vec![
                ("cpu.cfs_quota_us", format!("{quota}")),
                ("cpu.max", format!("{quota} {PERIOD_US}")),
            ]
        }
        Limit::Memory(bytes) => vec![
            ("memory.limit_in_bytes", bytes.to_string()),
            ("memory.max", bytes.to_string()),
            ("memory.swap.max", "0".to_owned()),
        ],
        Limit::Disk {
            device,
            reads,
            writes,
        } => vec![
            (
                "blkio.throttle.read_iops_device",
                format!("{device} {reads}"),
            ),
            (
                "blkio.throttle.write_iops_device",
                format!("{device} {writes}"),
            ),
            ("io.max", format!("{device} riops={reads} wiops={writes}")),
        ],
        // HTB on the interface limits it.
        Limit::Network(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// Plain directories are removed like cgroups: one by one, when they are empty.
    /// Other directories of the hierarchy stay.
    /// Promise 43.
    #[test]
    fn only_cgroups_of_the_runtime_are_removed() {
        let root = tempfile::tempdir().unwrap();
        let roots = [root.path().to_owned()];
        let other = root.path().join("other");
        fs::create_dir(&other).unwrap();
        let mut undo = UndoStack::default();
        take_below(&roots, "tenant", &mut undo);
        take_below(&roots, "never-made", &mut undo);
        fs::create_dir_all(root.path().join("tenant/payload/inner")).unwrap();
        fs::create_dir(root.path().join("tenant/supervisor")).unwrap();
        drop(undo);
        assert!(!root.path().join("tenant").exists());
        assert!(other.exists());
    }
}
