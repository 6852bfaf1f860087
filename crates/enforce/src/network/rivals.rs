//! Who runs beside whom on a CPU, and what each is entitled to there.

use super::Network;
use super::share;
use cofferdam_host::CgroupLayout;
use cofferdam_types::{CgroupId, Interval};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Who ran on a CPU within this time runs beside the others.
const BESIDE: Duration = Duration::from_secs(1);
/// How long the weight of a cgroup that is not ours is believed.
const WEIGHT_LIFE: Duration = Duration::from_secs(2);

/// Who ran where, and the weights of cgroups.
#[derive(Debug, Default)]
pub(super) struct Rivals {
    /// Who ran on which CPU, and when last.
    beside: HashMap<(u32, CgroupId), Instant>,
    paths: HashMap<CgroupId, PathBuf>,
    weights: HashMap<PathBuf, (f64, Instant)>,
}

impl Rivals {
    /// Takes an interval in.
    pub fn note(&mut self, interval: &Interval) {
        let now = Instant::now();
        let length_ns = interval.length.as_nanos() as f64;
        for row in &interval.containers {
            for ((cpu, time), ns) in interval.cpus.iter().zip(&row.charged_by_cpu_ns) {
                // What it is charged of a CPU's work says how much it ran there.
                let all = time.measured_ns().max(1) as f64;
                if *ns as f64 > 0.05 * all && *ns as f64 > 0.001 * length_ns {
                    self.beside.insert((cpu.0, row.container.cgroup), now);
                    let path = &row.container.cgroup_path;
                    let known = self.paths.entry(row.container.cgroup);
                    known.or_insert_with(|| path.clone());
                }
            }
        }
        self.beside
            .retain(|_, last| now.duration_since(*last) < BESIDE);
        let beside = &self.beside;
        self.paths
            .retain(|id, _| beside.keys().any(|(_, other)| other == id));
    }

    /// Paths of the containers that ran on `cpu` a moment ago, `id` left out.
    fn on(&self, cpu: u32, id: CgroupId) -> Vec<&Path> {
        self.beside
            .keys()
            .filter(|(at, other)| *at == cpu && *other != id)
            .filter_map(|(_, other)| self.paths.get(other).map(PathBuf::as_path))
            .collect()
    }
}

impl Network {
    /// The share of a CPU that a container is entitled to, among those that ran there a moment
    /// ago, by the weights that they would have without us.
    pub(super) fn share(
        &mut self,
        path: &Path,
        id: CgroupId,
        cpu: u32,
        own_weight: Option<f64>,
    ) -> f64 {
        let base: HashMap<PathBuf, f64> = self
            .enforced
            .values()
            .filter_map(|e| {
                let weight = e.weight.base?;
                Some((e.container.cgroup_path.clone(), weight))
            })
            .collect();
        let mut weights = std::mem::take(&mut self.rivals.weights);
        let active = self.rivals.on(cpu, id);
        let share = share::fair_share(path, &active, |of| {
            match own_weight.filter(|_| of == path) {
                Some(weight) => weight,
                None => match base.get(of) {
                    Some(weight) => *weight,
                    None => weight_of(&self.layout, &mut weights, of),
                },
            }
        });
        self.rivals.weights = weights;
        share
    }
}

/// Weight of a cgroup that we do not correct, v1 shares on hybrid hosts.
fn weight_of(
    layout: &CgroupLayout,
    known: &mut HashMap<PathBuf, (f64, Instant)>,
    path: &Path,
) -> f64 {
    if let Some((weight, read)) = known.get(path)
        && read.elapsed() < WEIGHT_LIFE
    {
        return *weight;
    }
    let file = match layout.v1_directory("cpu", path) {
        Some(directory) => directory.join("cpu.shares"),
        None => layout.v2_directory(path).join("cpu.weight"),
    };
    let default = if file.ends_with("cpu.shares") {
        1024.0
    } else {
        100.0
    };
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let weight = text.trim().parse().unwrap_or(default);
    if known.len() > 4096 {
        known.clear();
    }
    known.insert(path.to_owned(), (weight, Instant::now()));
    weight
}
