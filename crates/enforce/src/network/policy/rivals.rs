//! Which containers run beside each other on a CPU, and what each is entitled to there.

use super::share;
use crate::tuning::network::{BESIDE, RAN_CPUS, RAN_PART};
use cofferdam_types::{CgroupId, Container, Interval};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Who ran where.
#[derive(Debug, Default)]
pub(super) struct Rivals {
    /// Who ran on which CPU, and when last.
    beside: HashMap<(u32, CgroupId), Duration>,
    paths: HashMap<CgroupId, PathBuf>,
}

impl Rivals {
    /// Takes an interval in that ends `now`.
    pub fn note(&mut self, now: Duration, interval: &Interval) {
        let length_ns = interval.length.as_nanos() as f64;
        for row in &interval.containers {
            for ((cpu, time), ns) in interval.cpus.iter().zip(&row.charged_by_cpu_ns) {
                // What it is charged of the work that runs in anybody's time says how much it ran
                // there. NAPI threads' work is charged to their own containers only.
                let anybodys = time.measured_ns().saturating_sub(time.napi_thread_ns);
                let all = anybodys.max(1) as f64;
                if *ns as f64 > RAN_PART * all && *ns as f64 > RAN_CPUS * length_ns {
                    self.beside.insert((cpu.0, row.container.cgroup), now);
                    let path = &row.container.cgroup_path;
                    let known = self.paths.entry(row.container.cgroup);
                    known.or_insert_with(|| path.clone());
                }
            }
        }
        self.beside
            .retain(|_, last| now.saturating_sub(*last) < BESIDE);
        let beside = &self.beside;
        self.paths
            .retain(|id, _| beside.keys().any(|(_, other)| other == id));
    }

    /// The share of `cpu` that a container is entitled to, among those that ran there a moment
    /// ago, by the weights that cgroups would have without corrections.
    pub fn share(&self, container: &Container, cpu: u32, weight: impl FnMut(&Path) -> f64) -> f64 {
        let active = self.on(cpu, container.cgroup);
        share::fair_share(&container.cgroup_path, &active, weight)
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

#[cfg(test)]
mod tests {
    use super::super::simulation::interval;
    use super::*;
    use cofferdam_types::CpuTime;

    /// Of 10 ms of network work 0.2 ms ran in softirq, half of that in the victim's time; the rest
    /// ran in the offender's own NAPI thread.
    #[test]
    fn what_runs_in_napi_threads_hides_no_rival() {
        let time = CpuTime {
            softirq_ns: 200_000,
            network_softirq_ns: 200_000,
            napi_thread_ns: 9_800_000,
            ..CpuTime::default()
        };
        let interval = interval(&[time], &[(10_000_000, 9_900_000), (0, 100_000)]);
        let mut rivals = Rivals::default();
        rivals.note(Duration::ZERO, &interval);
        let offender = &interval.containers[0].container;
        assert_eq!(rivals.share(offender, 0, |_| 100.0), 0.5);
    }
}
