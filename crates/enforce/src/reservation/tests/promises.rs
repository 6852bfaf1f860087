//! CPUs promised to containers that are still to come.

use super::*;
use std::path::Path;

const RUNTIME_ID: &str = "0123456789abcdef";

fn arrived_container(fake: &Fake, id: u64, cpuset: &str) -> ReservationContainer {
    let container = Container::clone(&fake.container(id, cpuset));
    ReservationContainer {
        container: Arc::new(Container {
            id: Some(RUNTIME_ID.to_owned()),
            ..container
        }),
        cpus: Some(cpuset.to_owned()),
    }
}

fn request(target: ReservationContainer, amount: &str) -> Request {
    Request {
        target,
        amount: cpus(amount),
        lends: true,
    }
}

/// Promise 37.
#[test]
fn a_promised_container_gets_its_cpus() {
    for fake in Fake::both(4) {
        let other = fake.container(A, "0-3");
        let before = fake.everything();
        let (mut journal, mut r) = fake.start(options(false));
        assert_eq!(
            r.promise(&journal, RUNTIME_ID, Path::new(""), cpus("2")),
            Ok("2-3".to_owned())
        );
        assert_eq!(fake.everything(), before, "a promise changes nothing");
        assert!(!r.is_empty());
        r.reconcile(&mut journal, &[], &[other.clone().into()]);
        assert_eq!(fake.cpuset(A), "0-1");
        // The promised CPUs cannot be promised again.
        let refused = r
            .promise(&journal, "another", Path::new(""), cpus("2"))
            .unwrap_err();
        assert!(refused.contains("cpus = 1"), "{refused}");
        let strict = arrived_container(&fake, S, "2-3");
        let standard = [other.clone().into()];
        r.reconcile(&mut journal, &[request(strict, "2")], &standard);
        assert_eq!(fake.cpuset(S), "2-3");
        assert_eq!(state(&r, S).own_cpus, [CpuId(2), CpuId(3)]);
        assert!(!r.has_promises());
    }
}

/// CPUs that the runtime wrote at our request revert to the container's default.
/// Promise 63.
#[test]
fn promised_cpus_are_reverted_even_after_a_crash() {
    for fake in Fake::both(4) {
        for crash in [false, true] {
            // The root of v1's hierarchy has a list.
            fake.write("cpuset.cpus", "0-3");
            let (mut journal, mut r) = fake.start(options(false));
            let cpus = r
                .promise(&journal, RUNTIME_ID, Path::new(""), cpus("1"))
                .unwrap();
            let strict = arrived_container(&fake, S, &cpus);
            r.reconcile(&mut journal, &[request(strict.clone(), "1")], &[]);
            assert_eq!(fake.cpuset(S), "3");
            if crash {
                drop((journal, r));
                let (_, report) = fake.journal();
                assert!(report.is_clean(), "{report:?}");
            } else {
                // Still recorded as created on promised CPUs, and no longer strict.
                r.reconcile(&mut journal, &[], &[strict]);
                assert_eq!(journal.in_force(), 0);
            }
            assert_eq!(fake.cpuset(S), "0-3");
        }
    }
}

/// Promise 63.
#[test]
fn a_cancelled_promise_leaves_nothing() {
    let fake = Fake::v2(4);
    let other = fake.container(A, "0-3");
    let before = fake.everything();
    let (mut journal, mut r) = fake.start(options(false));
    r.promise(&journal, RUNTIME_ID, Path::new(""), cpus("1.5"))
        .unwrap();
    // A second request, as after a restart of the runtime, replaces the first.
    assert_eq!(
        r.promise(&journal, RUNTIME_ID, Path::new(""), cpus("3")),
        Ok("1-3".to_owned())
    );
    r.reconcile(&mut journal, &[], &[other.clone().into()]);
    assert_eq!(fake.cpuset(A), "0");
    assert!(r.cancel_promise(RUNTIME_ID) && !r.cancel_promise(RUNTIME_ID));
    r.reconcile(&mut journal, &[], &[other.into()]);
    assert_eq!(fake.everything(), before);
    assert_eq!(journal.in_force(), 0);
}

/// Promise 37.
#[test]
fn an_owner_that_does_not_lend_keeps_idle_cpus() {
    let fake = Fake::v2(4);
    let other = fake.container(A, "0-3");
    let (mut journal, mut r) = fake.start(options(true));
    let strict = Request {
        lends: false,
        ..request(arrived_container(&fake, S, "3"), "1")
    };
    r.reconcile(&mut journal, &[strict], &[other.into()]);
    let start = Instant::now();
    for step in 0..40 {
        r.step(&mut journal, start + Duration::from_millis(100) * step);
        assert_eq!(fake.cpuset(A), "0-2");
    }
    assert_eq!(state(&r, S).lendings, 0);
}
