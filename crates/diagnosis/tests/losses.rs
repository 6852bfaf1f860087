//! Each way to lose CPU, produced on purpose: the diagnosis names it, and its figures fit the
//! kernel's.

mod common;

use cofferdam_diagnosis::Diagnosis;
use cofferdam_lab::fixtures::{FakeContainer, ForkedProcess};
use cofferdam_types::{Entitlement, Neighbour};
use common::*;
use std::time::Duration;

const LENGTH: Duration = Duration::from_secs(3);
/// Longest tick of any kernel configuration, and the unit of `/proc/stat`.
const TICK: Duration = Duration::from_millis(10);

/// Time of all CPUs in interrupts and with the hypervisor: `irq`, `softirq` and `steal` of
/// `/proc/stat`.
fn unbilled_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/stat").expect("/proc/stat is readable");
    let ticks = stat.lines().next().expect("the sum of all CPUs");
    let ticks = ticks.split_whitespace().skip(6).take(3);
    ticks.filter_map(|n| n.parse::<u32>().ok()).sum::<u32>() * TICK
}

/// Two always-runnable threads share one CPU: each waits while the other runs. Neither may use
/// another CPU, so that an idle CPU is no phantom.
/// Promise 10.
#[test]
fn two_on_one_cpu_are_forced_to_share() {
    alone(60, || {
        let (a, b) = (FakeContainer::new("a"), FakeContainer::new("b"));
        let mut diagnosis = diagnosis();
        reserve(&mut diagnosis, &a, 1.0);
        // Their weight keeps host tasks from being their neighbour for most of the time.
        a.outweigh();
        b.outweigh();
        let _threads = (spin(&a, Some(1)), spin(&b, Some(1)));
        let interval = during(&mut diagnosis, &[&a, &b], LENGTH);
        let wall = interval.length.as_nanos() as u64;
        for container in [&a, &b] {
            let one = of(&interval, container);
            let missing = wall.saturating_sub(one.time.run_ns);
            assert!(one.time.run_ns > 0, "{one:?}");
            // An always-runnable thread runs or waits, however busy the host is.
            assert!(
                (one.time.shared_ns.abs_diff(missing) as f64) < WITHIN * missing as f64,
                "waited {} ns of {missing} ns in which it did not run: {one:?}",
                one.time.shared_ns
            );
            assert_eq!(one.time.phantom_ns, 0, "{one:?}");
        }
        let one = of(&interval, &a);
        assert_eq!(one.entitlement, Entitlement::Reserved);
        assert!(
            pct(one.loss.forced_sharing_ns, one.loss.lost_ns()) > 100.0 * (1.0 - WITHIN),
            "{one:?}"
        );
        assert_eq!(
            one.neighbour,
            Some(Neighbour::Container(b.name().to_owned()))
        );
        let words = one.words(interval.length);
        assert!(
            words.contains("to forced runqueue sharing with "),
            "{words}"
        );
        assert_sums(&interval);
    });
}

/// The neighbour fills all CPUs and uses up its quota. The idle time that this leaves depends on
/// what else the host runs, so this test checks only the kernel's throttling; `cofferdam_replay`
/// tests phantom CPU time.
/// Promise 10.
#[test]
fn capped_neighbours_are_throttled_and_the_target_is_not() {
    alone(120, || {
        let (target, neighbour) = (FakeContainer::new("target"), FakeContainer::new("capped"));
        quota(&neighbour, 60_000);
        // The neighbour reaches its quota, however busy the host is.
        neighbour.outweigh();
        let mut diagnosis = diagnosis();
        reserve(&mut diagnosis, &target, 1.0);
        for threads in [3, 8] {
            let _crowd: Vec<_> = (0..threads).map(|_| spin(&neighbour, None)).collect();
            let _thread = spin(&target, None);
            let interval = during(&mut diagnosis, &[&target, &neighbour], LENGTH);
            let (one, capped) = (of(&interval, &target), of(&interval, &neighbour));
            assert!(one.time.run_ns > 0, "{one:?}");
            assert_eq!(one.time.throttled_ns, 0, "{one:?}");
            assert_eq!(capped.entitlement, Entitlement::Quota);
            assert!(capped.time.throttled_ns > 0, "{capped:?}");
            assert_sums(&interval);
        }
    });
}

/// A reservation above the container's own quota.
/// Promise 10.
#[test]
fn a_containers_own_quota_is_not_its_neighbours_fault() {
    alone(60, || {
        let container = FakeContainer::new("small");
        quota(&container, 30_000);
        container.outweigh();
        let mut diagnosis = diagnosis();
        reserve(&mut diagnosis, &container, 1.0);
        let _thread = spin(&container, Some(1));
        let interval = during(&mut diagnosis, &[&container], LENGTH);
        let one = of(&interval, &container);
        // The quota leaves it 0.3 CPU, and its weight lets it use all of that.
        assert!(
            pct(one.loss.throttled_ns, one.loss.lost_ns()) > 50.0,
            "{one:?}"
        );
        assert_sums(&interval);
    });
}

/// A container that sleeps lacks threads. An idle one loses nothing to others.
/// Promise 10.
#[test]
fn a_sleeper_lacks_threads() {
    alone(60, || {
        let (sleeper, idle) = (FakeContainer::new("sleeper"), FakeContainer::new("idle"));
        let mut diagnosis = diagnosis();
        reserve(&mut diagnosis, &sleeper, 1.0);
        let ms = Duration::from_millis;
        sleeper.outweigh();
        let _thread = doze(&sleeper, Some(1), ms(2), ms(8));
        let interval = during(&mut diagnosis, &[&sleeper], LENGTH);
        let one = of(&interval, &sleeper);
        // The thread sleeps for four fifths of the time that nobody takes from it.
        assert!(pct(one.loss.lack_ns, one.loss.lost_ns()) > 50.0, "{one:?}");
        let nothing = of(&interval, &idle);
        assert_eq!(nothing.time.run_ns, 0, "{nothing:?}");
        assert_eq!(
            nothing.loss.taken_ns() + nothing.loss.throttled_ns,
            0,
            "{nothing:?}"
        );
        assert_sums(&interval);
    });
}

/// Container that has CPU 1 to itself, and a diagnosis that has counted it.
fn one_that_spins() -> (FakeContainer, Diagnosis, ForkedProcess) {
    let one = FakeContainer::new("one");
    one.outweigh();
    let mut diagnosis = diagnosis();
    let thread = spin(&one, Some(1));
    await_runners(&mut diagnosis, &[&one]);
    (one, diagnosis, thread)
}

/// A CPU without switches is counted from each window's start. Time between windows is not counted.
/// Promise 10.
#[test]
fn a_thread_without_switches_is_counted_in_every_window() {
    alone(60, || {
        let (one, mut diagnosis, _thread) = one_that_spins();
        let ms = Duration::from_millis;
        let (mut seen, mut least, mut most) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
        let (mut wall_ns, mut counted_ns) = (0, 0);
        let unbilled = unbilled_time();
        const WINDOWS: u32 = 10;
        for _ in 0..WINDOWS {
            diagnosis.switch(false).expect("it is detached");
            std::thread::sleep(ms(100));
            let first = one.cgroup().cpu_usage();
            diagnosis.switch(true).expect("it is attached");
            let before = read(&mut diagnosis);
            let second = one.cgroup().cpu_usage();
            std::thread::sleep(ms(50));
            let third = one.cgroup().cpu_usage();
            let interval = read(&mut diagnosis).since(&before);
            let fourth = one.cgroup().cpu_usage();
            note_hidden(&interval);
            seen += Duration::from_nanos(of(&interval, &one).time.run_ns);
            least += third - second;
            most += fourth - first;
            wall_ns += interval.length.as_nanos() as u64 * interval.cpus as u64;
            let ran = interval.containers.iter().map(|c| c.time.run_ns);
            counted_ns += ran.sum::<u64>() + interval.idle_ns + interval.host_ns;
        }
        assert!(
            (counted_ns.abs_diff(wall_ns) as f64) < WITHIN * wall_ns as f64,
            "{counted_ns} ns counted of {wall_ns} ns"
        );
        let slack = unbilled_time().saturating_sub(unbilled) + 2 * TICK * WINDOWS;
        assert!(
            seen + slack >= least && seen <= most + slack,
            "seen {seen:?}, billed {least:?} to {most:?}, slack {slack:?}"
        );
    });
}

/// The start of a window reads usage alone. The promise follows the settings at its end.
#[test]
fn a_window_reports_the_promise_of_its_end() {
    alone(60, || {
        let (one, mut diagnosis, _thread) = one_that_spins();
        for (us, cpus) in [(30_000, 0.3), (20_000, 0.2), (20_000, 0.2)] {
            diagnosis.switch(false).expect("it is detached");
            let before = diagnosis.begin(&containers()).expect("it counts");
            quota(&one, us);
            std::thread::sleep(Duration::from_millis(50));
            let interval = read(&mut diagnosis).since(&before);
            let promised = of(&interval, &one);
            assert_eq!(promised.entitlement, Entitlement::Quota, "{promised:?}");
            let entitled = promised.loss.entitled_ns as f64 / interval.length.as_nanos() as f64;
            assert!((entitled - cpus).abs() < 1e-3, "{promised:?}");
        }
    });
}

/// The programs' run time equals the time that the kernel billed. The programs' interval lies
/// between the kernel's inner and outer interval, however long the reader is delayed. The
/// scheduler's clock also advances in interrupts and under the hypervisor, which are not billed,
/// and ticks update the bill.
/// Promise 10.
#[test]
fn run_time_equals_the_kernels_bill() {
    alone(60, || {
        let (a, b) = (FakeContainer::new("a"), FakeContainer::new("b"));
        let mut diagnosis = diagnosis();
        let ms = Duration::from_millis;
        let _threads = [
            spin(&a, None),
            doze(&a, None, Duration::from_micros(200), ms(1)),
            spin(&b, None),
            doze(&b, None, ms(3), ms(3)),
        ];
        await_runners(&mut diagnosis, &[&a, &b]);
        let bills = || [a.cgroup().cpu_usage(), b.cgroup().cpu_usage()];
        let unbilled = unbilled_time();
        let first = bills();
        let before = read(&mut diagnosis);
        let second = bills();
        std::thread::sleep(LENGTH);
        let third = bills();
        let interval = read(&mut diagnosis).since(&before);
        note_hidden(&interval);
        let fourth = bills();
        let ticks = 2 * TICK * interval.cpus as u32;
        let slack = unbilled_time().saturating_sub(unbilled) + ticks;
        for (i, container) in [&a, &b].into_iter().enumerate() {
            let seen = Duration::from_nanos(of(&interval, container).time.run_ns);
            let (least, most) = (third[i] - second[i], fourth[i] - first[i]);
            assert!(
                seen + slack >= least && seen <= most + slack,
                "seen {seen:?}, billed {least:?} to {most:?}, slack {slack:?}: {:?}",
                interval.health
            );
        }
        assert_sums(&interval);
    });
}
