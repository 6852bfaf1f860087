//! Removes what benchmarks that were killed outright left behind.

use crate::cgroup::{all_mounts, layout, remove, remove_below};
use crate::names::{CGROUP_PREFIX, DATA_ROOT, NETNS_PREFIX, SOCKET_ROOT, is_orphan};
use crate::run;
use std::fs;
use std::path::Path;

/// Best effort: what cannot be removed does not hinder a new run, whose names differ.
pub fn leftovers() {
    for name in orphans(Path::new(crate::netns::FOLDER), NETNS_PREFIX) {
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

/// Entries of `dir` whose owner is dead.
fn orphans(dir: &Path, prefix: &str) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| is_orphan(name, prefix))
        .collect()
}
