//! Texts of the reasons why a reservation is not in force, with remedies.

use super::step::Refusal;
use super::wants::Conflict;
use crate::cpus::{Cpus, spell};
use crate::journal::ChangeError;
use cofferdam_host::remedy;
use cofferdam_reserve::Impossible;
use std::path::{Path, PathBuf};

/// Describes a request that the plan cannot meet. `limiting` is the cgroup above that leaves it too
/// few CPUs.
pub(super) fn impossible(one: &Impossible, limiting: Option<(PathBuf, Cpus)>) -> String {
    let asked = one.asked;
    let fits = one
        .fits
        .map(|fits| format!("give it cpus = {fits}, which fits"));
    match (limiting, fits) {
        (Some((cgroup, cpus)), fits) => format!(
            "{asked} CPUs cannot be reserved: the cgroup {} above it has only CPUs {}, and \
             containers that may run nowhere else need one of them; widen its cpuset.cpus \
             (systemd: AllowedCPUs=, docker --cpuset-cpus), {}",
            cgroup.display(),
            spell(&cpus),
            fits.unwrap_or_else(|| "or remove the reservation".to_owned())
        ),
        (None, Some(fits)) => format!(
            "{asked} CPUs cannot be reserved next to the others: {fits}, or remove another \
             container's reservation"
        ),
        (None, None) => format!(
            "{asked} CPUs cannot be reserved next to the others: no CPU is left to reserve, or \
             remove another container's reservation"
        ),
    }
}

/// Describes the refusal of an owner's CPUs. `None` if its cgroup is gone, which is no failure.
pub(super) fn refusal(name: &str, cpus: &Cpus, refusal: &Refusal) -> Option<String> {
    let why = match refusal {
        Refusal::Gone => return None,
        Refusal::Write(error) => explain(error),
        Refusal::Others(effective) => format!(
            "the kernel gives it {} instead; a cgroup next to or above it has some for itself: \
             see cpuset.cpus.partition and cpuset.cpus.exclusive there",
            spell(effective)
        ),
    };
    Some(format!(
        "container '{name}' gets no CPUs of its own, and no container lost any: it was to have \
         CPUs {}: {why}",
        spell(cpus)
    ))
}

/// Describes a container that the kernel does not let leave the owners' CPUs.
pub(super) fn stays(name: &str, error: &ChangeError) -> String {
    format!(
        "container '{name}' keeps its old CPUs, including the reserved ones: {}",
        explain(error)
    )
}

/// Describes a container that its runtime binds to owners' CPUs.
pub(super) fn conflict(name: &str, conflict: &Conflict) -> String {
    let bound = spell(&conflict.bound);
    match &conflict.moved {
        Some(moved) => format!(
            "container '{name}' is bound to CPUs {bound} by its runtime, and they are reserved: it \
             runs on {} meanwhile; give it another cpuset",
            spell(moved)
        ),
        None => format!(
            "container '{name}' stays on CPUs {bound}, though they are reserved: the cgroups \
             above it have no others; widen their cpuset.cpus (systemd: AllowedCPUs=)"
        ),
    }
}

/// Describes an owner inside another container whose processes run directly in a cgroup around it.
pub(super) fn shared(name: &str, outer: &str, cgroup: &Path, cpus: &Cpus) -> String {
    format!(
        "container '{name}' shares CPUs {} with the processes directly in {} of container \
         '{outer}': a cgroup has the CPUs of all cgroups within it, so only the weight of \
         '{name}' protects it from them; move them to a cgroup of their own below it",
        spell(cpus),
        cgroup.display()
    )
}

/// Describes a refused write to a cgroup's cpuset, with a remedy.
fn explain(error: &ChangeError) -> String {
    let text = error.to_string();
    if let Some(remedy) = remedy(&text) {
        return format!("{text}; {remedy}");
    }
    let remedy = match error.source.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) => {
            "the cgroup above it has not all of these CPUs (widen its cpuset.cpus), or the agent \
             may not write here (it needs root)"
        }
        Some(libc::EINVAL) => {
            "a cgroup next to it has some of these CPUs for itself alone (see \
             cpuset.cpu_exclusive and cpuset.cpus.partition there), or they are offline"
        }
        Some(libc::EBUSY) => {
            "a cgroup below it has other CPUs, or a task with a deadline (SCHED_DEADLINE) needs \
             them"
        }
        _ => return text,
    };
    format!("{text}; {remedy}")
}
