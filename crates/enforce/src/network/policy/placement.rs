//! Placement of each cgroup: the part of its CPU time that it used on each CPU. Cgroup v2 reports
//! only the sum, so the parts are estimated from softirqs, which interrupt the running task.

use super::contended::charged_for_others_at;
use crate::tuning::network::{PLACEMENT_NS, RAN_CPUS};
use cofferdam_types::{CgroupId, ContainerLedger, CpuId, CpuTime, Interval};
use std::collections::{BTreeMap, HashMap, HashSet};

/// Parts (0..=1) of each cgroup's CPU time by CPU; the sum is 1.
#[derive(Debug, Default)]
pub(super) struct Placement {
    parts: HashMap<CgroupId, BTreeMap<u32, f64>>,
    /// Network CPU charged for others in the interval, by the interval's CPUs, nanoseconds.
    charged_for_others_ns: Vec<u64>,
}

impl Placement {
    /// Adds an interval's softirqs by the cgroup that they interrupted. Few interruptions say
    /// little, so older ones count too: on one CPU `ksoftirqd` may hide a sender, while a few
    /// softirqs interrupt it on another where it hardly runs. Ignores `measured_cpu`, on which a
    /// thread of ours measured.
    pub fn add_interval(&mut self, interval: &Interval, measured_cpu: Option<u32>) {
        let ids = interval.containers.iter().map(|row| row.container.cgroup);
        let present: HashSet<CgroupId> = ids.collect();
        self.parts.retain(|id, _| present.contains(id));
        self.charged_for_others_ns.clear();
        let all = |at: usize| {
            interval
                .containers
                .iter()
                .map(|row| charged_for_others_at(row, at))
                .sum::<u64>()
        };
        self.charged_for_others_ns
            .extend((0..interval.cpus.len()).map(all));
        let length_ns = interval.length.as_nanos() as f64;
        for row in &interval.containers {
            let columns = interval.cpus.iter().zip(&row.charged_by_cpu_ns);
            let is_used = |(cpu, _): &(CpuId, CpuTime)| measured_cpu != Some(cpu.0);
            let columns = columns.filter(|(cpu, ns)| **ns > 0 && is_used(cpu));
            let interrupted_ns: u64 = columns.clone().map(|(_, ns)| ns).sum();
            if interrupted_ns as f64 <= RAN_CPUS * length_ns {
                continue;
            }
            let interruptions: Vec<_> = columns
                .map(|((cpu, time), ns)| (cpu.0, interrupted_part(time, *ns)))
                .collect();
            let all: f64 = interruptions.iter().map(|(_, part)| part).sum();
            let parts = self.parts.entry(row.container.cgroup).or_default();
            let new = match parts.is_empty() {
                true => 1.0,
                false => interrupted_ns as f64 / (interrupted_ns as f64 + PLACEMENT_NS),
            };
            parts.values_mut().for_each(|part| *part *= 1.0 - new);
            for (cpu, part) in interruptions {
                *parts.entry(cpu).or_default() += part / all * new;
            }
        }
    }

    /// CPUs that the cgroup of `row` used on the interval's `at`th CPU, given `used_cpus` on all; 0
    /// if no softirq ever interrupted it there. Softirqs of others interrupt all running tasks
    /// alike. If they interrupted others for long and this cgroup hardly ever, it used little.
    pub fn used_on(
        &self,
        at: usize,
        row: &ContainerLedger,
        used_cpus: f64,
        interval: &Interval,
    ) -> f64 {
        let parts = self.parts.get(&row.container.cgroup);
        let cpu = interval.cpus[at].0.0;
        let part = parts.and_then(|parts| parts.get(&cpu)).copied();
        let interrupted_ns = row.charged_by_cpu_ns.get(at).copied().unwrap_or(0) as f64;
        let interrupted_ns = interrupted_ns + RAN_CPUS * interval.length.as_nanos() as f64;
        let all_ns = self.charged_for_others_ns.get(at).copied().unwrap_or(0);
        let others_ns = all_ns.saturating_sub(charged_for_others_at(row, at)) as f64;
        (part.unwrap_or(0.0) * used_cpus).min(interrupted_ns / (interrupted_ns + others_ns))
    }
}

/// Part of the interruptions on a CPU that hit the cgroup charged with `ns` > 0.
fn interrupted_part(time: &CpuTime, ns: u64) -> f64 {
    let unattributed = time.napi_thread_ns + time.charged_nobody_ns;
    ns as f64 / time.measured_ns().saturating_sub(unattributed).max(ns) as f64
}

#[cfg(test)]
mod tests {
    use super::super::simulation::interval;
    use super::*;

    /// Interval in which softirqs interrupt the first of two containers for `interrupted_ns` on
    /// CPUs 0 and 1, the second for 3 ms on CPU 0, and no task for 5 ms on CPU 1.
    fn interruptions(interrupted_ns: [u64; 2]) -> Interval {
        let time = |softirq_ns, charged_nobody_ns| CpuTime {
            softirq_ns,
            network_softirq_ns: softirq_ns,
            charged_nobody_ns,
            ..CpuTime::default()
        };
        let cpus = [
            time(3_000_000 + interrupted_ns[0], 0),
            time(5_000_000 + interrupted_ns[1], 5_000_000),
        ];
        let mut interval = interval(&cpus, &[(0, 0), (0, 0)]);
        interval.containers[0].charged_by_cpu_ns = interrupted_ns.to_vec();
        interval.containers[1].charged_by_cpu_ns = vec![3_000_000, 0];
        interval
    }

    fn parts(placement: &Placement) -> [f64; 2] {
        [0, 1].map(|cpu| {
            let parts = placement.parts.get(&CgroupId(1));
            parts
                .and_then(|parts| parts.get(&cpu))
                .copied()
                .unwrap_or(0.0)
        })
    }

    /// The container sends from CPU 1, where `ksoftirqd` does the work, and wakes on CPU 0 for a
    /// moment.
    /// Promise 30.
    #[test]
    fn a_few_softirqs_elsewhere_move_a_hidden_sender_little() {
        let mut placement = Placement::default();
        assert_eq!(parts(&placement), [0.0, 0.0]);
        (0..10).for_each(|_| placement.add_interval(&interruptions([0, 2_000_000]), None));
        assert_eq!(parts(&placement), [0.0, 1.0]);
        placement.add_interval(&interruptions([200_000, 0]), None);
        placement.add_interval(&interruptions([10_000, 0]), None);
        let [here, there] = parts(&placement);
        assert!(
            here < 0.02 && (here + there - 1.0).abs() < 1e-9,
            "{here} {there}"
        );
    }

    /// Promise 30.
    #[test]
    fn a_moved_container_is_found_on_its_new_cpu() {
        let mut placement = Placement::default();
        (0..10).for_each(|_| placement.add_interval(&interruptions([0, 2_000_000]), None));
        (0..15).for_each(|_| placement.add_interval(&interruptions([2_000_000, 0]), None));
        let [here, there] = parts(&placement);
        assert!(
            here > 0.9 && (here + there - 1.0).abs() < 1e-9,
            "{here} {there}"
        );
    }

    /// On CPU 0 softirqs interrupt the container for half of their time. On CPU 1 they do so for
    /// all of the short time that `ksoftirqd` leaves.
    /// Promise 30.
    #[test]
    fn ksoftirqds_time_counts_for_no_container() {
        let mut placement = Placement::default();
        placement.add_interval(&interruptions([3_000_000, 30_000]), None);
        let [here, there] = parts(&placement);
        assert!((here - 1.0 / 3.0).abs() < 1e-9, "{here} {there}");
        let mut empty = interval(&[], &[]);
        empty.containers.clear();
        placement.add_interval(&empty, None);
        assert_eq!(parts(&placement), [0.0, 0.0], "nothing is kept of it");
    }

    /// The container ran on CPU 0 for half of its time, and uses one CPU. Softirqs then interrupt
    /// only the other container there.
    /// Promise 30.
    #[test]
    fn a_container_that_softirqs_miss_runs_elsewhere() {
        let mut placement = Placement::default();
        let both = interruptions([3_000_000, 3_000_000]);
        placement.add_interval(&both, None);
        let used = |placement: &Placement, interval: &Interval| {
            let row = &interval.containers[0];
            [0, 1].map(|at| placement.used_on(at, row, 1.0, interval))
        };
        let [here, there] = used(&placement, &both);
        assert!(
            (here - 1.0 / 3.0).abs() < 0.01 && there > 0.66,
            "{here} {there}"
        );
        let missed = interruptions([0, 3_000_000]);
        placement.add_interval(&missed, None);
        let [here, there] = used(&placement, &missed);
        assert!(here < 0.01 && there > 0.7, "{here} {there}");
        let mut hidden = interruptions([0, 0]);
        hidden.containers[1].caused_by_cpu_ns = vec![6_000_000, 0];
        placement.add_interval(&hidden, None);
        let [here, there] = used(&placement, &hidden);
        assert!(
            here > 0.2,
            "the other meets its own softirqs: {here} {there}"
        );
    }
}
