//! Weights of cgroups that are not corrected.

use crate::network::place::Place;
use crate::tuning::network::{WEIGHT_LIFE, WEIGHTS_KNOWN};
use cofferdam_host::CgroupLayout;
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// The kernel's defaults (kernel/sched/sched.h, `NICE_0_LOAD`, `CGROUP_WEIGHT_DFL`).
const DEFAULT_SHARES: f64 = 1024.0;
const DEFAULT_WEIGHT: f64 = 100.0;

/// As last read.
#[derive(Debug, Default)]
pub(super) struct Weights {
    known: HashMap<PathBuf, Known>,
}

#[derive(Debug)]
struct Known {
    weight: f64,
    read: Instant,
}

impl Weights {
    /// Weight of the cgroup at `path`; v1 shares on hybrid hosts.
    pub fn read(&mut self, layout: &CgroupLayout, path: &Path) -> f64 {
        if let Some(weight) = self.fresh(path) {
            return weight;
        }
        let (file, default) = match layout.v1_directory("cpu", path) {
            Some(directory) => (directory.join("cpu.shares"), DEFAULT_SHARES),
            None => (layout.v2_directory(path).join("cpu.weight"), DEFAULT_WEIGHT),
        };
        let text = fs::read_to_string(file).unwrap_or_default();
        let weight = text.trim().parse().unwrap_or(default);
        self.keep(path, weight);
        weight
    }

    /// Weight of a container at `path` that nobody corrects, which `place` can read.
    pub fn of(&mut self, path: &Path, place: &Place) -> Option<f64> {
        if let Some(weight) = self.fresh(path) {
            return Some(weight);
        }
        let weight = place.weight()?;
        self.keep(path, weight);
        Some(weight)
    }

    fn fresh(&self, path: &Path) -> Option<f64> {
        let known = self.known.get(path)?;
        (known.read.elapsed() < WEIGHT_LIFE).then_some(known.weight)
    }

    fn keep(&mut self, path: &Path, weight: f64) {
        if self.known.len() > WEIGHTS_KNOWN {
            self.known.clear();
        }
        let read = Instant::now();
        self.known.insert(path.to_owned(), Known { weight, read });
    }
}
