//! Writes cpusets, so that the kernel takes each step and taking back goes the same way.

use super::places::Directory;
use crate::cpus::{Cpus, read_list, spell};
use crate::journal::{ChangeError, Form, Journal, Target, Written};
use cofferdam_host::HostFs;
use std::path::Path;

/// What the container's cpuset would be without us: `None` inside when it has none of its own.
pub(super) fn base(
    fs: &HostFs,
    journal: &Journal,
    directory: &Path,
) -> std::io::Result<Option<Cpus>> {
    let path = directory.join("cpuset.cpus");
    let target = Target::file(&fs.path(&path))?;
    match journal.before(&target) {
        Some(text) => Ok(read_list(text)),
        None => Ok(read_list(&fs.read_text(&path)?)),
    }
}

/// Gives a container the CPUs `wanted`. Returns whether another program had written its cpuset
/// since.
///
/// v1 wants every child within its parent: a cgroup is first widened, then its children are
/// set, then it is narrowed. Children keep what they have of `wanted`, or get all of it.
pub(super) fn set(
    fs: &HostFs,
    journal: &mut Journal,
    directory: &Directory,
    wanted: &Cpus,
) -> Result<bool, ChangeError> {
    let file = fs.path(directory.path.join("cpuset.cpus"));
    if directory.v1 {
        let children = fs.directories(&directory.path).unwrap_or_default();
        if !children.is_empty() {
            let now = fs.read_text(directory.path.join("cpuset.cpus"));
            let now = now.ok().and_then(|text| read_list(&text));
            if let Some(now) = now
                && !now.is_superset(wanted)
            {
                let both = now.union(wanted).copied().collect();
                journal.set_file(&file, Form::CpuList, &spell(&both))?;
            }
            for child in children {
                let child = Directory {
                    path: directory.path.join(child),
                    v1: true,
                };
                let Ok(Some(base)) = base(fs, journal, &child.path) else {
                    continue;
                };
                let mut part: Cpus = base.intersection(wanted).copied().collect();
                if part.is_empty() {
                    part.clone_from(wanted);
                }
                match set(fs, journal, &child, &part) {
                    Err(e) if !e.vanished() => return Err(e),
                    _ => {}
                }
            }
        }
    }
    let written = journal.set_file(&file, Form::CpuList, &spell(wanted))?;
    Ok(matches!(written, Written::AfterRewrite(_)))
}

/// Notes a cpuset as ours that is not our writing: its runtime made the container with `cpus`, as we
/// had asked. Without that it would have had what the cgroup above it has.
pub(super) fn adopt(
    fs: &HostFs,
    journal: &mut Journal,
    directory: &Directory,
    cpus: &str,
) -> Result<(), ChangeError> {
    let file = fs.path(directory.path.join("cpuset.cpus"));
    let above = match (directory.parent(), directory.v1) {
        (None, _) => return Ok(()),
        (Some(parent), true) => parent.join("cpuset.cpus"),
        (Some(parent), false) => parent.join("cpuset.cpus.effective"),
    };
    let Ok(before) = fs.read_text(above) else {
        return Ok(());
    };
    journal.adopt_file(&file, Form::CpuList, before.trim(), cpus)
}

/// What the kernel gives it, which in v2 may be less than it was set to; `None` where that is not
/// distinguished.
pub(super) fn given(fs: &HostFs, directory: &Directory) -> Option<Cpus> {
    if directory.v1 {
        return None;
    }
    let text = fs.read_text(directory.path.join("cpuset.cpus.effective"));
    read_list(&text.ok()?)
}

/// Puts a container's cpuset back, children last.
pub(super) fn put_back(fs: &HostFs, journal: &mut Journal, directory: &Directory) {
    undo(journal, &fs.path(directory.path.join("cpuset.cpus")));
    if directory.v1 {
        for child in fs.directories(&directory.path).unwrap_or_default() {
            let child = Directory {
                path: directory.path.join(child),
                v1: true,
            };
            put_back(fs, journal, &child);
        }
        // Once more, for one that its children held wide.
        undo(journal, &fs.path(directory.path.join("cpuset.cpus")));
    }
}

/// Takes back what was written to `file`.
pub(super) fn undo(journal: &mut Journal, file: &Path) {
    if let Ok(target) = Target::file(file) {
        journal.undo(&target);
    }
}

/// Forgets what was written to files called `name` in `folder` and below it where the cgroup is gone, also
/// when another one has its path by now.
pub(super) fn forget_gone(journal: &mut Journal, folder: &Path, name: &str) {
    let gone = |target: &&Target| match target {
        Target::File { path, .. } if path.starts_with(folder) && path.ends_with(name) => {
            Target::file(path).ok().as_ref() != Some(target)
        }
        _ => false,
    };
    let gone: Vec<Target> = journal.targets().filter(gone).cloned().collect();
    for target in gone {
        journal.undo(&target);
    }
}
