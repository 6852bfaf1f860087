//! What a container's packets took from others and the ledger cannot see: interrupts, and time billed to `ksoftirqd`.

use super::facts::Facts;
use cofferdam_types::{ContainerLedger, Interval};
use std::collections::BTreeMap;

/// What the packets of `row` took from others on the CPUs `pressed` and nobody is charged for, nanoseconds: of each CPU's
/// interrupts that met others, its part of the softirq work there (what met its own tasks is billed to it anyway, and
/// softirqs in `ksoftirqd` follow no interrupt); and of what was billed to `ksoftirqd` of the time of tasks, its part of
/// the softirqs that met tasks. `napi_ns` is what its NAPI threads ran: that is both caused and charged, and is no softirq.
pub(super) fn unseen_ns(
    facts: &Facts<'_>,
    row: &ContainerLedger,
    pressed: &[u32],
    napi_ns: u64,
) -> f64 {
    let interval = facts.interval;
    let part_of_threads = part_of_threads(interval, napi_ns);
    let columns = row.caused_by_cpu_ns.iter().zip(&row.charged_by_cpu_ns);
    let cpus = interval.cpus.iter().zip(columns);
    cpus.filter(|((cpu, _), _)| pressed.contains(&cpu.0))
        .map(|((cpu, time), (caused, own))| {
            let all = time.network_softirq_ns as f64;
            if all <= 0.0 {
                return 0.0;
            }
            let in_thread = time.napi_thread_ns as f64 * part_of_threads;
            let part = |ns: u64| ((ns as f64 - in_thread).max(0.0) / all).min(1.0);
            let of = |each: &BTreeMap<u32, f64>| each.get(&cpu.0).copied().unwrap_or(0.0);
            let in_tasks = (all - time.charged_nobody_ns as f64).max(0.0);
            let own = (*own as f64 - in_thread).clamp(0.0, in_tasks);
            let interrupted = of(&facts.interrupted_ns) * part(*caused) * (in_tasks - own) / all;
            interrupted + of(&facts.late_ns) * own / in_tasks.max(1.0)
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
    use std::time::Duration;

    /// A CPU whose softirq work is the container's: what of it ran in its own time counts apart from
    /// what its NAPI thread ran there.
    #[test]
    fn the_time_of_a_napi_thread_is_no_softirq() {
        let time = CpuTime {
            network_softirq_ns: 400,
            napi_thread_ns: 100,
            charged_nobody_ns: 200,
            ..CpuTime::default()
        };
        let interval = interval(&[time], &[(500, 200)]);
        let row = &interval.containers[0];
        let mut facts = Facts {
            now: Duration::ZERO,
            interval: &interval,
            interrupted_ns: BTreeMap::from([(0, 1_000_000.0)]),
            late_ns: BTreeMap::new(),
            weights: Default::default(),
            quota_stops_threads: true,
            containers: Vec::new(),
        };
        let unseen = |facts: &Facts<'_>, pressed| unseen_ns(facts, row, &[pressed], 100);
        // Of 400 in softirq `ksoftirqd` ran 200, and 100 met its own tasks: a quarter of 1 ms is others'.
        let first = unseen(&facts, 0);
        assert!((first - 250_000.0).abs() < 1.0, "{first}");
        assert_eq!(unseen(&facts, 1), 0.0);
        facts.late_ns = BTreeMap::from([(0, 2_000_000.0)]);
        let both = unseen(&facts, 0);
        // Of 200 that met tasks 100 met its own: so much of what followed was its.
        assert!((both - 1_250_000.0).abs() < 1.0, "{both}");
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
