//! Reverts a value, whatever the state of the host is by then.
//!
//! The kernel does not accept every value that it once returned. For each value that it may refuse
//! there is another with the same meaning, or the one that it would have become without us:
//!
//! - cgroup v2: an empty `cpuset.cpus` ("as the cgroup above") is refused while processes are in
//!   the cgroup (ENOSPC). A list of all possible CPUs is accepted. The kernel reduces it to the
//!   CPUs of the cgroup above, now and whenever those change: the effect is the same. CPUs of a
//!   sibling partition (`cpuset.cpus.partition`) are left out. Rejected: moving the processes out
//!   and back, because systemd ends a scope that is empty for a moment, and a process that forks
//!   meanwhile is missed. Rejected: turning the controller off and on again above it, because the
//!   siblings would lose their settings, and a runtime that writes one just then finds no file.
//! - cgroup v1: a list with offline CPUs is refused (EINVAL), and one with CPUs that the cgroup
//!   above has lost (EACCES). Without us the kernel would have removed them.
//! - cgroup v1: a list without CPUs of a cgroup below is refused (EBUSY). The union of both lists
//!   is accepted; the rest follows once the cgroups below are reverted.
//! - An interrupt whose CPUs are all offline moves to all online CPUs, as the kernel does it.

use super::change::{Change, Target};
use super::outcome::is_gone;
use super::values;
use crate::cpus::{Cpus, read_list, spell, spell_mask};
use cofferdam_host::HostFs;
use std::io;
use std::path::Path;

/// Outcome of reverting a value.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RevertedValue {
    /// The target has its former value.
    Former,
    /// The target has this value, because the kernel refuses the former one.
    Substitute(String),
    /// The target has to wait: other changes must be reverted first.
    Later,
}

/// Writes the former value or, unless `exact`, a substitute if the kernel refuses it. `found` is
/// the current value.
///
/// # Errors
/// Returns the kernel's error for the former value if it accepts no substitute either.
pub(super) fn revert_value(
    fs: &HostFs,
    change: &Change,
    found: &str,
    exact: bool,
) -> io::Result<RevertedValue> {
    let refused = match values::write(&change.target, &change.before) {
        Ok(()) => return Ok(RevertedValue::Former),
        Err(e) if is_gone(&e) => return Err(e),
        Err(e) => e,
    };
    let takes = |value: &String| values::write(&change.target, value).is_ok();
    if is_cpuset(&change.target) && refused.raw_os_error() == Some(libc::EBUSY) {
        let is_new = |list: &String| change.form.canonical(list) != change.form.canonical(found);
        return match joined(change).iter().any(|l| is_new(l) && takes(l)) {
            true => Ok(RevertedValue::Later),
            false => Err(refused),
        };
    }
    let lists = if exact {
        Vec::new()
    } else {
        instead(fs, change)
    };
    match lists.into_iter().find(takes) {
        Some(value) => Ok(RevertedValue::Substitute(value)),
        None => Err(refused),
    }
}

/// Online CPUs.
pub(super) fn online(fs: &HostFs) -> Option<Cpus> {
    read_list(&fs.read_text("/sys/devices/system/cpu/online").ok()?)
}

fn is_cpuset(target: &Target) -> bool {
    matches!(target, Target::File { path, .. } if path.ends_with("cpuset.cpus"))
}

/// Substitutes for the former value, the best first.
fn instead(fs: &HostFs, change: &Change) -> Vec<String> {
    let before = read_list(&change.before);
    // CPUs of the former list that are in `there`.
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

/// Union of the former list and ours.
fn joined(change: &Change) -> Option<String> {
    let lists = change.ours.iter().chain([&change.before]);
    let all: Cpus = lists.filter_map(|text| read_list(text)).flatten().collect();
    (!all.is_empty()).then(|| spell(&all))
}

fn possible(fs: &HostFs) -> Option<Cpus> {
    read_list(&fs.read_text("/sys/devices/system/cpu/possible").ok()?)
}

/// CPUs of the parent of the cgroup that contains `path`.
fn above(path: &Path) -> Option<Cpus> {
    let folder = path.parent()?.parent()?;
    let read = |name| std::fs::read_to_string(folder.join(name));
    // The v2 file, otherwise the v1 file.
    let text = read("cpuset.cpus.effective").or_else(|_| read("cpuset.effective_cpus"));
    read_list(&text.ok()?)
}
