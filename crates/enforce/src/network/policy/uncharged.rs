//! Time that a container's packets took from others and that the ledger does not charge:
//! interrupts, and time billed to `ksoftirqd`.

use super::facts::Facts;
use cofferdam_types::{ContainerLedger, Interval};

/// Uncharged time that the packets of `row` took from others on the CPUs `contended`, nanoseconds.
/// The first part is the cost of interruptions of others' tasks on each CPU, times the container's
/// part of the softirq work there. Interruptions of its own tasks are billed to it anyway, and
/// softirqs in `ksoftirqd` interrupt no task. The second part is the tasks' time that was billed to
/// `ksoftirqd`, times its tasks' part of the interruptions. `napi_ns` is the time of its NAPI
/// threads: caused, but no softirq.
pub(super) fn uncharged_ns(
    facts: &Facts<'_>,
    row: &ContainerLedger,
    contended: &[u32],
    napi_ns: u64,
) -> f64 {
    let interval = facts.interval;
    let cpus = each_cpu(interval, row, napi_ns).filter(|on_cpu| contended.contains(&on_cpu.cpu));
    cpus.map(|on_cpu| {
        let late = facts.late_ns.get(&on_cpu.cpu).copied().unwrap_or(0.0);
        let others = on_cpu.in_tasks - on_cpu.own;
        facts.interruptions.on(on_cpu.cpu) * on_cpu.caused_part * others
            + late * on_cpu.own / on_cpu.in_tasks
    })
    .sum()
}

/// Uncharged time that the packets of others took from the tasks of `row` on all CPUs, nanoseconds.
pub(super) fn interrupted_ns(facts: &Facts<'_>, row: &ContainerLedger, napi_ns: u64) -> f64 {
    let of_others = |on_cpu: CpuInterruptions| {
        on_cpu.own * (1.0 - on_cpu.caused_part) * facts.interruptions.on(on_cpu.cpu)
    };
    each_cpu(facts.interval, row, napi_ns).map(of_others).sum()
}

/// Interruptions of tasks on one CPU by network softirqs.
struct CpuInterruptions {
    cpu: u32,
    /// Part (0..=1) of the softirq work there that the container caused.
    caused_part: f64,
    /// Interruptions of any task; greater than zero.
    in_tasks: f64,
    /// Interruptions of the container's own tasks.
    own: f64,
}

/// Interruptions on each CPU that had any.
fn each_cpu(
    interval: &Interval,
    row: &ContainerLedger,
    napi_ns: u64,
) -> impl Iterator<Item = CpuInterruptions> {
    let part_of_threads = part_of_threads(interval, napi_ns);
    let columns = row.caused_by_cpu_ns.iter().zip(&row.interruptions_by_cpu);
    let cpus = interval.cpus.iter().zip(columns);
    cpus.filter_map(move |((cpu, time), (caused, own))| {
        let all = time.network_softirq_ns as f64;
        let in_tasks = time.interruptions as f64;
        if all <= 0.0 || in_tasks <= 0.0 {
            return None;
        }
        let in_thread = time.napi_thread_ns as f64 * part_of_threads;
        Some(CpuInterruptions {
            cpu: cpu.0,
            caused_part: ((*caused as f64 - in_thread).max(0.0) / all).min(1.0),
            in_tasks,
            own: (*own as f64).min(in_tasks),
        })
    })
}

/// Part (0..=1) of all NAPI threads' time that `napi_ns` is.
fn part_of_threads(interval: &Interval, napi_ns: u64) -> f64 {
    let threads: u64 = interval.cpus.iter().map(|(_, t)| t.napi_thread_ns).sum();
    (napi_ns as f64 / threads.max(1) as f64).min(1.0)
}

/// Part of `napi_ns` that ran on the CPUs `contended`, nanoseconds, in proportion to the time of
/// all NAPI threads there.
pub(super) fn napi_on(interval: &Interval, contended: &[u32], napi_ns: u64) -> f64 {
    let cpus = interval.cpus.iter();
    let there = cpus.filter(|(cpu, _)| contended.contains(&cpu.0));
    let threads: u64 = there.map(|(_, time)| time.napi_thread_ns).sum();
    threads as f64 * part_of_threads(interval, napi_ns)
}

#[cfg(test)]
mod tests {
    use super::super::facts::InterruptionCosts;
    use super::super::simulation::interval;
    use super::*;
    use cofferdam_types::CpuTime;
    use std::collections::BTreeMap;
    use std::time::Duration;

    /// CPU whose softirq work is the container's, except for the time of its NAPI thread. Of ten
    /// interruptions four hit its own tasks.
    /// Promise 30.
    /// Promise 35.
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
            interruptions: InterruptionCosts {
                by_cpu_ns: BTreeMap::from([(0, 1_000.0)]),
                elsewhere_ns: 9_000.0,
            },
            late_ns: BTreeMap::new(),
            weights: Default::default(),
            quota_stops_threads: true,
            containers: Vec::new(),
        };
        let uncharged = |facts: &Facts<'_>, contended| uncharged_ns(facts, row, &[contended], 100);
        assert_eq!(uncharged(&facts, 0), 6_000.0);
        assert_eq!(
            interrupted_ns(&facts, row, 100),
            0.0,
            "all of it is its own"
        );
        assert_eq!(uncharged(&facts, 1), 0.0);
        facts.late_ns = BTreeMap::from([(0, 2_000_000.0)]);
        assert_eq!(
            uncharged(&facts, 0),
            806_000.0,
            "so much of what followed was its"
        );
        let mut victim = row.clone();
        victim.caused_by_cpu_ns = vec![0];
        victim.interruptions_by_cpu = vec![6];
        assert_eq!(interrupted_ns(&facts, &victim, 0), 6_000.0);
        victim.caused_by_cpu_ns = vec![100];
        assert_eq!(
            interrupted_ns(&facts, &victim, 0),
            4_500.0,
            "a quarter is its own"
        );
    }

    /// Promise 34.
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
