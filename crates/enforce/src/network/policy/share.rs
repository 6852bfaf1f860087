//! Share of a container by weight among the cgroups that run on the same CPU. Pure.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Weight of an unknown cgroup: it competes as an equal of its siblings.
pub(super) const EQUAL_WEIGHT: f64 = 100.0;

/// Name for the tasks directly in a cgroup; no cgroup has this name. They compete with the cgroups
/// below it, with the default weight. Their number is unknown: they count as one.
const TASKS: &str = "\0tasks";

/// Share (0..=1) of one CPU for the cgroup `of` among the cgroups `active` (which may contain
/// `of`), by their weights and those of the cgroups above them. Cgroups below `of` belong to it.
/// `weight` returns the weight of a cgroup path.
pub(super) fn fair_share(of: &Path, active: &[&Path], weight: impl FnMut(&Path) -> f64) -> f64 {
    let others = active.iter().copied().filter(|path| !path.starts_with(of));
    let all: Vec<&Path> = others.chain([of]).collect();
    fair_shares(&all, weight).pop().unwrap_or(1.0)
}

/// Shares (0..=1) of one CPU for the cgroups `active`, in their order. Siblings compete by weight
/// at each level. A path above another stands for the tasks directly in that cgroup.
pub(super) fn fair_shares(active: &[&Path], mut weight: impl FnMut(&Path) -> f64) -> Vec<f64> {
    let mut shares = vec![0.0; active.len()];
    let mut undivided = vec![(
        PathBuf::from("/"),
        1.0,
        (0..active.len()).collect::<Vec<_>>(),
    )];
    while let Some((above, share, members)) = undivided.pop() {
        let mut siblings: BTreeMap<PathBuf, Vec<usize>> = BTreeMap::new();
        for i in members {
            let Ok(rest) = active[i].strip_prefix(&above) else {
                continue;
            };
            let next = rest.iter().next().unwrap_or(OsStr::new(TASKS));
            siblings.entry(above.join(next)).or_default().push(i);
        }
        let weights: Vec<f64> = siblings.keys().map(|path| weight(path)).collect();
        let all: f64 = weights.iter().sum();
        for ((path, members), weight) in siblings.into_iter().zip(weights) {
            let share = if all > 0.0 {
                share * (weight / all)
            } else {
                share
            };
            match members.as_slice() {
                [one] => shares[*one] = share,
                _ if path.file_name() == Some(OsStr::new(TASKS)) => {
                    members.iter().for_each(|i| shares[*i] = share);
                }
                _ => undivided.push((path, share, members)),
            }
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(of: &str, active: &[&str], weights: &[(&str, f64)]) -> f64 {
        let active: Vec<&Path> = active.iter().map(Path::new).collect();
        let weight = |path: &Path| {
            let found = weights.iter().find(|(p, _)| Path::new(p) == path);
            found.map_or(100.0, |(_, w)| *w)
        };
        fair_share(Path::new(of), &active, weight)
    }

    /// Promise 30.
    #[test]
    fn siblings_share_by_weight() {
        assert_eq!(share("/p/a", &["/p/a", "/p/b"], &[]), 0.5);
        let w = [("/p/a", 400.0)];
        assert!((share("/p/a", &["/p/b"], &w) - 0.8).abs() < 1e-9);
        assert!((share("/p/b", &["/p/a"], &w) - 0.2).abs() < 1e-9);
    }

    /// Promise 30.
    #[test]
    fn parents_compete_before_children() {
        let active = ["/x/a", "/x/b", "/y/c"];
        assert_eq!(share("/x/a", &active, &[]), 0.25);
        assert_eq!(share("/y/c", &active, &[]), 0.5);
        let w = [("/y", 300.0)];
        assert_eq!(share("/y/c", &active, &w), 0.75);
    }

    #[test]
    fn tasks_in_a_cgroup_compete_with_those_below_it() {
        assert_eq!(share("/a", &["/"], &[]), 0.5);
        assert_eq!(share("/a", &["/", "/b"], &[("/a", 200.0)]), 0.5);
        assert_eq!(share("/p/a", &["/p"], &[]), 0.5);
        assert_eq!(share("/p/a", &["/p", "/p/b", "/", "/q"], &[]), 1.0 / 9.0);
        assert_eq!(share("/p", &["/p/a", "/p"], &[]), 1.0, "its own");
    }

    #[test]
    fn the_shares_of_all_are_those_of_each() {
        let active = ["/p/a", "/p/b", "/", "/q/c/d", "/q"];
        let weights = [("/p", 300.0), ("/p/a", 50.0)];
        let paths: Vec<&Path> = active.iter().map(Path::new).collect();
        let weight = |path: &Path| {
            let found = weights.iter().find(|(p, _)| Path::new(p) == path);
            found.map_or(100.0, |(_, w)| *w)
        };
        let shares = fair_shares(&paths, weight);
        assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-9);
        for i in [0, 1, 3] {
            assert!((shares[i] - share(active[i], &active, &weights)).abs() < 1e-9);
        }
        assert!((shares[2] - 0.2).abs() < 1e-9 && (shares[4] - 0.1).abs() < 1e-9);
        assert_eq!(fair_shares(&[], |_| 1.0), [0.0; 0]);
        // The root's tasks, of known and unknown cgroups.
        let root = [Path::new("/"), Path::new("/a"), Path::new("/")];
        assert_eq!(fair_shares(&root, |_| 100.0), [0.5; 3]);
    }

    #[test]
    fn alone_it_may_have_all() {
        assert_eq!(share("/p/a", &[], &[]), 1.0);
        assert_eq!(share("/p/a", &["/p/a"], &[]), 1.0);
    }
}
