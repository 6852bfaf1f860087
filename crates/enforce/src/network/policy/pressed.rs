//! Who pays for whom: the CPUs on which one container's packets run in others' time. The others are
//! whoever runs: containers, and, where they run for more than a moment, cgroups of the host and tasks
//! whose cgroup is not known. Idle time is nobody's, and so is that of threads which do network work
//! themselves; but where nothing is idle, such a thread takes from whoever else would run.

use super::idle::IdleTime;
use super::rivals::Rivals;
use crate::tuning::network::{
    CAUSED_NEW_PART, CAUSES_CPUS, COUNTS_CPUS, PAID_CPUS, PRESSED, STAYS_WORST_CPUS,
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
    /// What the container's packets took of it, averaged; 0..=1.
    caused: f64,
}

impl PressedCpus {
    /// Takes in on which CPUs others pay now, and which part of each the container's packets took. Those
    /// that were pressed a moment ago still are: a limited container shows up in bursts.
    pub fn note(&mut self, pressed: &[(u32, f64)], now: Duration) {
        self.cpus
            .retain(|one| now.saturating_sub(one.last) < PRESSED);
        for one in &mut self.cpus {
            let caused = pressed.iter().find(|(cpu, _)| *cpu == one.cpu);
            let caused = caused.map_or(0.0, |(_, part)| *part);
            one.caused += (caused - one.caused) * CAUSED_NEW_PART;
        }
        for (cpu, caused) in pressed {
            match self.cpus.iter_mut().find(|one| one.cpu == *cpu) {
                Some(one) => one.last = now,
                None => self.cpus.push(PressedCpu {
                    cpu: *cpu,
                    last: now,
                    caused: *caused,
                }),
            }
        }
    }

    /// The CPU that counts, of `shares`: CPUs on which others wait, and the container's share of each. It
    /// is the one where its packets go furthest beyond its share. What a container leaves on one CPU
    /// gives nothing back to those who wait on another, so shares must not be added up. It stays the
    /// one until another is clearly worse.
    pub fn worst(&mut self, shares: &[(u32, f64)]) -> Option<(u32, f64)> {
        let beyond = |(cpu, share): &(u32, f64)| {
            let known = self.cpus.iter().find(|one| one.cpu == *cpu);
            let caused = known.map_or(0.0, |one| one.caused);
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

    /// All of them.
    pub fn cpus(&self) -> Vec<u32> {
        self.cpus.iter().map(|one| one.cpu).collect()
    }
}

/// Network CPU charged on each CPU to those who can be pressed there, nanoseconds.
#[derive(Debug)]
pub(super) struct Charged {
    /// To nobody on CPUs where nothing is idle: `ksoftirqd` did it, in time that the scheduler gave it.
    pub threads: Vec<u64>,
    /// To containers.
    pub containers: Vec<u64>,
    /// To containers and to what of the host runs there on average. Of the host something always runs
    /// for a moment, our own agent for one: that is left out.
    pub anybody: Vec<u64>,
}

impl Charged {
    pub fn of(interval: &Interval, rivals: &Rivals, idle: &IdleTime) -> Charged {
        let threads = interval.cpus.iter();
        let threads = threads.map(|(cpu, time)| match idle.is_full(cpu.0) {
            true => time.charged_nobody_ns,
            false => 0,
        });
        let unknown = interval.cpus.iter();
        let unknown = unknown.map(|(cpu, time)| match rivals.has_unknown(cpu.0) {
            true => time.charged_host_ns,
            false => 0,
        });
        let mut charged = Charged {
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

/// CPUs on which the container of `row` causes work and others pay, and the part of each that it takes. Others pay
/// with their time, or wait while `ksoftirqd` works; what that does is no quota's.
pub(super) fn pressed_cpus(
    row: &ContainerLedger,
    charged: &Charged,
    is_under_quota: bool,
    rivals: &Rivals,
    interval: &Interval,
) -> Vec<(u32, f64)> {
    let length_ns = interval.length.as_nanos() as f64;
    let columns = row.caused_by_cpu_ns.iter().zip(&row.charged_by_cpu_ns);
    let paid = charged.pressing(is_under_quota).iter();
    let cpus = interval.cpus.iter().zip(columns);
    let cpus = cpus.zip(paid.zip(&charged.threads));
    cpus.filter(|(((cpu, _), (caused, own)), (paid, threads))| {
        let is_paid = |ns: u64| ns as f64 > PAID_CPUS * length_ns;
        let waits = || !is_under_quota && rivals.has_other(cpu.0, row.container.cgroup);
        let others_pay = is_paid(paid.saturating_sub(**own)) || (is_paid(**threads) && waits());
        others_pay && **caused as f64 > CAUSES_CPUS * length_ns
    })
    .map(|(((cpu, _), (caused, _)), _)| (cpu.0, *caused as f64 / length_ns))
    .collect()
}

/// Whether the network work of a container counts at all, or it pays for others so much that a quota of
/// its own would tell.
pub(super) fn counts(row: &ContainerLedger, interval: &Interval) -> bool {
    let length_ns = interval.length.as_nanos() as f64;
    let (caused, charged) = (row.ledger.caused_ns(), row.ledger.charged_network_ns);
    let pays = charged.saturating_sub(caused);
    caused as f64 > COUNTS_CPUS * length_ns || pays as f64 > CAUSES_CPUS * length_ns
}

/// What one paid for others on the interval's `at`th CPU, nanoseconds: it was charged so much more than it caused.
pub(super) fn paid_at(row: &ContainerLedger, at: usize) -> u64 {
    let ns = |column: &[u64]| column.get(at).copied().unwrap_or(0);
    ns(&row.charged_by_cpu_ns).saturating_sub(ns(&row.caused_by_cpu_ns))
}

/// What a container paid for others on these CPUs, nanoseconds.
pub(super) fn paid_ns(row: &ContainerLedger, cpus: &[u32], interval: &Interval) -> f64 {
    let there = interval.cpus.iter().enumerate();
    let there = there.filter(|(_, (cpu, _))| cpus.contains(&cpu.0));
    there.map(|(at, _)| paid_at(row, at)).sum::<u64>() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: Duration = Duration::from_millis(20);

    /// Shares of two CPUs must not be added up: what is left on one is no use to who waits on the other.
    /// Promise 34.
    #[test]
    fn the_cpu_where_it_goes_furthest_beyond_its_share_counts_alone() {
        let mut cpus = PressedCpus::default();
        for step in 0..100 {
            cpus.note(&[(0, 0.6), (1, 0.1)], STEP * step);
            assert_eq!(cpus.worst(&[(0, 0.5), (1, 0.5)]), Some((0, 0.5)));
        }
        // Less is caused there, but it may have next to nothing.
        assert_eq!(cpus.worst(&[(0, 0.8), (1, 0.01)]), Some((1, 0.01)));
        assert_eq!(cpus.worst(&[(1, 0.5)]), Some((1, 0.5)));
        assert_eq!(cpus.worst(&[]), None, "nobody waits anywhere");
    }

    /// Promise 34.
    #[test]
    fn it_stays_until_another_is_clearly_worse_or_nobody_pays() {
        let mut cpus = PressedCpus::default();
        let shares = [(0, 0.5), (1, 0.5)];
        cpus.note(&[(0, 0.6), (1, 0.3)], Duration::ZERO);
        assert_eq!(cpus.worst(&shares), Some((0, 0.5)));
        let mut now = Duration::ZERO;
        let mut cause = |cpus: &mut PressedCpus, there: f64| {
            for _ in 0..500 {
                now += STEP;
                cpus.note(&[(0, 0.6), (1, there)], now);
            }
            cpus.worst(&shares).map(|(cpu, _)| cpu)
        };
        assert_eq!(cause(&mut cpus, 0.63), Some(0));
        assert_eq!(cause(&mut cpus, 0.7), Some(1));
        assert_eq!(cause(&mut cpus, 0.6), Some(1), "nor back at once");
        cpus.note(&[], now + PRESSED);
        assert!(cpus.cpus().is_empty());
    }

    /// Of a CPU half goes to `ksoftirqd` for the offender's packets; hardly any of them meet the victim.
    /// Promise 30.
    #[test]
    fn what_ksoftirqd_does_presses_whoever_waits_for_the_cpu() {
        use super::super::facts::IdleParts;
        use super::super::simulation::interval;
        use cofferdam_types::CpuTime;

        let time = CpuTime {
            softirq_ns: 8_000_000,
            network_softirq_ns: 8_000_000,
            charged_nobody_ns: 6_000_000,
            ..CpuTime::default()
        };
        let pressed = |idle_part: f64, victim_ns: u64, is_under_quota: bool| {
            let mut interval = interval(&[time], &[(8_000_000, 1_950_000), (0, 50_000)]);
            interval.containers[1].ledger.cpu_usage_ns = victim_ns;
            let mut rivals = Rivals::default();
            rivals.note(Duration::ZERO, &interval, None);
            let mut idle = IdleTime::default();
            idle.update(&IdleParts {
                length: STEP,
                by_cpu: [(0, idle_part)].into(),
            });
            let charged = Charged::of(&interval, &rivals, &idle);
            let row = &interval.containers[0];
            let cpus = pressed_cpus(row, &charged, is_under_quota, &rivals, &interval);
            !cpus.is_empty()
        };
        assert!(pressed(0.0, 5_000_000, false));
        assert!(!pressed(0.5, 5_000_000, false), "nobody waits");
        assert!(!pressed(0.0, 100_000, false), "nobody else runs there");
        assert!(!pressed(0.0, 5_000_000, true), "its quota bounds it");
    }
}
