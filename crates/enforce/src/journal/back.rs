//! Puts a value back, in whatever state the host is by then.
//!
//! The kernel does not take every value that it once gave. For each one that it may refuse there
//! is another that means the same, or what the value would have become without us:
//!
//! - cgroup v2: an empty `cpuset.cpus` ("as the cgroup above") is refused while processes are in
//!   the cgroup (ENOSPC). A list of all possible CPUs is taken, and the kernel cuts it to what the
//!   cgroup above has, now and whenever that changes or a CPU comes or goes: the same effect.
//!   Where a cgroup beside it has made CPUs its own (`cpuset.cpus.partition`), those are left out.
//!   Rejected: moving the processes out and back (systemd ends a scope that is empty for a moment,
//!   and a process that forks meanwhile is missed); turning the controller off and on again above
//!   it (the cgroups beside it would lose their settings, and a runtime that writes one just then
//!   finds no file).
//! - cgroup v1: a list with CPUs that are offline is refused (EINVAL), one with CPUs that the
//!   cgroup above has lost (EACCES) as well. Without us the kernel would have struck them out.
//! - cgroup v1: a list without CPUs of a cgroup below is refused (EBUSY). Both lists together are
//!   taken; the rest follows once the cgroups below are back.
//! - An interrupt whose CPUs are all offline belongs to all that are online: so does the kernel.

use super::change::{Change, Target};
use super::outcome::is_gone;
use super::values;
use crate::cpus::{Cpus, read_list, spell, spell_mask};
use cofferdam_host::HostFs;
use std::io;
use std::path::Path;

/// How a value was put back.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Put {
    /// As it was.
    Back,
    /// As this value, because the kernel refuses the one before.
    As(String),
    /// Not yet: others must go first.
    Later,
}

/// Writes the value before; unless `exact`, what stands for it when the kernel refuses that.
/// `found` is what is there now.
///
/// # Errors
/// The kernel's, about the value before, when it takes no other one instead.
pub(super) fn put_back(fs: &HostFs, change: &Change, found: &str, exact: bool) -> io::Result<Put> {
    let refused = match values::write(&change.target, &change.before) {
        Ok(()) => return Ok(Put::Back),
        Err(e) if is_gone(&e) => return Err(e),
        Err(e) => e,
    };
    let takes = |value: &String| values::write(&change.target, value).is_ok();
    if is_cpuset(&change.target) && refused.raw_os_error() == Some(libc::EBUSY) {
        let is_new = |list: &String| change.form.canonical(list) != change.form.canonical(found);
        return match joined(change).iter().any(|l| is_new(l) && takes(l)) {
            true => Ok(Put::Later),
            false => Err(refused),
        };
    }
    let lists = if exact {
        Vec::new()
    } else {
        instead(fs, change)
    };
    match lists.into_iter().find(takes) {
        Some(value) => Ok(Put::As(value)),
        None => Err(refused),
    }
}

/// The online CPUs.
pub(super) fn online(fs: &HostFs) -> Option<Cpus> {
    read_list(&fs.read_text("/sys/devices/system/cpu/online").ok()?)
}

fn is_cpuset(target: &Target) -> bool {
    matches!(target, Target::File { path, .. } if path.ends_with("cpuset.cpus"))
}

/// What stands for the value before, the best first.
fn instead(fs: &HostFs, change: &Change) -> Vec<String> {
    let before = read_list(&change.before);
    // Only the CPUs of the list before that are in `there`.
    let within = |there: &Option<Cpus>| -> Option<Cpus> {
        let both: Cpus = before
            .as_ref()?
            .intersection(there.as_ref()?)
            .copied()
            .collect();
        (!both.is_empty()).then_some(both)
    };
    let lists: Vec<Option<Cpus>> = match &change.target {
        Target::File { path, .. } if is_cpuset(&change.target) => {
            let above = above(path);
            match &before {
                None => vec![possible(fs), above],
                Some(_) => vec![within(&online(fs)), within(&above), above],
            }
        }
        Target::File { path, .. } if path.ends_with("default_smp_affinity") => {
            return online(fs).iter().map(spell_mask).collect();
        }
        Target::File { path, .. } if path.ends_with("smp_affinity_list") => vec![online(fs)],
        Target::ThreadCpus(_) => vec![within(&online(fs)), online(fs)],
        _ => Vec::new(),
    };
    lists.iter().flatten().map(spell).collect()
}

/// The list before and ours together.
fn joined(change: &Change) -> Option<String> {
    let lists = change.ours.iter().chain([&change.before]);
    let all: Cpus = lists.filter_map(|text| read_list(text)).flatten().collect();
    (!all.is_empty()).then(|| spell(&all))
}

fn possible(fs: &HostFs) -> Option<Cpus> {
    read_list(&fs.read_text("/sys/devices/system/cpu/possible").ok()?)
}

/// What the cgroup above the one of the file at `path` has.
fn above(path: &Path) -> Option<Cpus> {
    let folder = path.parent()?.parent()?;
    let read = |name| std::fs::read_to_string(folder.join(name));
    // v2, else v1.
    let text = read("cpuset.cpus.effective").or_else(|_| read("cpuset.effective_cpus"));
    read_list(&text.ok()?)
}
