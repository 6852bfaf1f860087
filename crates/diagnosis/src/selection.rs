//! Selection of the containers that are diagnosed.

use cofferdam_types::Container;
use std::collections::BTreeSet;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

/// Selects the containers, and the host cgroups without tracked cgroups below them. A promise is
/// made to all tasks below a cgroup, so an outer host cgroup cannot be diagnosed alone.
pub(crate) fn diagnosed(containers: &[Arc<Container>]) -> Vec<Arc<Container>> {
    let paths: BTreeSet<&Path> = containers
        .iter()
        .map(|container| container.cgroup_path.as_path())
        .collect();
    let has_others_below = |path: &Path| {
        let mut after = paths.range::<Path, _>((Bound::Excluded(path), Bound::Unbounded));
        after.next().is_some_and(|next| next.starts_with(path))
    };
    let selected = |container: &&Arc<Container>| {
        let path = container.cgroup_path.as_path();
        !container.is_of_host() || (path.parent().is_some() && !has_others_below(path))
    };
    containers.iter().filter(selected).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use cofferdam_types::{CgroupId, Runtime};

    /// Promise 7.
    #[test]
    fn the_root_and_outer_host_cgroups_are_not_diagnosed() {
        let of = |id: u64, path: &str, runtime| {
            Arc::new(Container {
                runtime,
                ..Container::plain(CgroupId(id), path, path)
            })
        };
        let all = [
            of(1, "/", Runtime::Host),
            of(2, "/system.slice/a.service", Runtime::Host),
            of(3, "/batch", Runtime::Host),
            of(4, "/batch-2", Runtime::Host),
            of(5, "/batch/job", Runtime::Plain),
        ];
        let selected = diagnosed(&all);
        let ids: Vec<u64> = selected.iter().map(|c| c.cgroup.0).collect();
        assert_eq!(ids, [2, 4, 5]);
    }
}
