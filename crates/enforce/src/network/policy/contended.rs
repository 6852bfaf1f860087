//! Contended CPUs: those on which one container's packets run in others' time. The others are all
//! that run there: containers and, if they run for more than a moment, host cgroups and tasks of
//! unknown cgroups. Idle time has no victim, nor has the time of threads that do network work
//! themselves. But on a fully used CPU such a thread takes time from the other tasks.

use super::competitors::Competitors;
use super::idle::IdleTime;
use crate::tuning::network::{
    CAUSED_NEW_PART, CAUSES_CPUS, COUNTS_CPUS, STAYS_CONTENDED, STAYS_WORST_CPUS, VICTIM_CPUS,
};
use cofferdam_types::{ContainerLedger, Interval};
use std::time::Duration;

/// CPUs on which others are charged for a container's packets, or were a moment ago.
#[derive(Debug, Default)]
pub(super) struct ContendedCpus {
    cpus: Vec<ContendedCpu>,
    /// CPU on which the container's use is bounded.
    worst: Option<u32>,
}

#[derive(Debug)]
struct ContendedCpu {
    cpu: u32,
    last: Duration,
    /// Part (0..=1) of the CPU that the container's packets took, averaged.
    caused: f64,
}

impl ContendedCpus {
    /// Records the CPUs on which others are charged now, with the part of each that the container's
    /// packets took. A CPU stays contended for a moment: a limited container causes work in bursts.
    pub fn record(&mut self, contended: &[(u32, f64)], now: Duration) {
        self.cpus
            .retain(|one| now.saturating_sub(one.last) < STAYS_CONTENDED);
        for one in &mut self.cpus {
            let caused = contended.iter().find(|(cpu, _)| *cpu == one.cpu);
            let caused = caused.map_or(0.0, |(_, part)| *part);
            one.caused += (caused - one.caused) * CAUSED_NEW_PART;
        }
        for (cpu, caused) in contended {
            match self.cpus.iter_mut().find(|one| one.cpu == *cpu) {
                Some(one) => one.last = now,
                None => self.cpus.push(ContendedCpu {
                    cpu: *cpu,
                    last: now,
                    caused: *caused,
                }),
            }
        }
    }

    /// Chooses, among CPUs with waiting competitors and the container's `shares` of them, the one
    /// where its packets most exceed its share. Shares of several CPUs must not be added up: time
    /// left unused on one CPU repays no competitor on another. The choice stays until another CPU
    /// is clearly worse.
    pub fn worst(&mut self, shares: &[(u32, f64)]) -> Option<(u32, f64)> {
        let beyond = |(cpu, share): &(u32, f64)| {
            let previous = self.cpus.iter().find(|one| one.cpu == *cpu);
            let caused = previous.map_or(0.0, |one| one.caused);
            let stays = if self.worst == Some(*cpu) {
                STAYS_WORST_CPUS
            } else {
                0.0
            };
            caused + stays - share
        };
        let worst = shares.iter().max_by(|a, b| beyond(a).total_cmp(&beyond(b)));
        let worst = worst.copied();
        self.worst = worst.map(|(cpu, _)| cpu);
        worst
    }

    /// All contended CPUs.
    pub fn cpus(&self) -> Vec<u32> {
        self.cpus.iter().map(|one| one.cpu).collect()
    }
}

/// Network CPU charged on each CPU to possible victims there, nanoseconds.
#[derive(Debug)]
pub(super) struct ChargedTime {
    /// Unattributed time on fully used CPUs: `ksoftirqd` did the work, in time that the scheduler
    /// gave it.
    pub threads: Vec<u64>,
    /// Time charged to containers.
    pub containers: Vec<u64>,
    /// Time charged to containers and to host cgroups that run there on average. Host tasks that
    /// run for a moment, as our own agent, are left out.
    pub anybody: Vec<u64>,
}

impl ChargedTime {
    pub fn of(interval: &Interval, competitors: &Competitors, idle: &IdleTime) -> ChargedTime {
        let threads = interval.cpus.iter();
        let threads = threads.map(|(cpu, time)| match idle.is_full(cpu.0) {
            true => time.charged_nobody_ns,
            false => 0,
        });
        let unknown = interval.cpus.iter();
        let unknown = unknown.map(|(cpu, time)| match competitors.has_unknown(cpu.0) {
            true => time.charged_host_ns,
            false => 0,
        });
        let mut charged = ChargedTime {
            threads: threads.collect(),
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
                if !is_of_host || competitors.has(cpu.0, row.container.cgroup) {
                    charged.anybody[i] += ns;
                }
            }
        }
        charged
    }

    /// Charges that contend with a container. Under a quota only those of containers count, because
    /// the quota bounds its packets anywhere. A host task that sends to such a container is charged
    /// for the packets dropped there. No weight of the container repays that, and counting it would
    /// stop the container's own tasks.
    pub fn contending_with(&self, is_under_quota: bool) -> &[u64] {
        match is_under_quota {
            true => &self.containers,
            false => &self.anybody,
        }
    }
}

/// CPUs on which the container of `row` causes work with victims, and the part of each that it
/// takes. The victims are charged in their own time, or wait while `ksoftirqd` works; a quota does
/// not count the latter.
pub(super) fn contended_cpus(
    row: &ContainerLedger,
    charged: &ChargedTime,
    is_under_quota: bool,
    competitors: &Competitors,
    interval: &Interval,
) -> Vec<(u32, f64)> {
    let length_ns = interval.length.as_nanos() as f64;
    let columns = row.caused_by_cpu_ns.iter().zip(&row.charged_by_cpu_ns);
    let charges = charged.contending_with(is_under_quota).iter();
    let cpus = interval.cpus.iter().zip(columns);
    let cpus = cpus.zip(charges.zip(&charged.threads));
    cpus.filter(|(((cpu, _), (caused, own)), (charges, threads))| {
        let is_notable = |ns: u64| ns as f64 > VICTIM_CPUS * length_ns;
        let waits = || !is_under_quota && competitors.has_other(cpu.0, row.container.cgroup);
        let others_are_charged =
            is_notable(charges.saturating_sub(**own)) || (is_notable(**threads) && waits());
        others_are_charged && **caused as f64 > CAUSES_CPUS * length_ns
    })
    .map(|(((cpu, _), (caused, _)), _)| (cpu.0, *caused as f64 / length_ns))
    .collect()
}

/// Whether the container's network work matters at all, or others' work is charged to it enough to
/// affect a quota.
pub(super) fn counts(row: &ContainerLedger, interval: &Interval) -> bool {
    let length_ns = interval.length.as_nanos() as f64;
    let (caused, charged) = (row.ledger.caused_ns(), row.ledger.charged_network_ns);
    let pays = charged.saturating_sub(caused);
    caused as f64 > COUNTS_CPUS * length_ns || pays as f64 > CAUSES_CPUS * length_ns
}

/// Time that a container was charged for others on the interval's `at`th CPU, nanoseconds: charged
/// minus caused.
pub(super) fn charged_for_others_at(row: &ContainerLedger, at: usize) -> u64 {
    let ns = |column: &[u64]| column.get(at).copied().unwrap_or(0);
    ns(&row.charged_by_cpu_ns).saturating_sub(ns(&row.caused_by_cpu_ns))
}

/// Time that a container was charged for others on these CPUs, nanoseconds.
pub(super) fn charged_for_others_ns(
    row: &ContainerLedger,
    cpus: &[u32],
    interval: &Interval,
) -> f64 {
    let there = interval.cpus.iter().enumerate();
    let there = there.filter(|(_, (cpu, _))| cpus.contains(&cpu.0));
    there
        .map(|(at, _)| charged_for_others_at(row, at))
        .sum::<u64>() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Duration = Duration::from_millis(20);

    /// Shares of two CPUs must not be added up: time left on one is of no use to a competitor on
    /// the other.
    /// Promise 34.
    #[test]
    fn the_cpu_furthest_beyond_the_share_is_chosen() {
        let mut cpus = ContendedCpus::default();
        for step in 0..100 {
            cpus.record(&[(0, 0.6), (1, 0.1)], STEP * step);
            assert_eq!(cpus.worst(&[(0, 0.5), (1, 0.5)]), Some((0, 0.5)));
        }
        // The container causes less on CPU 1, but its share there is almost nothing.
        assert_eq!(cpus.worst(&[(0, 0.8), (1, 0.01)]), Some((1, 0.01)));
        assert_eq!(cpus.worst(&[(1, 0.5)]), Some((1, 0.5)));
        assert_eq!(cpus.worst(&[]), None, "nobody waits anywhere");
    }

    /// Promise 34.
    #[test]
    fn the_choice_stays_until_another_cpu_is_clearly_worse() {
        let mut cpus = ContendedCpus::default();
        let shares = [(0, 0.5), (1, 0.5)];
        cpus.record(&[(0, 0.6), (1, 0.3)], Duration::ZERO);
        assert_eq!(cpus.worst(&shares), Some((0, 0.5)));
        let mut now = Duration::ZERO;
        let mut cause = |cpus: &mut ContendedCpus, there: f64| {
            for _ in 0..500 {
                now += STEP;
                cpus.record(&[(0, 0.6), (1, there)], now);
            }
            cpus.worst(&shares).map(|(cpu, _)| cpu)
        };
        assert_eq!(cause(&mut cpus, 0.63), Some(0));
        assert_eq!(cause(&mut cpus, 0.7), Some(1));
        assert_eq!(cause(&mut cpus, 0.6), Some(1), "nor back at once");
        cpus.record(&[], now + STAYS_CONTENDED);
        assert!(cpus.cpus().is_empty());
    }

    /// `ksoftirqd` takes half of a CPU for the offender's packets, and hardly any of them interrupt
    /// the victim.
    /// Promise 30.
    #[test]
    fn ksoftirqds_work_contends_with_waiting_tasks() {
        use super::super::facts::IdleParts;
        use super::super::simulation::interval;
        use cofferdam_types::CpuTime;

        let time = CpuTime {
            softirq_ns: 8_000_000,
            network_softirq_ns: 8_000_000,
            charged_nobody_ns: 6_000_000,
            ..CpuTime::default()
        };
        let contended = |idle_part: f64, victim_ns: u64, is_under_quota: bool| {
            let mut interval = interval(&[time], &[(8_000_000, 1_950_000), (0, 50_000)]);
            interval.containers[1].ledger.cpu_usage_ns = victim_ns;
            let mut competitors = Competitors::default();
            competitors.add_interval(Duration::ZERO, &interval, None);
            let mut idle = IdleTime::default();
            idle.update(&IdleParts {
                length: STEP,
                by_cpu: [(0, idle_part)].into(),
            });
            let charged = ChargedTime::of(&interval, &competitors, &idle);
            let row = &interval.containers[0];
            let cpus = contended_cpus(row, &charged, is_under_quota, &competitors, &interval);
            !cpus.is_empty()
        };
        assert!(contended(0.0, 5_000_000, false));
        assert!(!contended(0.5, 5_000_000, false), "nobody waits");
        assert!(!contended(0.0, 100_000, false), "nobody else runs there");
        assert!(!contended(0.0, 5_000_000, true), "its quota bounds it");
    }
}
