//! CPUs of a server's cores.

use crate::experiment::Rig;
use crate::host_facts;

/// Cores of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cores {
    /// This number of cores, each on a CPU of its own.
    Each(u32),
    /// This number of cores, all on one CPU.
    Together(u32),
}

/// One core, for all experiments that do not vary the cores.
pub(super) const ONE: Cores = Cores::Each(1);

/// CPUs for a server's cores, in this order: all but the generator's. The generator's CPU is the
/// last if only one other exists.
pub(super) fn order(online: &[u32], first: u32, generator: u32) -> Vec<u32> {
    let others = online
        .iter()
        .copied()
        .filter(|cpu| ![first, generator].contains(cpu));
    let mut order: Vec<u32> = std::iter::once(first).chain(others).collect();
    if order.len() == 1 {
        order.push(generator);
    }
    order
}

/// Numbers of cores to measure, up to `most`: each number up to eight, then doubled.
pub(super) fn core_counts(most: u32, quick: bool) -> Vec<u32> {
    let each = if quick { 2 } else { 8 };
    let mut counts: Vec<u32> = (1..=most.min(each)).collect();
    let doubled = std::iter::successors(Some(each * 2), |n| n.checked_mul(2));
    if !quick {
        counts.extend(doubled.take_while(|n| *n < most));
        counts.extend((most > each).then_some(most));
    }
    counts
}

impl Cores {
    /// CPUs of the cores.
    pub fn cpus(self, rig: &Rig<'_>) -> Vec<u32> {
        match self {
            Cores::Each(1) | Cores::Together(_) => vec![rig.victim_cpu],
            Cores::Each(count) => {
                let online = host_facts::online_cpus();
                let mut cpus = order(&online, rig.victim_cpu, rig.peer_cpu);
                cpus.truncate(count as usize);
                cpus
            }
        }
    }

    /// Whether the server shares a CPU with the generator.
    pub fn share(self, rig: &Rig<'_>) -> bool {
        self.cpus(rig).contains(&rig.peer_cpu)
    }

    /// Whether the dataplane's loops sleep when idle, because they share their CPU.
    pub fn sleep(self, rig: &Rig<'_>) -> bool {
        matches!(self, Cores::Together(_)) || self.share(rig)
    }

    /// Options of the dataplane worker for these cores.
    pub fn arguments(self, cpus: &[u32]) -> String {
        match self {
            Cores::Together(count) => " --core any".repeat(count as usize),
            Cores::Each(_) => cpus.iter().map(|cpu| format!(" --core {cpu}")).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise 46.
    #[test]
    fn a_server_gets_the_generators_cpu_last() {
        assert_eq!(order(&[0, 1], 0, 1), [0, 1]);
        assert_eq!(order(&[0, 1, 2, 3], 0, 2), [0, 1, 3]);
        assert_eq!(order(&[0, 1, 2], 1, 0), [1, 2]);
        assert_eq!(core_counts(2, true), [1, 2]);
        assert_eq!(core_counts(7, true), [1, 2]);
        assert_eq!(core_counts(3, false), [1, 2, 3]);
        assert_eq!(core_counts(8, false), [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(core_counts(40, false), [1, 2, 3, 4, 5, 6, 7, 8, 16, 32, 40]);
        assert_eq!(core_counts(16, false), [1, 2, 3, 4, 5, 6, 7, 8, 16]);
    }
}
