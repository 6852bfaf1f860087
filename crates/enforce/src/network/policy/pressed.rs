//! Who pays for whom: the CPUs on which one container's packets run in others' time. The others are
//! whoever runs: containers, and, where they run for more than a moment, cgroups of the host and tasks
//! whose cgroup is not known. Idle time is nobody's, and so is that of threads which do network work
//! themselves.

use super::rivals::Rivals;
use crate::tuning::network::{CAUSES_CPUS, COUNTS_CPUS, PAID_CPUS, PRESSED};
use cofferdam_types::{ContainerLedger, Interval};
use std::time::Duration;

/// CPUs on which others pay for a container, or did a moment ago.
#[derive(Debug, Default)]
pub(super) struct PressedCpus(Vec<(u32, Duration)>);

impl PressedCpus {
    /// `pressed`, with those CPUs that were pressed a moment ago: a limited container shows up
    /// in bursts.
    pub fn still(&mut self, pressed: &[u32], now: Duration) -> Vec<u32> {
        self.0
            .retain(|(cpu, at)| now.saturating_sub(*at) < PRESSED && !pressed.contains(cpu));
        self.0.extend(pressed.iter().map(|cpu| (*cpu, now)));
        self.0.iter().map(|(cpu, _)| *cpu).collect()
    }
}

/// Network CPU charged on each CPU to those who can be pressed there, nanoseconds.
#[derive(Debug)]
pub(super) struct Charged {
    /// To containers.
    pub containers: Vec<u64>,
    /// To containers and to what of the host runs there on average. Of the host something always runs
    /// for a moment, our own agent for one: that is left out.
    pub anybody: Vec<u64>,
}

impl Charged {
    pub fn of(interval: &Interval, rivals: &Rivals) -> Charged {
        let unknown = interval.cpus.iter();
        let unknown = unknown.map(|(cpu, time)| match rivals.has_unknown(cpu.0) {
            true => time.charged_host_ns,
            false => 0,
        });
        let mut charged = Charged {
            containers: vec![0; interval.cpus.len()],
            anybody: unknown.collect(),
        };
        for row in &interval.containers {
            let is_of_host = row.container.is_of_host();
            for (i, ((cpu, _), ns)) in
                (interval.cpus.iter().zip(&row.charged_by_cpu_ns)).enumerate()
            {
                if !is_of_host {
                    charged.containers[i] += ns;
                }
                if !is_of_host || rivals.has(cpu.0, row.container.cgroup) {
                    charged.anybody[i] += ns;
                }
            }
        }
        charged
    }

    /// To those who press a container. One under a quota is bounded by that, wherever its packets
    /// run; beside containers the time comes back by weight. A task of the host that sends to it pays
    /// for the packets dropped there, which no weight of the container's gives back: counted, it would
    /// stop the container's own tasks.
    pub fn pressing(&self, is_under_quota: bool) -> &[u64] {
        match is_under_quota {
            true => &self.containers,
            false => &self.anybody,
        }
    }
}

/// CPUs on which the container of `row` causes work and others pay.
pub(super) fn pressed_cpus(
    row: &ContainerLedger,
    charged_by_cpu: &[u64],
    interval: &Interval,
) -> Vec<u32> {
    let length_ns = interval.length.as_nanos() as f64;
    let columns = row.caused_by_cpu_ns.iter().zip(&row.charged_by_cpu_ns);
    let cpus = interval.cpus.iter().zip(columns).zip(charged_by_cpu);
    cpus.filter(|((_, (caused, own)), all)| {
        let others = all.saturating_sub(**own) as f64;
        others > PAID_CPUS * length_ns && **caused as f64 > CAUSES_CPUS * length_ns
    })
    .map(|(((cpu, _), _), _)| cpu.0)
    .collect()
}

/// Whether the network work of a container counts at all.
pub(super) fn counts(row: &ContainerLedger, interval: &Interval) -> bool {
    row.ledger.caused_ns() as f64 > COUNTS_CPUS * interval.length.as_nanos() as f64
}

/// What a container paid for others on these CPUs, nanoseconds.
pub(super) fn paid_ns(row: &ContainerLedger, cpus: &[u32], interval: &Interval) -> f64 {
    let columns = row.caused_by_cpu_ns.iter().zip(&row.charged_by_cpu_ns);
    let columns = interval.cpus.iter().zip(columns);
    let paid = columns
        .filter(|((cpu, _), _)| cpus.contains(&cpu.0))
        .map(|(_, (caused, charged))| charged.saturating_sub(*caused));
    paid.sum::<u64>() as f64
}
