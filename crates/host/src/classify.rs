//! Classifies a cgroup by the form of its path.

use cofferdam_types::Runtime;
use std::path::{Component, Path};

/// Class of a cgroup by its path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Class {
    /// A runtime made this cgroup for one container.
    Container(NamedContainer),
    /// A runtime's own helper (a monitor): never a container, whatever its namespaces.
    Helper,
    /// Any other cgroup: its processes decide.
    Other,
}

/// Container as its path names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedContainer {
    /// Runtime that made it.
    pub runtime: Runtime,
    /// The runtime's id, lower-case hexadecimal.
    pub id: Option<String>,
    /// Name in the path itself.
    pub name: Option<String>,
    /// UID of the Kubernetes pod around it.
    pub pod_uid: Option<String>,
}

/// Prefixes of the names of cgroups, before the runtime's id.
const PREFIXES: [(&str, Runtime); 6] = [
    ("libpod-payload-", Runtime::Podman),
    ("libpod-", Runtime::Podman),
    ("docker-", Runtime::Docker),
    ("cri-containerd-", Runtime::Containerd),
    ("nerdctl-", Runtime::Containerd),
    ("crio-", Runtime::Crio),
];

/// Parent of the cgroups in which Kata runs its virtual machines' own threads.
const KATA: &str = "kata_overhead";

/// Classifies the cgroup at `path` (below the v2 mount), by its last component and those above.
/// Sub-cgroups of a container are [`Class::Other`]: a walk up finds the container.
pub fn classify(path: &Path) -> Class {
    let components: Vec<&str> = path
        .components()
        .filter_map(|c| match c {
            Component::Normal(name) => Some(name.to_str().unwrap_or("")),
            _ => None,
        })
        .collect();
    let Some((&last, above)) = components.split_last() else {
        return Class::Other;
    };
    let parent = above.last().copied().unwrap_or("");
    if is_helper(last) {
        return Class::Helper;
    }
    // A runtime with the cgroupfs driver under a systemd kubelet makes one directory of
    // `SLICE:PREFIX:ID`.
    let parts: Vec<&str> = last.split(':').collect();
    let (slice, own) = match parts[..] {
        [slice, prefix, id] => (Some(slice), format!("{prefix}-{id}")),
        _ => (None, last.to_owned()),
    };
    let named = |runtime, id: &str| {
        Class::Container(NamedContainer {
            runtime,
            id: Some(id.to_owned()),
            name: None,
            pod_uid: above.iter().copied().chain(slice).rev().find_map(pod_uid),
        })
    };
    let stem = own.strip_suffix(".scope").unwrap_or(&own);
    for (prefix, runtime) in PREFIXES {
        if let Some(id) = stem.strip_prefix(prefix).filter(|id| is_id(id)) {
            return named(runtime, id);
        }
    }
    if is_id(last) && last.len() == 64 && parent != KATA {
        return match pod_uid(parent) {
            Some(_) => named(Runtime::Containerd, last),
            // `/docker`, or the value of `--cgroup-parent`.
            None => named(Runtime::Docker, last),
        };
    }
    match outside_runtime(last, parent) {
        Some((runtime, name)) => Class::Container(NamedContainer {
            runtime,
            id: None,
            name: Some(name),
            pod_uid: None,
        }),
        None => Class::Other,
    }
}

/// Whether the form of `path` only suggests docker: an id below a directory that `--cgroup-parent`
/// may have named.
pub(crate) fn is_guess(path: &Path) -> bool {
    let mut names = path
        .iter()
        .rev()
        .map(|name| name.to_str().unwrap_or_default());
    let last = names.next().unwrap_or_default();
    let parent = names.next().unwrap_or_default();
    is_id(last) && last.len() == 64 && parent != "docker" && pod_uid(parent).is_none()
}

/// Whether it is a monitor that a runtime starts next to its containers.
fn is_helper(name: &str) -> bool {
    ["libpod-conmon-", "crio-conmon-", "lxc.monitor", "lxc.pivot"]
        .iter()
        .any(|prefix| name.starts_with(prefix))
}

/// Classifies containers that have a name instead of a number: systemd-nspawn, LXC and Garden.
fn outside_runtime(last: &str, parent: &str) -> Option<(Runtime, String)> {
    if parent == "machine.slice" {
        let unit = last
            .strip_suffix(".service")
            .map(|unit| unit.strip_prefix("systemd-nspawn@").unwrap_or(unit))
            .or_else(|| {
                last.strip_suffix(".scope")
                    .and_then(|unit| unit.strip_prefix("machine-"))
            });
        // Virtual machines are registered there as well; they have no network namespace.
        let name = unit.filter(|unit| !unit.starts_with("qemu"))?;
        let name = crate::systemd::unescape(name);
        // libvirt names its containers `lxc-NUMBER-NAME`.
        let libvirt = name
            .strip_prefix("lxc-")
            .and_then(|rest| rest.split_once('-'));
        return Some(match libvirt {
            Some((_, name)) => (Runtime::Plain, name.to_owned()),
            None => (Runtime::Nspawn, name),
        });
    }
    let lxc = last
        .strip_prefix("lxc.payload.")
        .or_else(|| matches!(parent, "lxc" | "lxc.payload").then_some(last))
        .or_else(|| (parent == "garden").then_some(last))
        .filter(|name| !name.is_empty())?;
    Some((Runtime::Plain, lxc.to_owned()))
}

/// Whether it is a runtime's id: 64 hexadecimal digits; 12 is the short form.
fn is_id(text: &str) -> bool {
    (12..=64).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
}

/// Finds the UID in `pod<uid>` (cgroupfs driver) or `kubepods[-burstable]-pod<uid>.slice` (systemd
/// driver, which writes `_` for `-`).
fn pod_uid(component: &str) -> Option<String> {
    let text = component.strip_suffix(".slice").unwrap_or(component);
    let uid = match text.strip_prefix("pod") {
        Some(uid) => uid,
        None if text.contains("kubepods") => text.rsplit_once("-pod")?.1,
        None => return None,
    };
    let shaped = uid.len() >= 32
        && uid
            .bytes()
            .all(|b| b.is_ascii_hexdigit() || b"-_".contains(&b));
    shaped.then(|| uid.replace('_', "-"))
}

#[cfg(test)]
mod tests;
