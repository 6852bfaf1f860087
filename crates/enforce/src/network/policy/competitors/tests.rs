//! Competitors and their claims in synthetic intervals.

use super::super::simulation::interval;
use super::*;
use cofferdam_types::{Container, Runtime};
use std::sync::Arc;

/// Times of one CPU with `ns` of softirqs, all of them for packets.
fn network_work(ns: u64) -> CpuTime {
    CpuTime {
        softirq_ns: ns,
        network_softirq_ns: ns,
        ..CpuTime::default()
    }
}

/// Returns the container as a cgroup of the host.
fn of_host(container: &Container) -> Arc<Container> {
    Arc::new(Container {
        runtime: Runtime::Host,
        ..container.clone()
    })
}

/// Share of CPU 0 among cgroups of equal weight.
fn share_of(competitors: &Competitors, container: &Container) -> f64 {
    let division = competitors.divide(0, |_| false, |_| 100.0);
    division.share(&container.cgroup_path, |_| 100.0)
}

/// 0.2 ms of 10 ms of network work ran in softirqs, half of that in the victim's time. The rest
/// ran in the offender's own NAPI thread.
/// Promise 30.
#[test]
fn work_in_napi_threads_hides_no_competitor() {
    let time = CpuTime {
        napi_thread_ns: 9_800_000,
        ..network_work(200_000)
    };
    let interval = interval(&[time], &[(10_000_000, 9_900_000), (0, 100_000)]);
    let mut competitors = Competitors::default();
    competitors.add_interval(Duration::ZERO, &interval, None);
    let offender = &interval.containers[0].container;
    assert_eq!(share_of(&competitors, offender), 0.5);
}

/// `ksoftirqd` had 15 ms of 20 ms, for the offender's packets. Hardly any of them interrupted the
/// victim, which had the rest.
/// Promise 30.
#[test]
fn ksoftirqds_work_hides_no_competitor() {
    let time = CpuTime {
        charged_nobody_ns: 10_900_000,
        ..network_work(15_000_000)
    };
    for (used_ns, share) in [(4_500_000, 0.5), (500_000, 1.0)] {
        let mut interval = interval(&[time], &[(15_000_000, 4_000_000), (0, 100_000)]);
        interval.containers[1].ledger.cpu_usage_ns = used_ns;
        let mut competitors = Competitors::default();
        competitors.add_interval(Duration::ZERO, &interval, None);
        let offender = &interval.containers[0].container;
        assert_eq!(share_of(&competitors, offender), share);
    }
}

#[test]
fn tasks_of_unknown_cgroups_compete_and_idle_time_does_not() {
    let time = |charged_host_ns, charged_nobody_ns| CpuTime {
        charged_host_ns,
        charged_nobody_ns,
        ..network_work(10_000_000)
    };
    for (time, share) in [(time(5_000_000, 5_000_000), 0.5), (time(0, 5_000_000), 1.0)] {
        let mut competitors = Competitors::default();
        let mut interval = interval(&[time], &[(10_000_000, 5_000_000)]);
        for step in 0..10_u32 {
            competitors.add_interval(interval.length * step, &interval, None);
        }
        let offender = interval.containers.remove(0).container;
        assert_eq!(share_of(&competitors, &offender), share, "{time:?}");
    }
}

/// Host job next to `ksoftirqd`: one softirq interrupts it, and then hardly any. It always used
/// half of the CPU, so it stays a competitor.
/// Promise 30.
#[test]
fn a_host_job_competes_even_without_interruptions() {
    let time = CpuTime {
        charged_nobody_ns: 3_000_000,
        ..network_work(6_000_000)
    };
    let share = |used_ns: u64| {
        let mut competitors = Competitors::default();
        let mut interval = interval(&[time], &[(6_000_000, 2_500_000), (0, 500_000)]);
        interval.containers[1].container = of_host(&interval.containers[1].container);
        interval.containers[1].ledger.cpu_usage_ns = used_ns;
        for step in 0..50_u32 {
            competitors.add_interval(interval.length * step, &interval, None);
            interval.containers[1].charged_by_cpu_ns = vec![0];
        }
        let offender = &interval.containers[0].container;
        share_of(&competitors, offender)
    };
    assert_eq!(share(5_000_000), 0.5);
    assert!(share(0) > 0.99, "{}: it has gone to sleep", share(0));
}

/// A container counts as a host cgroup until its first task has entered its namespace. From then on
/// the host average no longer counts.
/// Promise 30.
#[test]
fn a_starting_container_claims_as_a_container() {
    let mut competitors = Competitors::default();
    let mut interval = interval(
        &[network_work(10_000_000)],
        &[(10_000_000, 5_000_000), (0, 5_000_000)],
    );
    let entered = interval.containers[1].container.clone();
    for step in 0..100_u32 {
        interval.containers[1].container = match step {
            0..20 => of_host(&entered),
            _ => entered.clone(),
        };
        interval.containers[1].ledger.cpu_usage_ns = 10_000_000;
        competitors.add_interval(interval.length * step, &interval, None);
        let offender = &interval.containers[0].container;
        let share = share_of(&competitors, offender);
        assert!(step < 20 || share == 0.5, "{step}: {share}");
        assert!(
            step < 20 || competitors.has_other(0, offender.cgroup),
            "{step}"
        );
    }
}

/// The agent reads CPU use once in many intervals, then for all the time since.
/// Promise 30.
#[test]
fn a_reading_covers_the_time_since_the_last_one() {
    let mut used = RecentUse::default();
    let mut interval = interval(&[CpuTime::default()], &[(0, 0), (0, 0)]);
    let ids = [0, 1].map(|n: usize| interval.containers[n].container.cgroup);
    for step in 1..=100_u32 {
        let is_read = step % 5 == 0;
        interval.containers[0].ledger.cpu_usage_ns = if is_read { 40_000_000 } else { 0 };
        used.add_interval(interval.length * step, &interval);
        let cpus = ids.map(|id| used.cpus(id));
        assert!(step < 10 || cpus == [0.4, 0.0], "{step}: {cpus:?}");
    }
}

/// The victim ends; the offender continues and fills the CPU.
/// Promise 30.
#[test]
fn a_sleeping_competitor_loses_its_share() {
    let time = network_work(10_000_000);
    // A reading in every step, or in every fifth.
    for every in [1_u32, 5] {
        let mut competitors = Competitors::default();
        let mut after = |step: u32, victim_ns: u64| {
            let charged = if victim_ns > 0 { 5_000_000 } else { 0 };
            let mut interval = interval(&[time], &[(10_000_000, 5_000_000), (0, charged)]);
            if step.is_multiple_of(every) {
                interval.containers[0].ledger.cpu_usage_ns = 5_000_000 * u64::from(every);
                interval.containers[1].ledger.cpu_usage_ns = victim_ns * u64::from(every);
            }
            competitors.add_interval(interval.length * step, &interval, None);
            let offender = &interval.containers[0].container;
            let share = share_of(&competitors, offender);
            (share, competitors.has_other(0, offender.cgroup))
        };
        for step in 0..=20 {
            assert_eq!(after(step, 10_000_000), (0.5, true), "{every}: {step}");
        }
        let shares: Vec<(f64, bool)> = (21..60).map(|step| after(step, 0)).collect();
        assert!(
            shares.is_sorted_by(|a, b| a.0 <= b.0),
            "{every}: {shares:?}"
        );
        let (share, _) = shares[1];
        assert_eq!(share, 0.5, "{every}: it may be back at once");
        let (share, is_there) = shares[25];
        assert!(share > 0.98 && !is_there, "{every}: {share}");
        assert_eq!(after(60, 10_000_000), (0.5, true), "{every}: it is back");
    }
}

/// A host job starts next to a stream: its claim does not wait for the average to rise.
/// Promise 30.
#[test]
fn a_host_job_claims_its_share_from_its_second_step() {
    let mut competitors = Competitors::default();
    let mut interval = interval(
        &[network_work(10_000_000)],
        &[(10_000_000, 5_000_000), (0, 5_000_000)],
    );
    interval.containers[1].container = of_host(&interval.containers[1].container);
    let shares = (0..4_u32).map(|step| {
        competitors.add_interval(interval.length * step, &interval, None);
        share_of(&competitors, &interval.containers[0].container)
    });
    let shares: Vec<f64> = shares.collect();
    assert!(shares[0] > 0.9, "one step may be a wake-up: {shares:?}");
    assert_eq!(shares[1..], [0.5; 3]);
}

/// Service that takes a tenth of the CPU next to two jobs, one of them enforced.
/// Promise 30.
#[test]
fn a_host_task_claims_by_its_use() {
    for (service, least, most) in [(0.1, 0.39, 0.41), (0.3, 0.33, 0.34)] {
        let ns = |part: f64| (part * 10e6) as u64;
        let time = CpuTime {
            charged_host_ns: ns(service),
            ..network_work(10_000_000)
        };
        let half = ns((1.0 - service) / 2.0);
        let mut competitors = Competitors::default();
        let interval = interval(&[time], &[(10_000_000, half), (0, half)]);
        for step in 0..100_u32 {
            competitors.add_interval(interval.length * step, &interval, None);
        }
        let offender = &interval.containers[0].container;
        let share = share_of(&competitors, offender);
        assert!((least..most).contains(&share), "{service}: {share}");
    }
}

/// Four containers that each use a little less than a fifth of the CPU could claim more than the
/// CPU together. Next to them a host task with little use still claims only twice its use.
/// Promise 30.
#[test]
fn a_small_claim_stays_small_among_many() {
    let time = CpuTime {
        charged_host_ns: 800_000,
        ..network_work(10_000_000)
    };
    let mut competitors = Competitors::default();
    let mut interval = interval(&[time], &[(2_500_000, 2_300_000); 4]);
    for row in &mut interval.containers {
        row.ledger.cpu_usage_ns = 3_800_000;
    }
    for step in 0..100_u32 {
        competitors.add_interval(interval.length * step, &interval, None);
    }
    let offender = &interval.containers[0].container;
    let share = share_of(&competitors, offender);
    assert!((0.205..0.215).contains(&share), "{share}");
}

/// One of two offenders pauses, as a stream that lost a window: its share is not given to others.
/// Promise 30.
#[test]
fn a_throttled_container_claims_its_whole_share() {
    let time = network_work(10_000_000);
    let mut interval = interval(&[time], &[(10_000_000, 9_000_000), (0, 1_000_000)]);
    interval.containers[0].ledger.cpu_usage_ns = 18_000_000;
    interval.containers[1].ledger.cpu_usage_ns = 2_000_000;
    let mut competitors = Competitors::default();
    (0..3).for_each(|step| competitors.add_interval(interval.length * step, &interval, None));
    let [offender, paused] = [0, 1].map(|i: usize| &interval.containers[i].container);
    let share = |is_throttled: bool| {
        let is_throttled = |id| is_throttled && id == paused.cgroup;
        let division = competitors.divide(0, is_throttled, |_| 100.0);
        division.share(&offender.cgroup_path, |_| 100.0)
    };
    assert!((share(false) - 0.8).abs() < 1e-9, "{}", share(false));
    assert_eq!(share(true), 0.5);
}

/// CPU use is read in every fifth step. The victim appears between two readings and wants half of
/// the CPU, or a tenth.
/// Promise 30.
#[test]
fn a_new_container_claims_its_whole_share_until_read() {
    let time = network_work(10_000_000);
    let offers = |comes_at: u32, uses: f64, heeds: bool| {
        let mut competitors = Competitors::default();
        let (mut since, mut soon) = (0.0, false);
        let step = |step: u32| {
            let is_there = step >= comes_at;
            let part = if is_there { uses } else { 0.0 };
            since += part;
            let charged = (part * 10e6) as u64;
            let mut interval =
                interval(&[time], &[(10_000_000, 10_000_000 - charged), (0, charged)]);
            if step.is_multiple_of(5) || soon {
                interval.containers[0].ledger.cpu_usage_ns = 5_000_000;
                interval.containers[1].ledger.cpu_usage_ns = (since * 20e6) as u64;
                since = 0.0;
            }
            competitors.add_interval(interval.length * step, &interval, None);
            soon = heeds && competitors.needs_usage();
            let share = share_of(&competitors, &interval.containers[0].container);
            (share, soon)
        };
        (0..55).map(step).collect::<Vec<(f64, bool)>>()
    };
    for comes_at in 30..35 {
        let claims = offers(comes_at, 0.5, true);
        let at = comes_at as usize;
        assert!(claims[at - 1].0 > 0.98, "{comes_at}: {claims:?}");
        assert!(
            claims[at..].iter().all(|(share, _)| *share == 0.5),
            "{comes_at}: {claims:?}"
        );
        // At most two extra readings, and none before it appears.
        let soon: Vec<usize> = (10..55).filter(|i| claims[*i].1).collect();
        assert!(soon == [at] || soon == [at, at + 1], "{comes_at}: {soon:?}");
        // With little use it has its whole share for only these two steps; without extra readings
        // for five to ten.
        let claims = offers(comes_at, 0.1, true);
        assert!(
            claims[at + 2..].iter().all(|(share, _)| *share > 0.79),
            "{claims:?}"
        );
        let claims = offers(comes_at, 0.1, false);
        assert!(
            claims[at..at + 5].iter().all(|(share, _)| *share == 0.5),
            "{claims:?}"
        );
        assert!(
            claims[at + 10..].iter().all(|(share, _)| *share > 0.79),
            "{claims:?}"
        );
    }
}

/// A container appears in every step: CPU use is still not read in every step.
/// Promise 30.
#[test]
fn many_new_containers_cause_few_extra_readings() {
    let time = network_work(10_000_000);
    let mut competitors = Competitors::default();
    let wanted = (0..200_usize).filter(|step| {
        let mut work = vec![(0, 0); 201];
        (work[0], work[step + 1]) = ((10_000_000, 5_000_000), (0, 5_000_000));
        let interval = interval(&[time], &work);
        competitors.add_interval(interval.length * *step as u32, &interval, None);
        competitors.needs_usage()
    });
    // In 4 s: three steps of every 25.
    assert_eq!(wanted.count(), 24);
}

/// Service that wakes for a moment a few times a second, as our own agent does.
/// Promise 30.
#[test]
fn a_momentary_host_task_takes_no_share() {
    let time = |charged_host_ns| CpuTime {
        charged_host_ns,
        ..network_work(10_000_000)
    };
    let mut competitors = Competitors::default();
    for step in 0..100_u32 {
        let charged_ns = if step % 10 == 0 { 2_000_000 } else { 0 };
        let interval = interval(&[time(charged_ns)], &[(10_000_000, 9_000_000)]);
        competitors.add_interval(interval.length * step, &interval, None);
        let offender = &interval.containers[0].container;
        assert_eq!(share_of(&competitors, offender), 1.0, "step {step}");
    }
}

/// The cost of an interrupt is measured in place: our own thread has most of the CPU for an
/// interval.
/// Promise 30.
#[test]
fn our_own_measurement_claims_nothing() {
    let time = CpuTime {
        charged_host_ns: 8_000_000,
        ..network_work(10_000_000)
    };
    let share = |measured_cpu| {
        let mut competitors = Competitors::default();
        let interval = interval(&[time], &[(10_000_000, 1_000_000), (0, 1_000_000)]);
        let quiet = super::super::simulation::interval(
            &[CpuTime {
                charged_host_ns: 0,
                ..time
            }],
            &[(10_000_000, 5_000_000), (0, 5_000_000)],
        );
        (0..10).for_each(|step| competitors.add_interval(quiet.length * step, &quiet, None));
        competitors.add_interval(quiet.length * 11, &interval, measured_cpu);
        share_of(&competitors, &interval.containers[0].container)
    };
    assert!(share(None) < 0.47, "{}", share(None));
    assert_eq!(share(Some(0)), 0.5);
}
