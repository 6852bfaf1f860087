//! Removes objects of tests and benchmarks whose process was killed.

use crate::cgroup::{all_mounts, empty, layout, remove};
use crate::names::{
    CGROUP_PREFIX, DATA_ROOT, NETNS_PREFIX, SOCKET_ROOT, TEST_PREFIX, is_orphan, is_orphan_link,
};
use crate::run;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::path::Path;

/// Beginnings of the names of objects that carry the process id of their owner.
const PREFIXES: [&str; 3] = [TEST_PREFIX, NETNS_PREFIX, CGROUP_PREFIX];

/// Removes namespaces, links, folders and cgroups whose owner is dead, and ends the processes in
/// them. Best effort: an object that cannot be removed does not hinder a new run, whose names
/// differ.
pub fn leftovers() {
    let roots = layout().map(|layout| all_mounts(&layout));
    let roots = roots.unwrap_or_default();
    for root in &roots {
        for name in orphans(root) {
            let group = root.join(name);
            let _left = empty(&group, &roots).and_then(|()| remove(&group));
        }
    }
    for name in orphans(Path::new(crate::netns::FOLDER)) {
        let pids = run(&format!("ip netns pids {name}")).unwrap_or_default();
        end(pids.lines());
        let _left = run(&format!("ip netns delete {name}"));
    }
    for name in names(Path::new("/sys/class/net")).filter(|name| is_orphan_link(name)) {
        let _left = run(&format!("ip link delete {name}"));
    }
    for root in [DATA_ROOT, SOCKET_ROOT].map(Path::new) {
        for name in orphans(root) {
            let _left = fs::remove_dir_all(root.join(name));
        }
    }
}

/// Entries of `dir` whose owner is dead.
fn orphans(dir: &Path) -> impl Iterator<Item = String> {
    names(dir).filter(|name| PREFIXES.iter().any(|prefix| is_orphan(name, prefix)))
}

fn names(dir: &Path) -> impl Iterator<Item = String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().into_string().ok())
}

/// Kills processes, by their ids as text.
fn end<'a>(pids: impl Iterator<Item = &'a str>) {
    for pid in pids.filter_map(|pid| pid.trim().parse().ok()) {
        // The process may have ended by itself.
        let _ended = kill(Pid::from_raw(pid), Signal::SIGKILL);
    }
}
