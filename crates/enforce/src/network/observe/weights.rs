//! Weights of cgroups that are not corrected.

use crate::network::place::{Place, parse_weight};
use crate::tuning::network::{MOST_CACHED_WEIGHTS, WEIGHT_LIFE};
use cofferdam_host::CgroupLayout;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The kernel's defaults (kernel/sched/sched.h, `NICE_0_LOAD`, `CGROUP_WEIGHT_DFL`).
const DEFAULT_SHARES: f64 = 1024.0;
const DEFAULT_WEIGHT: f64 = 100.0;

/// Weights as last read.
#[derive(Debug, Default)]
pub(super) struct Weights {
    cached: HashMap<PathBuf, CachedWeight>,
}

#[derive(Debug)]
struct CachedWeight {
    weight: f64,
    /// Whether a file contains it; otherwise it is the default.
    is_from_file: bool,
    read: Instant,
}

impl Weights {
    /// Weight of the cgroup at `path`; v1 shares on hybrid hosts.
    pub fn read(&mut self, layout: &CgroupLayout, path: &Path) -> f64 {
        if let Some(cached) = self.fresh(path) {
            return cached.weight;
        }
        let (file, default) = match layout.v1_directory("cpu", path) {
            Some(directory) => (directory.join("cpu.shares"), DEFAULT_SHARES),
            None => (layout.v2_directory(path).join("cpu.weight"), DEFAULT_WEIGHT),
        };
        let text = fs::read_to_string(file).unwrap_or_default();
        let parsed = parse_weight(&text);
        let weight = parsed.unwrap_or(default);
        self.keep(path, weight, parsed.is_some());
        weight
    }

    /// Weight of the container at `path`, read through `place`; `None` if it cannot be read.
    pub fn of(&mut self, path: &Path, place: &Place) -> Option<f64> {
        if let Some(cached) = self.fresh(path).filter(|cached| cached.is_from_file) {
            return Some(cached.weight);
        }
        let weight = place.weight()?;
        self.keep(path, weight, true);
        Some(weight)
    }

    fn fresh(&self, path: &Path) -> Option<&CachedWeight> {
        let cached = self.cached.get(path)?;
        (cached.read.elapsed() < WEIGHT_LIFE).then_some(cached)
    }

    fn keep(&mut self, path: &Path, weight: f64, is_from_file: bool) {
        if self.cached.len() > MOST_CACHED_WEIGHTS {
            self.cached.clear();
        }
        let cached = CachedWeight {
            weight,
            is_from_file,
            read: Instant::now(),
        };
        self.cached.insert(path.to_owned(), cached);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::place::PlacedContainer;
    use crate::network::policy::simulation;

    /// An unreadable cgroup counts with the default, which must not pass for the container's
    /// weight.
    #[test]
    fn a_default_is_not_a_containers_weight() {
        let mount = tempfile::tempdir().unwrap();
        let layout = CgroupLayout {
            v2_mount: mount.path().to_owned(),
            v2_controllers: vec!["cpu".to_owned()],
            v1_mounts: Default::default(),
            v1_named: Vec::new(),
        };
        let container = simulation::container(1);
        let path = &container.cgroup_path;
        let (mut weights, file) = (Weights::default(), mount.path().join("c1/cpu.weight"));
        assert_eq!(weights.read(&layout, path), DEFAULT_WEIGHT);
        fs::create_dir(mount.path().join("c1")).unwrap();
        fs::write(&file, "300\n").unwrap();
        let place = PlacedContainer::find(&layout, &container, None).place;
        assert_eq!(weights.of(path, &place), Some(300.0));
        // The cached weight is read again later.
        fs::write(&file, "200\n").unwrap();
        assert_eq!(weights.of(path, &place), Some(300.0));
        weights.cached.clear();
        assert_eq!(weights.of(path, &place), Some(200.0));
    }

    #[test]
    fn an_idle_cgroup_has_a_small_weight() {
        assert_eq!(parse_weight("300\n"), Some(300.0));
        assert!(parse_weight("0\n").is_some_and(|weight| weight > 0.0 && weight < 1.0));
        assert_eq!(parse_weight("max"), None);
    }
}
