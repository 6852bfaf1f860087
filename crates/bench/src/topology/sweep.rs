//! Removes what drivers that were killed outright left behind. All names carry the driver's
//! pid, so what belongs to a dead one can be told.

use cofferdam_lab::cgroup::{all_mounts, layout, remove, remove_below};
use cofferdam_lab::run;
use std::fs;
use std::path::Path;

/// Network namespaces are named `cfbench-PID-SERIAL-ROLE`.
pub(crate) const NETNS_PREFIX: &str = "cfbench-";
/// Cgroups, and directories in [`DATA_ROOT`] and [`SOCKET_ROOT`], are named
/// `cofferdam-bench-PID-SERIAL`.
pub(crate) const CGROUP_PREFIX: &str = "cofferdam-bench-";

/// Where tenants' files are: on a real file system, as the standard for files that outlive a boot
/// has it.
pub(crate) const DATA_ROOT: &str = "/var/tmp";
/// Where sockets between workers are: gone with the next boot at the latest.
pub(crate) const SOCKET_ROOT: &str = "/run";

/// Best effort: what cannot be removed does not hinder a new run, whose names differ.
pub(crate) fn leftovers() {
    for name in orphans(Path::new("/run/netns"), NETNS_PREFIX) {
        let _kept = run(&format!("ip netns delete {name}"));
    }
    for root in [DATA_ROOT, SOCKET_ROOT].map(Path::new) {
        for name in orphans(root, CGROUP_PREFIX) {
            let _kept = fs::remove_dir_all(root.join(name));
        }
    }
    let roots = layout().map(|layout| all_mounts(&layout));
    for root in roots.unwrap_or_default() {
        for name in orphans(&root, CGROUP_PREFIX) {
            let group = root.join(name);
            let _kept = remove_below(&group).and_then(|()| remove(&group));
        }
    }
}

/// Entries of `dir` named `PREFIX` + pid of a dead process + `-…`.
fn orphans(dir: &Path, prefix: &str) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| pid_of(name, prefix).is_some_and(|pid| !alive(pid)))
        .collect()
}

fn pid_of(name: &str, prefix: &str) -> Option<u32> {
    name.strip_prefix(prefix)?.split('-').next()?.parse().ok()
}

fn alive(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}")).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_dead_drivers_are_orphans() {
        let dir = tempfile::tempdir().unwrap();
        let own = format!("{NETNS_PREFIX}{}-0-peer", std::process::id());
        let dead = format!("{NETNS_PREFIX}4194305-0-peer");
        for name in [
            own.as_str(),
            dead.as_str(),
            "web",
            "cfbench-x-1",
            "cf-4194305-1",
        ] {
            fs::write(dir.path().join(name), "").unwrap();
        }
        assert_eq!(orphans(dir.path(), NETNS_PREFIX), [dead]);
    }
}
