//! Files of a cpuset.

use super::places::Directory;
use crate::cpus::{Cpus, read_list};
use crate::journal::{ChangeError, Form, Journal, Target};
use cofferdam_host::HostFs;
use std::path::Path;

/// File with the CPUs that a cgroup may use.
pub(super) const FILE: &str = "cpuset.cpus";

/// Records a cpuset as ours that the runtime wrote: it created the container with `cpus`, as we had
/// requested. Without that the container would have the CPUs of the cgroup above it.
pub(super) fn adopt(
    fs: &HostFs,
    journal: &mut Journal,
    directory: &Directory,
    cpus: &str,
) -> Result<(), ChangeError> {
    let file = fs.path(directory.path.join(FILE));
    let above = match (directory.parent(), directory.v1) {
        (None, _) => return Ok(()),
        (Some(parent), true) => parent.join(FILE),
        (Some(parent), false) => parent.join("cpuset.cpus.effective"),
    };
    let Ok(before) = fs.read_text(above) else {
        return Ok(());
    };
    journal.adopt_file(&file, Form::CpuList, before.trim(), cpus)
}

/// CPUs that the kernel gives the cgroup, which may be fewer than its list; `None` if it does not
/// report them (v1 before Linux 3.17).
pub(super) fn effective(fs: &HostFs, directory: &Path) -> Option<Cpus> {
    let read = |name| fs.read_text(directory.join(name));
    let text = read("cpuset.cpus.effective").or_else(|_| read("cpuset.effective_cpus"));
    read_list(&text.ok()?)
}

/// Reverts the change of `file`.
pub(super) fn revert(journal: &mut Journal, file: &Path) {
    if let Ok(target) = Target::file(file) {
        journal.revert(&target);
    }
}

/// Closes the changes of files called `name` in and below `folder` whose cgroup is gone, even if
/// another cgroup has its path by now.
pub(super) fn close_removed(journal: &mut Journal, folder: &Path, name: &str) {
    let is_removed = |target: &&Target| match target {
        Target::File { path, .. } if path.starts_with(folder) && path.ends_with(name) => {
            Target::file(path).ok().as_ref() != Some(target)
        }
        _ => false,
    };
    let removed: Vec<Target> = journal.targets().filter(is_removed).cloned().collect();
    for target in removed {
        journal.revert(&target);
    }
}
