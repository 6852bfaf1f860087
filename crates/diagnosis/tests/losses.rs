//! Each way to lose CPU, made on purpose: the diagnosis names it, and its figures fit the
//! kernel's own.

mod common;

use cofferdam_testkit::FakeContainer;
use cofferdam_types::{Entitlement, Neighbour, ScheduleInterval};
use common::*;
use std::time::Duration;

const LENGTH: Duration = Duration::from_secs(3);

/// Two always-runnable threads on one CPU: what one does not run it waits, and behind the other.
/// They may use no other CPU, so that the idle one beside them is no phantom.
#[test]
fn two_on_one_cpu_are_forced_to_share() {
    alone(60, || {
        let (a, b) = (FakeContainer::new("a"), FakeContainer::new("b"));
        let mut diagnosis = diagnosis();
        reserve(&mut diagnosis, &a, 1.0);
        let _threads = (spin(&a, Some(1)), spin(&b, Some(1)));
        let interval = during(&mut diagnosis, LENGTH);
        let wall = interval.length.as_nanos() as u64;
        for container in [&a, &b] {
            let one = of(&interval, container);
            let missing = wall.saturating_sub(one.time.run_ns);
            assert!(one.time.run_ns > wall / 10, "{one:?}");
            assert!(
                one.time.shared_ns.abs_diff(missing) * 20 < missing,
                "waited {} ns of {missing} ns in which it did not run: {one:?}",
                one.time.shared_ns
            );
            assert_eq!(one.time.phantom_ns, 0, "{one:?}");
        }
        let one = of(&interval, &a);
        assert_eq!(one.entitlement, Entitlement::Reserved);
        assert!(
            pct(one.loss.forced_sharing_ns, one.loss.lost_ns()) > 95.0,
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

/// The phantom CPU time of *Mind the Gap* (SoCC '21): the neighbour fills all CPUs, uses up its quota
/// and leaves them idle, while the target has only one thread.
#[test]
fn capped_neighbours_leave_phantom_cpu_time() {
    alone(240, || {
        let (target, neighbour) = (FakeContainer::new("target"), FakeContainer::new("capped"));
        quota(&neighbour, 60_000);
        let mut diagnosis = diagnosis();
        reserve(&mut diagnosis, &target, 1.0);
        for threads in [3, 8] {
            let _crowd: Vec<_> = (0..threads).map(|_| spin(&neighbour, None)).collect();
            let _thread = spin(&target, None);
            let round = || during(&mut diagnosis, Duration::from_secs(1));
            let left = |interval: &ScheduleInterval| interval.left_idle_ns > 10_000_000;
            let interval = until("CPU left idle by the capped", round, left);
            let one = of(&interval, &target);
            assert!(one.loss.lost_ns() > 0, "{one:?}");
            assert!(one.loss.phantom_ns > 0, "{one:?}");
            assert_eq!(one.time.throttled_ns, 0, "{one:?}");
            let beside = of(&interval, &neighbour);
            assert_eq!(beside.entitlement, Entitlement::Quota);
            assert!(beside.time.throttled_ns > 0, "{beside:?}");
        }
    });
}

/// A reservation above the container's own quota.
#[test]
fn its_own_quota_is_not_its_neighbours_fault() {
    alone(60, || {
        let container = FakeContainer::new("small");
        quota(&container, 30_000);
        outweigh(&container);
        let mut diagnosis = diagnosis();
        reserve(&mut diagnosis, &container, 1.0);
        let _thread = spin(&container, Some(1));
        let interval = during(&mut diagnosis, LENGTH);
        let one = of(&interval, &container);
        assert!(
            pct(one.loss.throttled_ns, one.loss.lost_ns()) > 80.0,
            "{one:?}"
        );
        assert_sums(&interval);
    });
}

/// A container that sleeps lacks threads; one that does nothing has nothing taken from it.
#[test]
fn a_sleeper_lacks_threads() {
    alone(60, || {
        let (sleeper, idle) = (FakeContainer::new("sleeper"), FakeContainer::new("idle"));
        let mut diagnosis = diagnosis();
        reserve(&mut diagnosis, &sleeper, 1.0);
        let ms = Duration::from_millis;
        outweigh(&sleeper);
        let _thread = doze(&sleeper, Some(1), ms(2), ms(8));
        let interval = during(&mut diagnosis, LENGTH);
        let one = of(&interval, &sleeper);
        assert!(one.time.run_ns > 0, "{one:?}");
        assert!(pct(one.loss.lack_ns, one.loss.lost_ns()) > 80.0, "{one:?}");
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

/// The time that the programs saw a container run is the time that the kernel billed it.
#[test]
fn what_it_got_is_what_the_kernel_billed() {
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
        read(&mut diagnosis);
        std::thread::sleep(ms(300));
        // The two are read one after the other: when the host takes the CPU away between them they
        // differ by that pause. Such a round is measured again; a wrong count is wrong in each.
        let mut round = || {
            let before = read(&mut diagnosis);
            let billed = [a.cgroup().cpu_usage(), b.cgroup().cpu_usage()];
            std::thread::sleep(LENGTH);
            let interval = read(&mut diagnosis).since(&before);
            let after = [a.cgroup().cpu_usage(), b.cgroup().cpu_usage()];
            let pairs = [0, 1].map(|i| {
                let seen = of(&interval, [&a, &b][i]).time.run_ns;
                (seen, (after[i] - billed[i]).as_nanos() as u64)
            });
            (interval, pairs)
        };
        let agree = |pairs: &[(u64, u64); 2]| {
            pairs
                .iter()
                .all(|(seen, kernel)| seen.abs_diff(*kernel) * 50 < *kernel)
        };
        let (mut interval, mut pairs) = round();
        for _ in 0..3 {
            if agree(&pairs) {
                break;
            }
            (interval, pairs) = round();
        }
        assert!(
            agree(&pairs),
            "ns seen, ns billed: {pairs:?}: {:?}",
            interval.health
        );
        assert_sums(&interval);
    });
}
