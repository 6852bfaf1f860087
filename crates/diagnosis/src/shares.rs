//! Lost time divided among the tasks that ran meanwhile.

use crate::reading::{ContainerCounts, DiagnosisReading};
use cofferdam_types::{CgroupId, CpuId, DiagnosedContainer, LossShare, UnusedTime};
use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

/// Losses below this part of a CPU are not divided.
const DIVIDED_FROM: f64 = 0.01;
/// Runners of one CPU that are listed by name: the ones that ran longest.
const MOST_RUNNERS: usize = 16;

/// Time of a container on one CPU since it was first tracked, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OnCpu {
    pub cpu: u32,
    pub run_ns: u64,
    pub waited_ns: u64,
}

/// Time of one CPU that no container used, since the start, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct UnusedCpuTime {
    pub idle_ns: u64,
    pub host_ns: u64,
}

/// Runner on a CPU (`None`: host tasks) and its run time, nanoseconds.
type Runner = (Option<CgroupId>, u64);

/// Divides the loss of each of `containers` between two readings, `length` apart. A wait on a CPU
/// is divided among all others that ran there, in proportion to their run time. Takes at most
/// [`MOST_RUNNERS`] steps per CPU and container with a large loss.
pub(crate) fn divide(
    containers: &[DiagnosedContainer],
    earlier: &DiagnosisReading,
    later: &DiagnosisReading,
    length: Duration,
) -> (Vec<LossShare>, Vec<UnusedTime>) {
    let least_ns = (length.as_nanos() as f64 * DIVIDED_FROM) as u64;
    let losers = containers.iter().filter(|c| c.loss.taken_ns() > least_ns);
    let losers: Vec<&DiagnosedContainer> = losers.collect();
    if losers.is_empty() {
        return (Vec::new(), Vec::new());
    }
    let unused = unused(earlier, later);
    let times = times(earlier, later);
    let runners = runners(&times, &unused);
    let mut shares = Vec::new();
    for loser in losers {
        let victim = loser.container.cgroup;
        let waits = times.get(&victim).map_or(&[][..], Vec::as_slice);
        let begin = shares.len();
        for wait in waits {
            if let Some((all_ns, on_cpu)) = runners.get(&wait.cpu) {
                let others_ns = all_ns.saturating_sub(wait.run_ns);
                let others = on_cpu.iter().filter(|(id, _)| *id != Some(victim));
                shares.extend(others.map(|(neighbour, run_ns)| LossShare {
                    victim,
                    neighbour: *neighbour,
                    cpu: CpuId(wait.cpu),
                    ns: scale(wait.waited_ns, *run_ns, others_ns),
                }));
            }
        }
        let waited_ns: u64 = waits.iter().map(|w| w.waited_ns).sum();
        for share in &mut shares[begin..] {
            share.ns = scale(share.ns, loser.loss.taken_ns(), waited_ns);
        }
    }
    shares.retain(|share| share.ns > 0);
    let unused = unused.into_iter().map(|(cpu, time)| UnusedTime {
        cpu: CpuId(cpu),
        idle_ns: time.idle_ns,
        host_ns: time.host_ns,
    });
    let has_share = |one: &UnusedTime| shares.iter().any(|s: &LossShare| s.cpu == one.cpu);
    let unused = unused.filter(has_share).collect();
    (shares, unused)
}

/// `ns` × `part` ÷ `whole`, at most `ns`.
fn scale(ns: u64, part: u64, whole: u64) -> u64 {
    if part >= whole {
        return ns;
    }
    (u128::from(ns) * u128::from(part) / u128::from(whole)) as u64
}

fn unused(earlier: &DiagnosisReading, later: &DiagnosisReading) -> BTreeMap<u32, UnusedCpuTime> {
    let before = |cpu: usize| earlier.by_cpu.get(cpu).copied().unwrap_or_default();
    let passed = |(cpu, now): (usize, &UnusedCpuTime)| {
        let old = before(cpu);
        let unused = UnusedCpuTime {
            idle_ns: now.idle_ns.saturating_sub(old.idle_ns),
            host_ns: now.host_ns.saturating_sub(old.host_ns),
        };
        (cpu as u32, unused)
    };
    later.by_cpu.iter().enumerate().map(passed).collect()
}

/// Run and wait time of each container between the readings, by CPU.
fn times(earlier: &DiagnosisReading, later: &DiagnosisReading) -> HashMap<CgroupId, Vec<OnCpu>> {
    let before: HashMap<CgroupId, &ContainerCounts> =
        (earlier.containers.iter().map(|c| (c.container.cgroup, c))).collect();
    let of = |now: &ContainerCounts| {
        let old = before
            .get(&now.container.cgroup)
            .map_or(&[][..], |c| &c.by_cpu);
        let passed = now.by_cpu.iter().map(|on| {
            // Both lists are sorted by CPU.
            let place = old.binary_search_by_key(&on.cpu, |o| o.cpu).ok();
            let (run_ns, waited_ns) =
                place.map_or((0, 0), |at| (old[at].run_ns, old[at].waited_ns));
            OnCpu {
                cpu: on.cpu,
                run_ns: on.run_ns.saturating_sub(run_ns),
                waited_ns: on.waited_ns.saturating_sub(waited_ns),
            }
        });
        (now.container.cgroup, passed.collect())
    };
    later.containers.iter().map(of).collect()
}

/// Run time on each CPU: the total, and the runners that ran longest.
fn runners(
    times: &HashMap<CgroupId, Vec<OnCpu>>,
    unused: &BTreeMap<u32, UnusedCpuTime>,
) -> BTreeMap<u32, (u64, Vec<Runner>)> {
    let mut by_cpu: BTreeMap<u32, (u64, Vec<Runner>)> = BTreeMap::new();
    let hosts = unused.iter().map(|(cpu, time)| (*cpu, None, time.host_ns));
    let containers = times.iter().flat_map(|(id, by_cpu)| {
        let on = by_cpu.iter();
        on.map(|on| (on.cpu, Some(*id), on.run_ns))
    });
    for (cpu, runner, run_ns) in hosts.chain(containers).filter(|(.., ns)| *ns > 0) {
        let (all_ns, on_cpu) = by_cpu.entry(cpu).or_default();
        *all_ns += run_ns;
        on_cpu.push((runner, run_ns));
    }
    for (_, on_cpu) in by_cpu.values_mut() {
        on_cpu.sort_by_key(|(id, ns)| (std::cmp::Reverse(*ns), *id));
        on_cpu.truncate(MOST_RUNNERS);
    }
    by_cpu
}

#[cfg(test)]
mod tests;
