//! CPU time that containers lost while they waited, divided among the tasks that ran meanwhile.

use super::evidence::Evidence;
use super::transfer::{Means, Offender};
use crate::diagnosis::{CpuLossRecord, DiagnosisRecord, NeighbourRecord};
use std::collections::BTreeMap;

/// Sum of several diagnoses of the same host.
#[derive(Debug, Default)]
pub(super) struct Losses {
    /// Length of all together, seconds.
    pub seconds: f64,
    /// Losses of each container, by cgroup.
    pub containers: BTreeMap<u64, CpuLossRecord>,
    /// Time that a victim lost to a neighbour on a CPU, nanoseconds. No neighbour means host tasks.
    shares: BTreeMap<(u64, Option<u64>, u32), u64>,
    /// Idle time and run time of host tasks on each CPU, nanoseconds.
    by_cpu: BTreeMap<u32, (u64, u64)>,
    /// Idle time and run time of host tasks on all CPUs, nanoseconds.
    all_cpus: (u64, u64),
}

/// Part of a loss that one offender took.
pub(super) struct LossPart {
    pub victim: u64,
    pub offender: Offender,
    pub means: Means,
    pub cpus: f64,
}

/// Packets that host tasks handled on a CPU: container, and its part of their run time.
type HandledPackets = Vec<(u64, f64)>;

impl Losses {
    /// Sum of `diagnoses`; `None` without one.
    pub fn new(diagnoses: &[&DiagnosisRecord]) -> Option<Losses> {
        let mut sum = Losses::default();
        for diagnosis in diagnoses {
            sum.add(diagnosis);
        }
        (!diagnoses.is_empty()).then_some(sum)
    }

    fn add(&mut self, diagnosis: &DiagnosisRecord) {
        self.seconds += diagnosis.interval_s;
        self.all_cpus.0 += diagnosis.idle_ns;
        self.all_cpus.1 += diagnosis.host_ns;
        for one in &diagnosis.by_cpu {
            let (idle_ns, host_ns) = self.by_cpu.entry(one.cpu).or_default();
            *idle_ns += one.idle_ns;
            *host_ns += one.host_ns;
        }
        for share in &diagnosis.shares {
            let key = (share.victim, share.neighbour, share.cpu);
            *self.shares.entry(key).or_default() += share.ns;
        }
        for loss in &diagnosis.containers {
            let Some(sum) = self.containers.get_mut(&loss.cgroup_id) else {
                self.containers.insert(loss.cgroup_id, loss.clone());
                continue;
            };
            sum.entitled_ns += loss.entitled_ns;
            sum.got_ns += loss.got_ns;
            sum.forced_sharing_ns += loss.forced_sharing_ns;
            sum.phantom_ns += loss.phantom_ns;
            sum.throttled_ns += loss.throttled_ns;
            sum.lack_ns += loss.lack_ns;
            sum.neighbour.clone_from(&loss.neighbour);
        }
    }

    /// Converts `ns` of all diagnoses to CPUs.
    pub fn cpus(&self, ns: u64) -> f64 {
        ns as f64 / 1e9 / self.seconds.max(0.001)
    }

    /// Parts of all losses. The parts of one container add up to no more than others took from it.
    /// No part has the time that a container waited for its own packets.
    pub fn parts(&self, evidence: &Evidence) -> Vec<LossPart> {
        let unpaid = evidence.unpaid_cpus();
        let by_cpu = self.by_cpu.iter();
        let handled: BTreeMap<u32, HandledPackets> = by_cpu
            .map(|(cpu, times)| {
                let on_cpu = unpaid.range((*cpu, 0)..=(*cpu, u64::MAX));
                let on_cpu = on_cpu.map(|((_, id), cpus)| (*id, *cpus));
                (*cpu, self.handled(*times, on_cpu.collect()))
            })
            .collect();
        let mut parts = Vec::new();
        for loss in self.containers.values() {
            let victim = loss.cgroup_id;
            let keys = (victim, None, 0)..=(victim, Some(u64::MAX), u32::MAX);
            let shares: Vec<_> = self.shares.range(keys).collect();
            let divided: u64 = shares.iter().map(|(_, ns)| **ns).sum();
            let excess = (divided as f64 / (loss.taken_ns() as f64).max(1.0)).max(1.0);
            for ((_, neighbour, cpu), ns) in &shares {
                let cpus = self.cpus(**ns) / excess;
                match neighbour {
                    // A wait for its own tasks is no harm by others.
                    Some(id) if *id == victim => {}
                    Some(id) => parts.push(LossPart {
                        victim,
                        offender: match evidence.container(*id) {
                            Some(_) => Offender::Container(*id),
                            None => Offender::Others,
                        },
                        means: Means::Tasks,
                        cpus,
                    }),
                    None => divide_hosts(victim, cpus, handled.get(cpu), &mut parts),
                }
            }
            if self.shares.is_empty() {
                self.undivided(evidence, loss, &unpaid, &mut parts);
            }
        }
        parts
    }

    /// Adds the part of a loss of which only the most frequent neighbour is known, as in the
    /// history.
    fn undivided(
        &self,
        evidence: &Evidence,
        loss: &CpuLossRecord,
        unpaid: &BTreeMap<(u32, u64), f64>,
        parts: &mut Vec<LossPart>,
    ) {
        let (victim, cpus) = (loss.cgroup_id, self.cpus(loss.taken_ns()));
        let offender = match &loss.neighbour {
            Some(NeighbourRecord::Host) => {
                let mut of_containers: BTreeMap<u64, f64> = BTreeMap::new();
                for ((_, id), cpus) in unpaid {
                    *of_containers.entry(*id).or_default() += cpus;
                }
                let handled = self.handled(self.all_cpus, of_containers.into_iter().collect());
                divide_hosts(victim, cpus, Some(&handled), parts);
                return;
            }
            Some(NeighbourRecord::Container { name }) => {
                // The diagnosis does not distinguish two containers of one name.
                let unique = evidence.container_named(name).map(|c| c.cgroup_id);
                unique.filter(|id| *id != victim)
            }
            None => None,
        };
        parts.push(LossPart {
            victim,
            offender: offender.map_or(Offender::Others, Offender::Container),
            means: Means::Tasks,
            cpus,
        });
    }

    /// Packets that were handled in the time of host tasks. Network work that no container was
    /// charged for ran in host tasks or while the CPU was idle. It is divided in proportion to
    /// both, as far as there was time.
    fn handled(&self, (idle_ns, host_ns): (u64, u64), unpaid: Vec<(u64, f64)>) -> HandledPackets {
        let (idle, host) = (self.cpus(idle_ns), self.cpus(host_ns));
        let all: f64 = unpaid.iter().map(|(_, cpus)| cpus).sum();
        if host <= 0.0 || all <= 0.0 {
            return Vec::new();
        }
        let least = (all - idle).clamp(0.0, host);
        let in_host = (all * host / (host + idle)).clamp(least, host);
        let part = |(id, cpus): (u64, f64)| (id, in_host / host * cpus / all);
        unpaid.into_iter().map(part).collect()
    }
}

/// Divides `cpus` that `victim` waited for host tasks. The part that was work on packets belongs to
/// their owners, the victim's own left out, and the rest to the host.
fn divide_hosts(
    victim: u64,
    cpus: f64,
    handled: Option<&HandledPackets>,
    parts: &mut Vec<LossPart>,
) {
    let handled = handled.map_or(&[][..], Vec::as_slice);
    let of_packets: f64 = handled.iter().map(|(_, part)| part).sum();
    let others = handled.iter().filter(|(id, _)| *id != victim);
    parts.extend(others.map(|(id, part)| LossPart {
        victim,
        offender: Offender::Container(*id),
        means: Means::Packets,
        cpus: cpus * part,
    }));
    parts.push(LossPart {
        victim,
        offender: Offender::Host,
        means: Means::Tasks,
        cpus: cpus * (1.0 - of_packets).max(0.0),
    });
}
