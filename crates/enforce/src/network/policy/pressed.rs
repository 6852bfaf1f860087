//! Who pays for whom: the CPUs on which one container's packets run in others' time. The others are
//! whoever runs: containers, and, where they run for more than a moment, cgroups of the host and tasks
//! whose cgroup is not known. Idle time is nobody's, and so is that of threads which do network work
//! themselves.

use super::rivals::Rivals;
use crate::tuning::network::{
    CAUSES_CPUS, COUNTS_CPUS, PAID_CPUS, PAID_NEW_PART, PRESSED, STAYS_WORST,
};
use cofferdam_types::{ContainerLedger, Interval};
use std::time::Duration;

/// CPUs on which others pay for a container, or did a moment ago.
#[derive(Debug, Default)]
pub(super) struct PressedCpus {
    cpus: Vec<PressedCpu>,
    /// The one that counts.
    worst: Option<u32>,
}

#[derive(Debug)]
struct PressedCpu {
    cpu: u32,
    last: Duration,
    /// What others paid there a step, nanoseconds, averaged.
    paid_ns: f64,
}

impl PressedCpus {
    /// Takes in on which CPUs others pay now, and how much. Those that were pressed a moment ago still
    /// are: a limited container shows up in bursts.
    pub fn note(&mut self, pressed: &[(u32, f64)], now: Duration) {
        self.cpus
            .retain(|one| now.saturating_sub(one.last) < PRESSED);
        for one in &mut self.cpus {
            let paid = pressed.iter().find(|(cpu, _)| *cpu == one.cpu);
            let paid_ns = paid.map_or(0.0, |(_, ns)| *ns);
            one.paid_ns += (paid_ns - one.paid_ns) * PAID_NEW_PART;
        }
        for (cpu, paid_ns) in pressed {
            match self.cpus.iter_mut().find(|one| one.cpu == *cpu) {
                Some(one) => one.last = now,
                None => self.cpus.push(PressedCpu {
                    cpu: *cpu,
                    last: now,
                    paid_ns: *paid_ns,
                }),
            }
        }
    }

    /// The CPU that counts: where others pay most, of the CPUs `full`, or, without one of them, of all.
    /// What a container leaves on one CPU gives nothing back to those who wait on another, so their
    /// shares must not be added up. It stays the one until others pay clearly more elsewhere.
    pub fn worst(&mut self, full: &[u32]) -> Option<u32> {
        let is_full = |one: &&PressedCpu| full.contains(&one.cpu);
        let any = self.cpus.iter().any(|one| is_full(&one));
        let candidates = self.cpus.iter().filter(|one| !any || is_full(one));
        let weigh = |one: &PressedCpu| match self.worst == Some(one.cpu) {
            true => one.paid_ns * STAYS_WORST,
            false => one.paid_ns,
        };
        let worst = candidates.max_by(|a, b| weigh(a).total_cmp(&weigh(b)));
        self.worst = worst.map(|one| one.cpu);
        self.worst
    }

    /// All of them.
    pub fn cpus(&self) -> Vec<u32> {
        self.cpus.iter().map(|one| one.cpu).collect()
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

/// CPUs on which the container of `row` causes work and others pay, and what of it, nanoseconds.
pub(super) fn pressed_cpus(
    row: &ContainerLedger,
    charged_by_cpu: &[u64],
    interval: &Interval,
) -> Vec<(u32, f64)> {
    let length_ns = interval.length.as_nanos() as f64;
    let columns = row.caused_by_cpu_ns.iter().zip(&row.charged_by_cpu_ns);
    let cpus = interval.cpus.iter().zip(columns).zip(charged_by_cpu);
    cpus.filter(|((_, (caused, own)), all)| {
        let others = all.saturating_sub(**own) as f64;
        others > PAID_CPUS * length_ns && **caused as f64 > CAUSES_CPUS * length_ns
    })
    .map(|(((cpu, _), (caused, own)), all)| {
        let others = all.saturating_sub(*own).min(*caused);
        (cpu.0, others as f64)
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Duration = Duration::from_millis(20);

    /// Shares of two CPUs must not be added up: what is left on one is no use to who waits on the other.
    #[test]
    fn the_cpu_where_others_pay_most_counts_alone() {
        let mut cpus = PressedCpus::default();
        for step in 0..100 {
            cpus.note(&[(0, 6e6), (1, 1e6)], STEP * step);
            assert_eq!(cpus.worst(&[0, 1]), Some(0));
        }
        assert_eq!(cpus.worst(&[1]), Some(1), "on the other nobody waits");
        assert_eq!(cpus.worst(&[]), Some(0), "nor anywhere: where most is paid");
    }

    #[test]
    fn it_stays_until_others_pay_clearly_more_elsewhere_or_nobody_pays() {
        let mut cpus = PressedCpus::default();
        cpus.note(&[(0, 2e6), (1, 1e6)], Duration::ZERO);
        assert_eq!(cpus.worst(&[0, 1]), Some(0));
        let mut now = Duration::ZERO;
        let mut pay = |cpus: &mut PressedCpus, there: f64| {
            for _ in 0..500 {
                now += STEP;
                cpus.note(&[(0, 2e6), (1, there)], now);
            }
            cpus.worst(&[0, 1])
        };
        assert_eq!(pay(&mut cpus, 2.5e6), Some(0));
        assert_eq!(pay(&mut cpus, 4e6), Some(1));
        assert_eq!(pay(&mut cpus, 2e6), Some(1), "nor back at once");
        cpus.note(&[], now + PRESSED);
        assert_eq!(cpus.worst(&[0, 1]), None);
    }
}
