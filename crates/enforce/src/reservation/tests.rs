//! Tests on synthetic trees of every layout, without touching this host.

mod host;
mod nested;
mod promises;
mod revert;
mod trees;

use super::*;
use cofferdam_types::CpuId;
use host::{Fake, cpus};
use std::time::Duration;

const S: u64 = 1;
const A: u64 = 2;
const B: u64 = 3;

fn options(lending: bool) -> ReservationOptions {
    ReservationOptions {
        lending,
        ..ReservationOptions::default()
    }
}

fn names(reservations: &Reservations, id: u64) -> Vec<String> {
    reservations
        .states()
        .filter(|(other, ..)| other.0 == id)
        .flat_map(|(_, _, degraded)| degraded.into_iter().map(|d| d.name))
        .collect()
}

fn state(reservations: &Reservations, id: u64) -> ReservationState {
    let mut states = reservations.states();
    let found = states.find(|(other, ..)| other.0 == id);
    found.unwrap().1
}

/// Promise 37.
#[test]
fn v2_containers_get_their_cpus_and_are_reverted() {
    let fake = Fake::v2(4);
    let (strict, other) = (fake.container(S, "0-2"), fake.container(A, "0-3"));
    let before = fake.everything();
    let (mut journal, mut r) = fake.start(options(false));
    r.set(
        &mut journal,
        &[(strict.clone(), cpus("1"))],
        std::slice::from_ref(&other),
    );
    assert_eq!(fake.cpuset(S), "3");
    assert_eq!(fake.cpuset(A), "0-2");
    assert_eq!(state(&r, S).own_cpus, [CpuId(3)]);
    let writes = journal.in_force();
    r.set(
        &mut journal,
        &[(strict.clone(), cpus("1"))],
        std::slice::from_ref(&other),
    );
    assert_eq!(journal.in_force(), writes);
    // Both containers are standard from now on.
    r.set(&mut journal, &[], &[strict, other]);
    assert_eq!(fake.everything(), before);
    assert_eq!(journal.in_force(), 0);
}

/// Promise 37.
#[test]
fn the_next_process_reverts_after_a_crash() {
    for fake in Fake::both(4) {
        let (strict, other) = (fake.container(S, "0-3"), fake.container(A, "0-3"));
        let before = fake.everything();
        {
            let (mut journal, mut r) = fake.start(options(true));
            r.set(&mut journal, &[(strict, cpus("1.5"))], &[other]);
            assert_ne!(fake.everything(), before);
            // Dropped without reverting, as by kill -9.
        }
        let (_, report) = fake.journal();
        assert!(report.is_clean(), "{report:?}");
        assert_eq!(fake.everything(), before);
    }
}

#[test]
fn v1_children_stay_within_their_parent() {
    let fake = Fake::hybrid(4);
    let (strict, other) = (fake.container(S, "0-3"), fake.container(A, "0-3"));
    fake.child(A, "x", "3");
    fake.child(A, "y", "1-3");
    let before = fake.everything();
    let (mut journal, mut r) = fake.start(options(false));
    r.set(&mut journal, &[(strict, cpus("1"))], &[other]);
    assert_eq!(fake.cpuset(A), "0-2");
    assert_eq!(
        fake.cpuset_at(&format!("{A}/x")),
        "0-2",
        "it had only the reserved CPU"
    );
    assert_eq!(fake.cpuset_at(&format!("{A}/y")), "1-2");
    r.set(&mut journal, &[], &[]);
    assert_eq!(fake.everything(), before);
}

/// Promise 38.
#[test]
fn an_impossible_request_does_not_affect_others() {
    let fake = Fake::v2(4);
    let (a, b, s) = (
        fake.container(A, ""),
        fake.container(B, ""),
        fake.container(S, ""),
    );
    let (mut journal, mut r) = fake.start(options(false));
    r.set(&mut journal, &[(a, cpus("2")), (b, cpus("2.5"))], &[s]);
    assert_eq!(fake.cpuset(A), "2-3");
    assert_eq!(names(&r, B), ["reservation_impossible"]);
    let (.., degraded) = r.states().find(|(id, ..)| id.0 == B).unwrap();
    assert!(
        degraded[0].text.contains("give it cpus = 1"),
        "{}",
        degraded[0].text
    );
    // The refused container also leaves the owners' CPUs.
    assert_eq!(
        (fake.cpuset(B), fake.cpuset(S)),
        ("0-1".into(), "0-1".into())
    );
}

/// Promise 37.
#[test]
fn a_missing_controller_degrades_one_container() {
    let fake = Fake::v2(4);
    let (a, b) = (fake.container(A, ""), fake.container(B, ""));
    fake.remove(&format!("{A}/cpuset.cpus"));
    fake.remove(&format!("{B}/cpu.weight"));
    let (mut journal, mut r) = fake.start(options(true));
    r.set(&mut journal, &[(a, cpus("1")), (b, cpus("1"))], &[]);
    assert_eq!(names(&r, A), ["cpuset_unavailable"]);
    assert_eq!(names(&r, B), ["lending_off"]);
    assert_eq!(fake.cpuset(B), "3");
}

/// Promise 37.
#[test]
fn a_rewritten_cpuset_is_corrected_and_counted() {
    let fake = Fake::v2(4);
    let (s, a) = (fake.container(S, "0-3"), fake.container(A, "0-3"));
    let (mut journal, mut r) = fake.start(options(false));
    r.set(&mut journal, &[(s, cpus("2"))], &[a]);
    fake.write(&format!("{S}/cpuset.cpus"), "0-2");
    fake.write(&format!("{A}/cpuset.cpus"), "1-3");
    let start = Instant::now();
    r.step(&mut journal, start);
    assert_eq!((fake.cpuset(S), fake.cpuset(A)), ("2-3".into(), "1".into()));
    assert_eq!(state(&r, S).rewrites, 1);
    r.step(&mut journal, start + 2 * COMPARE_EVERY);
    assert_eq!(state(&r, S).rewrites, 1);
    // The revert goes to the list that the runtime wrote last.
    r.set(&mut journal, &[], &[]);
    assert_eq!(
        (fake.cpuset(S), fake.cpuset(A)),
        ("0-2".into(), "1-3".into())
    );
}

#[test]
fn a_container_bound_to_reserved_cpus_is_moved_and_named() {
    let fake = Fake::v2(4);
    let (s, a) = (fake.container(S, ""), fake.container(A, "3"));
    let (mut journal, mut r) = fake.start(options(false));
    r.set(&mut journal, &[(s, cpus("1"))], &[a]);
    assert_eq!(fake.cpuset(A), "0-2");
    assert_eq!(names(&r, A), ["cpuset_conflict"]);
}

/// Promise 37.
#[test]
fn idle_cpus_are_lent_to_siblings_and_reclaimed() {
    for fake in Fake::both(4) {
        let (s, a) = (fake.container(S, "0-3"), fake.container(A, "0-3"));
        let far = fake.container_at(B, "pods/far", "0-3");
        let (mut journal, mut r) = fake.start(options(true));
        r.set(&mut journal, &[(s, cpus("1.5"))], &[a, far]);
        let start = Instant::now();
        let mut step = |r: &mut Reservations, ms: u64, used_ms: u64| {
            fake.used(S, used_ms);
            r.step(&mut journal, start + Duration::from_millis(ms));
        };
        step(&mut r, 0, 0);
        assert_eq!(fake.cpuset(A), "0-1");
        step(&mut r, 100, 10);
        assert_eq!(fake.cpuset(A), "0-3", "the slice is lent with it");
        assert_eq!(
            fake.cpuset_at("pods/far"),
            "0-1",
            "no weight protects the owner from it"
        );
        assert_eq!(state(&r, S).lent_cpus, [CpuId(2), CpuId(3)]);
        assert_eq!(state(&r, S).lendings, 2);
        step(&mut r, 200, 160);
        assert_eq!(fake.cpuset(A), "0-1");
        assert!(state(&r, S).lent_cpus.is_empty());
    }
}

/// Promise 37.
#[test]
fn an_owner_with_stolen_time_reclaims_its_cpus() {
    let fake = Fake::v2(4);
    let (s, a) = (fake.container(S, "0-3"), fake.container(A, "0-3"));
    let (mut journal, mut r) = fake.start(options(true));
    r.set(&mut journal, &[(s, cpus("1"))], &[a]);
    let start = Instant::now();
    let mut step = |r: &mut Reservations, ms: u64, (used_ms, stolen): (u64, u64)| {
        fake.used(S, used_ms);
        fake.write_host("/proc/stat", &format!("cpu3 0 0 0 0 0 0 0 {stolen} 0 0\n"));
        r.step(&mut journal, start + Duration::from_millis(ms));
    };
    step(&mut r, 0, (0, 0));
    step(&mut r, 100, (0, 0));
    assert_eq!(fake.cpuset(A), "0-3");
    // Using 0.9 of the CPU is no reason to reclaim it while the rest is idle or borrowed.
    step(&mut r, 1100, (900, 0));
    assert_eq!(fake.cpuset(A), "0-3");
    // A tenth of the CPU went to another virtual machine.
    step(&mut r, 2200, (1890, 11));
    assert_eq!(fake.cpuset(A), "0-2");
}

/// Promise 37.
#[test]
fn nothing_is_lent_to_containers_limited_by_quotas() {
    let fake = Fake::v2(4);
    let (s, a) = (fake.container(S, "0-3"), fake.container(A, "0-3"));
    fake.write(&format!("{A}/cpu.max"), "300000 100000");
    let (mut journal, mut r) = fake.start(options(true));
    r.set(&mut journal, &[(s, cpus("1"))], &[a]);
    let start = Instant::now();
    for ms in [0, 100, 200] {
        r.step(&mut journal, start + Duration::from_millis(ms));
    }
    assert_eq!(fake.cpuset(A), "0-2");
    for (i, quota) in ["301000 100000", "max 100000"].into_iter().enumerate() {
        fake.write(&format!("{A}/cpu.max"), quota);
        let later = start + Duration::from_secs(2 + 4 * i as u64);
        r.step(&mut journal, later);
        r.step(&mut journal, later + Duration::from_millis(100));
        assert_eq!(fake.cpuset(A), "0-3", "{quota}");
    }
}

#[test]
fn owners_weigh_most_and_slices_in_proportion() {
    let fake = Fake::hybrid(4);
    let (s, a, b) = (
        fake.container(S, "0-3"),
        fake.container(A, "0-3"),
        fake.container(B, "0-3"),
    );
    let (mut journal, mut r) = fake.start(options(true));
    let strict = [(s, cpus("1")), (a, cpus("0.5")), (b, cpus("0.25"))];
    r.set(&mut journal, &strict, &[]);
    assert_eq!(fake.shares(S), "262144");
    assert_eq!(
        (fake.shares(A), fake.shares(B)),
        ("262144".into(), "131072".into())
    );
    r.set(&mut journal, &strict[..1], &[strict[1].0.clone()]);
    assert_eq!(
        (fake.shares(A), fake.shares(B)),
        ("1024".into(), "1024".into())
    );
}

#[test]
fn an_offline_cpu_is_replaced() {
    let fake = Fake::v2(4);
    let s = fake.container(S, "");
    let (mut journal, mut r) = fake.start(options(false));
    r.set(&mut journal, &[(s, cpus("1"))], &[]);
    fake.online("0-2");
    r.step(&mut journal, Instant::now());
    assert_eq!(fake.cpuset(S), "2");
}

/// Promise 37.
#[test]
fn interrupts_and_steering_leave_reserved_cpus() {
    let fake = Fake::v2(4);
    let s = fake.container(S, "");
    let files = [
        ("/proc/irq/default_smp_affinity", "f", "3"),
        ("/proc/irq/24/smp_affinity_list", "0-3", "0-1"),
        ("/proc/irq/25/smp_affinity_list", "3", "0-1"),
        ("/proc/irq/26/smp_affinity_list", "0", "0"),
        (
            "/sys/class/net/eth7/queues/rx-0/rps_cpus",
            "0000000c",
            "00000003",
        ),
        (
            "/sys/class/net/eth7/queues/rx-1/rps_cpus",
            "00000000",
            "00000000",
        ),
        (
            "/sys/class/net/eth7/queues/tx-0/xps_cpus",
            "0000000f",
            "0000000f",
        ),
    ];
    for (path, value, _) in files {
        fake.write_host(path, value);
    }
    let with = |move_irqs| ReservationOptions {
        move_irqs,
        ..options(false)
    };
    let (mut journal, mut r) = fake.start(with(true));
    r.set(&mut journal, &[(s.clone(), cpus("2"))], &[]);
    let is = |path: &str, wanted: &str| {
        let form = crate::journal::Form::CpuMask;
        assert_eq!(
            form.canonical(&fake.read_host(path)),
            form.canonical(wanted),
            "{path}"
        );
    };
    files.iter().for_each(|(path, _, moved)| is(path, moved));
    assert!(r.degraded().is_empty());
    r.set_options(with(false));
    r.set(&mut journal, &[(s, cpus("2"))], &[]);
    files.iter().for_each(|(path, before, _)| is(path, before));
}

#[test]
fn a_container_that_vanishes_harms_no_other() {
    let fake = Fake::v2(4);
    let (s, a) = (fake.container(S, ""), fake.container(A, ""));
    let (mut journal, mut r) = fake.start(options(true));
    r.set(&mut journal, &[(s.clone(), cpus("1"))], &[a]);
    fake.remove_all(&S.to_string());
    fake.remove_all(&A.to_string());
    r.step(&mut journal, Instant::now());
    r.set(&mut journal, &[], &[]);
    assert_eq!((journal.in_force(), journal.failed_changes()), (0, 0));
}

/// The inventory may still list containers whose cgroups are gone, when many jobs end at once.
/// Promise 36.
#[test]
fn changes_of_a_removed_cgroup_are_closed_while_listed() {
    for fake in Fake::both(4) {
        let (s, a) = (fake.container(S, "0-3"), fake.container(A, "0-3"));
        let (mut journal, mut r) = fake.start(options(false));
        r.set(
            &mut journal,
            &[(s.clone(), cpus("1"))],
            std::slice::from_ref(&a),
        );
        for id in [S, A] {
            fake.remove_cgroup(id);
        }
        r.set(
            &mut journal,
            &[(s.clone(), cpus("1"))],
            std::slice::from_ref(&a),
        );
        assert!(names(&r, S).is_empty(), "{:?}", names(&r, S));
        r.set(&mut journal, &[], &[]);
        assert_eq!((journal.in_force(), journal.failed_changes()), (0, 0));
    }
}

/// The kernel shows an exiting process in the root of every v1 hierarchy.
/// Promise 36.
#[test]
fn an_exiting_container_keeps_its_reservation() {
    let fake = Fake::hybrid(4);
    let (s, a) = (fake.container(S, "0-3"), fake.container(A, "0-3"));
    let (mut journal, mut r) = fake.start(options(false));
    let strict = [(s.clone(), cpus("1"))];
    r.set(&mut journal, &strict, std::slice::from_ref(&a));
    for one in [&s, &a] {
        let path = format!("/proc/{}/cgroup", one.pid.unwrap());
        let line = format!("3:cpu:/\n2:cpuset:/\n0::{}\n", one.cgroup_path.display());
        fake.write_host(&path, &line);
    }
    r.set(&mut journal, &strict, std::slice::from_ref(&a));
    assert!(names(&r, S).is_empty(), "{:?}", names(&r, S));
    assert_eq!((fake.cpuset(S), fake.cpuset(A)), ("3".into(), "0-2".into()));
    for id in [S, A] {
        fake.remove_cgroup(id);
    }
    r.set(&mut journal, &[], &[]);
    assert_eq!((journal.in_force(), journal.failed_changes()), (0, 0));
}

/// The kernel removes the files of a cgroup before its directory.
/// Promise 36.
#[test]
fn changes_of_a_half_removed_cgroup_are_closed() {
    for fake in Fake::both(4) {
        let (s, a) = (fake.container(S, "0-3"), fake.container(A, "0-3"));
        let (mut journal, mut r) = fake.start(options(false));
        let strict = [(s.clone(), cpus("1"))];
        r.set(&mut journal, &strict, std::slice::from_ref(&a));
        for id in [S, A] {
            fake.remove_files(id);
        }
        r.set(&mut journal, &strict, std::slice::from_ref(&a));
        r.set(&mut journal, &[], &[]);
        assert_eq!((journal.in_force(), journal.failed_changes()), (0, 0));
    }
}

/// A restarted service: its new cgroup has the path of the old one.
/// Promise 36.
#[test]
fn changes_of_a_replaced_cgroup_are_closed() {
    for fake in Fake::both(4) {
        let (s, a) = (fake.container(S, "0-3"), fake.container(A, "0-3"));
        let (mut journal, mut r) = fake.start(options(false));
        r.set(&mut journal, &[(s, cpus("1"))], std::slice::from_ref(&a));
        let changes = journal.in_force();
        fake.rename_cgroup(S);
        let again = fake.container_at(S + 1000, &S.to_string(), "0-3");
        r.set(
            &mut journal,
            &[(again, cpus("1"))],
            std::slice::from_ref(&a),
        );
        assert_eq!(journal.in_force(), changes);
        r.set(&mut journal, &[], &[]);
        assert_eq!((journal.in_force(), journal.failed_changes()), (0, 0));
        assert_eq!(fake.cpuset(S), "0-3");
    }
}
