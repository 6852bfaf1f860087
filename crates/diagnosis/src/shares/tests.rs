use super::*;
use cofferdam_types::{Container, CpuLoss, Entitlement, ScheduleTime};
use proptest::prelude::*;
use std::sync::Arc;

const LENGTH: Duration = Duration::from_secs(1);
const MS: u64 = 1_000_000;

/// Run and wait time of one container on each CPU, milliseconds.
type Times<'a> = &'a [(u64, u64)];

fn counted(id: u64, times: Times<'_>) -> ContainerCounts {
    let on = |(cpu, (run_ms, waited_ms)): (u32, &(u64, u64))| OnCpu {
        cpu,
        run_ns: run_ms * MS,
        waited_ns: waited_ms * MS,
    };
    ContainerCounts {
        container: Arc::new(Container::plain(CgroupId(id), format!("/{id}"), "c")),
        path: "/".into(),
        time: ScheduleTime::default(),
        neighbour: None,
        by_cpu: (0..)
            .zip(times)
            .map(on)
            .filter(|on| on.run_ns + on.waited_ns > 0)
            .collect(),
        reserved: None,
    }
}

fn reading(containers: Vec<ContainerCounts>, unused_ms: Times<'_>) -> DiagnosisReading {
    let unused = |(idle_ms, host_ms): &(u64, u64)| UnusedCpuTime {
        idle_ns: idle_ms * MS,
        host_ns: host_ms * MS,
    };
    DiagnosisReading {
        monotonic: LENGTH,
        cpus: 2,
        online_cpus: 2,
        idle_ns: 0,
        left_idle_ns: 0,
        host_ns: 0,
        by_cpu: unused_ms.iter().map(unused).collect(),
        containers,
        levels: Default::default(),
        health: Default::default(),
    }
}

/// Containers that lost `taken_ms`, by id.
fn losers(taken_ms: &[(u64, u64)]) -> Vec<DiagnosedContainer> {
    let loser = |(id, taken_ms): &(u64, u64)| DiagnosedContainer {
        container: Arc::new(Container::plain(CgroupId(*id), format!("/{id}"), "c")),
        loss: CpuLoss {
            forced_sharing_ns: taken_ms * MS,
            ..CpuLoss::default()
        },
        entitlement: Entitlement::Weight,
        time: ScheduleTime::default(),
        neighbour: None,
    };
    taken_ms.iter().map(loser).collect()
}

fn share(victim: u64, neighbour: Option<u64>, cpu: u32, ms: u64) -> LossShare {
    LossShare {
        victim: CgroupId(victim),
        neighbour: neighbour.map(CgroupId),
        cpu: CpuId(cpu),
        ns: ms * MS,
    }
}

/// Promise 12.
#[test]
fn a_wait_is_divided_among_that_cpus_runners() {
    let begin = reading(vec![counted(1, &[(5, 7)])], &[(1, 1)]);
    let end = reading(
        vec![
            counted(1, &[(105, 407)]),
            counted(2, &[(300, 0)]),
            counted(3, &[(100, 0), (900, 0)]),
        ],
        &[(1, 101)],
    );
    let (mut shares, unused) = divide(&losers(&[(1, 200)]), &begin, &end, LENGTH);
    shares.sort_by_key(|s| s.neighbour);
    // The victim waited 400 ms and lost 200 ms on CPU 0. Tasks that ran only on CPU 1 are not to
    // blame.
    let expected = [
        share(1, None, 0, 40),
        share(1, Some(2), 0, 120),
        share(1, Some(3), 0, 40),
    ];
    assert_eq!(shares, expected);
    let on_cpu_0 = UnusedTime {
        cpu: CpuId(0),
        idle_ns: 0,
        host_ns: 100 * MS,
    };
    assert_eq!(unused, [on_cpu_0]);
}

/// Promise 12.
#[test]
fn nobody_is_blamed_where_nobody_lost_much() {
    let begin = reading(vec![counted(1, &[])], &[]);
    let end = reading(
        vec![counted(1, &[(100, 400)]), counted(2, &[(300, 0)])],
        &[],
    );
    let (shares, unused) = divide(&losers(&[(1, 5)]), &begin, &end, LENGTH);
    assert!(shares.is_empty() && unused.is_empty(), "{shares:?}");
}

proptest! {
    /// Promise 12.
    #[test]
    fn shares_add_up_to_no_more_than_the_loss(
        times in prop::collection::vec(prop::collection::vec((0..900u64, 0..900u64), 0..3), 1..40),
        hosts in prop::collection::vec((0..900u64, 0..900u64), 0..3),
        taken_ms in 11..900u64,
    ) {
        let begin = reading(Vec::new(), &[]);
        let rows = (1..).zip(&times).map(|(id, times)| counted(id, times));
        let end = reading(rows.collect(), &hosts);
        let (shares, _) = divide(&losers(&[(1, taken_ms)]), &begin, &end, LENGTH);
        let sum: u64 = shares.iter().map(|s| s.ns).sum();
        prop_assert!(sum <= taken_ms * MS, "{sum} of {taken_ms} ms");
        prop_assert!(shares.iter().all(|s| s.neighbour != Some(CgroupId(1))));
        prop_assert!(shares.len() <= 3 * MOST_RUNNERS);
    }
}
