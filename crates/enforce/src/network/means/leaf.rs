//! Our cgroup below a container's. The container's NAPI threads run there, so that the kernel
//! charges them to the container.
//!
//! A cgroup counts as frozen when all below it are frozen, and a kernel thread never freezes. Ours
//! is frozen while it is still empty: the kernel counts it as frozen from then on, whatever a
//! freezer above requests. The thread continues to run, because the freezer leaves kernel threads
//! alone (kernel/cgroup/freezer.c, `cgroup_freezer_migrate_task`; Linux 5.2 on). Limits of the
//! container that count our cgroup or its threads are raised accordingly.
//!
//! Rejected: on hybrid hosts the v1 hierarchies alone. Ledger and diagnosis tell containers by
//! their v2 cgroups, and would take the thread's time, and softirqs in it, for the host's.
//! Rejected: to leave when the container is paused. Its neighbours would then be charged for a
//! flood of packets to it.

use super::napi::NapiError;
use crate::journal::{ChangeError, Form, Journal, NAPI_CGROUP, Target};
use crate::network::place::Place;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Creates our cgroup in the directory `own` of a container's cgroup, with room for `threads` more
/// threads. Adds each change to `targets`, also on an error.
pub(super) fn prepare(
    journal: &mut Journal,
    place: &Place,
    own: &Path,
    threads: usize,
    targets: &mut Vec<Target>,
) -> Result<PathBuf, NapiError> {
    // A v1 hierarchy of several controllers: no kernel thread obeys its freezer.
    if own.join("freezer.state").exists() {
        return Err(NapiError::SharedFreezer);
    }
    let leaf = own.join(NAPI_CGROUP);
    // Another interface of the same container may have created it already.
    if !leaf.is_dir() {
        raise(journal, &own.join("cgroup.max.descendants"), 1, targets)?;
        targets.push(journal.make_directory(&leaf).map_err(cgroup_limit)?);
        set_weight(place, &leaf)?;
    }
    if is_threaded(own) {
        write(&leaf.join("cgroup.type"), "threaded")?;
    }
    write(&leaf.join("cgroup.freeze"), "1")?;
    raise(journal, &own.join("pids.max"), threads, targets)?;
    Ok(leaf)
}

/// Raises a limit, if there is one, by the number of our cgroups or threads.
fn raise(
    journal: &mut Journal,
    file: &Path,
    by: usize,
    targets: &mut Vec<Target>,
) -> Result<(), ChangeError> {
    let Ok(text) = fs::read_to_string(file) else {
        return Ok(());
    };
    // "max" does not parse: there is no limit.
    let Ok(limit) = text.trim().parse::<u64>() else {
        return Ok(());
    };
    let raised = limit.saturating_add(by as u64).to_string();
    let target = Target::file(file).map_err(|source| ChangeError {
        target: file.display().to_string(),
        value: raised.clone(),
        source,
    })?;
    if !targets.contains(&target) {
        targets.push(target.clone());
    }
    journal.set(&target, Form::Text, &raised)?;
    Ok(())
}

/// The kernel returns EAGAIN if a limit forbids another cgroup.
fn cgroup_limit(error: ChangeError) -> NapiError {
    match error.source.raw_os_error() {
        Some(libc::EAGAIN) => NapiError::CgroupLimit(error.target),
        _ => error.into(),
    }
}

/// Whether only threaded cgroups may be below the one in `own`.
fn is_threaded(own: &Path) -> bool {
    let kind = fs::read_to_string(own.join("cgroup.type")).unwrap_or_default();
    matches!(kind.trim(), "threaded" | "domain threaded")
}

/// Sets the weight of the leaf next to a pod's containers.
fn set_weight(place: &Place, leaf: &Path) -> io::Result<()> {
    match place.weight_next_to(leaf) {
        Some((file, weight)) => write(&leaf.join(file), &format!("{weight:.0}")),
        None => Ok(()),
    }
}

/// Writes a file of the leaf. Hierarchies and kernels without its controller have no such file.
fn write(file: &Path, value: &str) -> io::Result<()> {
    match file.exists() {
        true => fs::write(file, value),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cofferdam_host::HostFs;

    fn place() -> Place {
        Place {
            directories: Vec::new(),
            cpu: None,
            cpuset: None,
            is_pods: false,
        }
    }

    /// Container whose limits leave no space for another cgroup or thread.
    /// Promise 31.
    #[test]
    fn limits_are_raised_for_our_cgroup() {
        let host = tempfile::tempdir().unwrap();
        let own = host.path().join("sys/fs/cgroup/web");
        fs::create_dir_all(&own).unwrap();
        let text = |name: &str| {
            fs::read_to_string(own.join(name))
                .unwrap()
                .trim()
                .to_owned()
        };
        for (name, value) in [("cgroup.max.descendants", "0\n"), ("pids.max", "7\n")] {
            fs::write(own.join(name), value).unwrap();
        }
        let fs = HostFs::below(host.path());
        let (mut journal, _) = Journal::open_on(fs, &host.path().join("run")).unwrap();
        let mut targets = Vec::new();
        for threads in [2, 1] {
            prepare(&mut journal, &place(), &own, threads, &mut targets).unwrap();
        }
        assert_eq!(
            (text("cgroup.max.descendants"), text("pids.max")),
            ("1".into(), "10".into())
        );
        assert_eq!(targets.len(), 3);
        for target in targets.iter().rev() {
            assert!(journal.revert(target).is_clean());
        }
        assert_eq!(
            (text("cgroup.max.descendants"), text("pids.max")),
            ("0".into(), "7".into())
        );
        assert!(!own.join(NAPI_CGROUP).exists() && journal.in_force() == 0);
    }

    /// Promise 31.
    #[test]
    fn a_hierarchy_with_the_freezer_is_left_alone() {
        let host = tempfile::tempdir().unwrap();
        fs::write(host.path().join("freezer.state"), "THAWED\n").unwrap();
        let run = host.path().join("run");
        let (mut journal, _) = Journal::open_on(HostFs::below(host.path()), &run).unwrap();
        let mut targets = Vec::new();
        let refused = prepare(&mut journal, &place(), host.path(), 1, &mut targets).unwrap_err();
        assert!(matches!(refused, NapiError::SharedFreezer), "{refused}");
        assert!(targets.is_empty() && journal.in_force() == 0);
    }
}
