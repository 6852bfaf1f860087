//! What a container's packets took from others and the ledger cannot see: interrupts, and time billed to `ksoftirqd`.

use super::facts::Facts;
use cofferdam_types::{ContainerLedger, Interval};

/// What the packets of `row` took from others on the CPUs `pressed` and nobody is charged for, nanoseconds: of what each CPU's
/// receive softirqs took from others' tasks, its part of the softirq work there (what they took from its own tasks is billed
/// to it anyway, and those in `ksoftirqd` follow no interrupt); and of what was billed to `ksoftirqd` of the time of tasks,
/// its tasks' part of the softirqs that met tasks. `napi_ns` is what its NAPI threads ran: caused, and no softirq.
pub(super) fn unseen_ns(
    facts: &Facts<'_>,
    row: &ContainerLedger,
    pressed: &[u32],
    napi_ns: u64,
) -> f64 {
    let interval = facts.interval;
    let part_of_threads = part_of_threads(interval, napi_ns);
    let columns = row.caused_by_cpu_ns.iter().zip(&row.interruptions_by_cpu);
    let cpus = interval.cpus.iter().zip(columns);
    cpus.filter(|((cpu, _), _)| pressed.contains(&cpu.0))
        .map(|((cpu, time), (caused, own))| {
            let all = time.network_softirq_ns as f64;
            let in_tasks = time.interruptions as f64;
            if all <= 0.0 || in_tasks <= 0.0 {
                return 0.0;
            }
            let in_thread = time.napi_thread_ns as f64 * part_of_threads;
            let part = ((*caused as f64 - in_thread).max(0.0) / all).min(1.0);
            let own = (*own as f64).min(in_tasks);
            let late = facts.late_ns.get(&cpu.0).copied().unwrap_or(0.0);
            facts.interruption_ns * part * (in_tasks - own) + late * own / in_tasks
        })
        .sum()
}

/// The part (0..=1) of all time in NAPI threads that `napi_ns` are.
fn part_of_threads(interval: &Interval, napi_ns: u64) -> f64 {
    let threads: u64 = interval.cpus.iter().map(|(_, t)| t.napi_thread_ns).sum();
    (napi_ns as f64 / threads.max(1) as f64).min(1.0)
}

/// Of the `napi_ns` that a container's NAPI threads ran, what ran on the CPUs `pressed`, nanoseconds: in
/// proportion to what all such threads ran there.
pub(super) fn napi_on(interval: &Interval, pressed: &[u32], napi_ns: u64) -> f64 {
    let cpus = interval.cpus.iter();
    let there = cpus.filter(|(cpu, _)| pressed.contains(&cpu.0));
    let threads: u64 = there.map(|(_, time)| time.napi_thread_ns).sum();
    threads as f64 * part_of_threads(interval, napi_ns)
}

#[cfg(test)]
mod tests {
    use super::super::simulation::interval;
    use super::*;
    use cofferdam_types::CpuTime;
    use std::collections::BTreeMap;
    use std::time::Duration;

    /// A CPU whose softirq work is the container's, beside what its NAPI thread ran there. Of the ten softirqs that met tasks
    /// four met its own.
    #[test]
    fn the_time_of_a_napi_thread_is_no_softirq() {
        let time = CpuTime {
            network_softirq_ns: 400,
            napi_thread_ns: 100,
            interruptions: 10,
            ..CpuTime::default()
        };
        let mut interval = interval(&[time], &[(500, 200)]);
        interval.containers[0].interruptions_by_cpu = vec![4];
        let row = &interval.containers[0];
        let mut facts = Facts {
            now: Duration::ZERO,
            interval: &interval,
            interruption_ns: 1_000.0,
            late_ns: BTreeMap::new(),
            weights: Default::default(),
            quota_stops_threads: true,
            containers: Vec::new(),
        };
        let unseen = |facts: &Facts<'_>, pressed| unseen_ns(facts, row, &[pressed], 100);
        assert_eq!(unseen(&facts, 0), 6_000.0);
        assert_eq!(unseen(&facts, 1), 0.0);
        facts.late_ns = BTreeMap::from([(0, 2_000_000.0)]);
        assert_eq!(unseen(&facts, 0), 806_000.0, "so much of what followed was its");
    }

    #[test]
    fn what_a_napi_thread_ran_counts_where_it_ran() {
        let time = |napi_thread_ns| CpuTime {
            napi_thread_ns,
            ..CpuTime::default()
        };
        let interval = interval(&[time(100), time(300)], &[(0, 0)]);
        assert_eq!(napi_on(&interval, &[0], 200), 50.0, "half are another's");
        assert_eq!(napi_on(&interval, &[0, 1], 400), 400.0);
        assert_eq!(napi_on(&interval, &[], 400), 0.0);
    }
}
