//! Cgroups of our own with a tenant's limits, for runtimes that have none.

use super::runtime::{Limit, TenantSpec};
use crate::error::BenchError;
use crate::topology::Layout;
use crate::topology::cgroup::{enable, make, remove, write};
use crate::topology::sweep::CGROUP_PREFIX;
use cofferdam_lab::UndoStack;
use std::fs;
use std::path::{Path, PathBuf};

/// Quotas are given over this.
const PERIOD_US: u64 = 100_000;

/// A tenant's cgroup in every hierarchy, limited as `spec` has it.
pub(super) fn make_limited(
    tag: &str,
    spec: &TenantSpec,
    undo: &mut UndoStack,
) -> Result<Vec<PathBuf>, BenchError> {
    let layout = Layout::detect()?;
    let mut dirs = Vec::new();
    for root in layout.roots_with_limits() {
        if Some(&root) == layout.v2.as_ref() {
            for (controller, v1) in [
                ("cpu", &layout.v1_cpu),
                ("memory", &layout.v1_memory),
                ("io", &layout.v1_blkio),
            ] {
                if v1.is_none() {
                    enable(controller, &root, Some(undo))?;
                }
            }
        }
        let dir = root.join(name(tag, spec));
        make(&dir, undo)?;
        below(&dir, undo);
        if let Some(limit) = &spec.limit {
            set(&dir, limit)?;
        }
        dirs.push(dir);
    }
    Ok(dirs)
}

/// A runtime that manages cgroups itself (nspawn) makes the tenant's in the hierarchies without a
/// controller too: they go with the tenant.
pub(super) fn take_named(
    tag: &str,
    spec: &TenantSpec,
    undo: &mut UndoStack,
) -> Result<(), BenchError> {
    take_below(&Layout::detect()?.v1_named, &name(tag, spec), undo);
    Ok(())
}

/// Cgroups called `name` right below `roots` go, if they are there by then.
fn take_below(roots: &[PathBuf], name: &str, undo: &mut UndoStack) {
    for root in roots {
        let dir = root.join(name);
        let own = dir.clone();
        undo.push(format!("cgroup {}", dir.display()), move || {
            match own.exists() {
                true => remove(&own).map_err(|e| e.to_string()),
                false => Ok(()),
            }
        });
        below(&dir, undo);
    }
}

/// A tenant's cgroup in each hierarchy.
fn name(tag: &str, spec: &TenantSpec) -> String {
    format!("{CGROUP_PREFIX}{tag}-{}", spec.name)
}

/// What is made below `dir` goes before it.
fn below(dir: &Path, undo: &mut UndoStack) {
    let made = dir.to_owned();
    undo.push(
        format!("cgroups below {}", dir.display()),
        move || match made.exists() {
            true => remove_below(&made).map_err(|e| e.to_string()),
            false => Ok(()),
        },
    );
}

/// Removes the cgroups that a runtime made in one of ours, innermost first.
fn remove_below(dir: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(dir)?.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            remove_below(&entry.path())?;
            remove(&entry.path())?;
        }
    }
    Ok(())
}

/// Writes what of a limit's files is in `dir`.
fn set(dir: &Path, limit: &Limit) -> Result<(), BenchError> {
    for (file, value) in files(limit) {
        let path = dir.join(file);
        if path.exists() {
            write(&path, &value)?;
        }
    }
    Ok(())
}

/// The files of v1 and v2 that hold a limit.
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
        // By HTB on its interface.
        Limit::Network(_) => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plain directories are removed as cgroups are: one by one, when they are empty.
    #[test]
    fn what_a_runtime_made_in_another_hierarchy_goes_and_the_rest_stays() {
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
