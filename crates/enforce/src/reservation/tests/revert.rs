//! Reverted reservations in every layout, however they end, even if the kernel refuses the former
//! value.

use super::host::{Fake, cpus};
use super::{A, S, options};
use crate::journal::RevertReport;
use std::time::Instant;

/// End of a reservation.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Regular,
    Killed,
    RuleRemoved,
    ContainerGone,
}

const ENDS: [End; 4] = [
    End::Regular,
    End::Killed,
    End::RuleRemoved,
    End::ContainerGone,
];

/// A strict container and another one, both with the cpuset `before`, after the reservation has
/// ended.
fn revert_after(fake: &Fake, before: &str, end: End) -> RevertReport {
    let (s, a) = (fake.container(S, before), fake.container(A, before));
    let (mut journal, mut r) = fake.start(options(true));
    r.set(&mut journal, &[(s, cpus("1"))], &[a]);
    assert_eq!((fake.cpuset(S), fake.cpuset(A)), ("3".into(), "0-2".into()));
    match end {
        End::Regular => journal.revert_all(),
        End::Killed => {
            drop(journal);
            fake.journal().1
        }
        End::RuleRemoved => {
            r.set(&mut journal, &[], &[]);
            assert_eq!(journal.in_force(), 0);
            journal.revert_all()
        }
        End::ContainerGone => {
            fake.remove_all(&S.to_string());
            r.set(&mut journal, &[], &[]);
            assert_eq!(journal.in_force(), 0);
            journal.revert_all()
        }
    }
}

/// An empty list cannot be written back while processes are in the cgroup (ENOSPC). All possible
/// CPUs have the same meaning.
/// Promise 64.
#[test]
fn a_refused_empty_cpuset_reverts_to_all_possible_cpus() {
    for end in ENDS {
        let fake = Fake::v2(4);
        let report = revert_after(&fake, "", end);
        assert!(report.is_clean() && report.foreign.is_empty(), "{report:?}");
        assert_eq!(fake.cpuset(A), "0-3", "{end:?}");
        if end != End::ContainerGone {
            assert_eq!(fake.cpuset(S), "0-3", "{end:?}");
        }
        assert_eq!(
            fake.journal().1,
            RevertReport::default(),
            "nothing is left over"
        );
    }
}

/// Promise 64.
#[test]
fn a_list_is_reverted_in_every_layout() {
    for end in ENDS {
        for fake in Fake::both(4) {
            let report = revert_after(&fake, "0-3", end);
            assert!(report.is_clean() && report.instead.is_empty(), "{report:?}");
            assert_eq!(fake.cpuset(A), "0-3", "{end:?}");
        }
    }
}

/// CPUs that a sibling partition has claimed meanwhile are left out.
/// Promise 64.
#[test]
fn an_empty_cpuset_next_to_a_partition_is_reverted() {
    let fake = Fake::v2(4);
    let s = fake.container(S, "");
    let (mut journal, mut r) = fake.start(options(false));
    r.set(&mut journal, &[(s, cpus("1"))], &[]);
    fake.write("part/cpuset.cpus", "1");
    fake.write("part/cpuset.cpus.partition", "root");
    fake.write("cpuset.cpus.effective", "0,2-3");
    let report = journal.revert_all();
    assert!(report.is_clean(), "{report:?}");
    assert_eq!((report.instead.len(), fake.cpuset(S)), (1, "0,2-3".into()));
}

/// v1 refuses a child outside its parent, and a parent without its children. Neither can be first
/// unless the parent has both lists for a moment.
/// Promise 64.
#[test]
fn moved_v1_children_are_reverted_after_a_crash() {
    let fake = Fake::hybrid(4);
    let s = fake.container(S, "0-1");
    fake.child(S, "x", "0");
    fake.child(S, "x/y", "0");
    let before = fake.everything();
    let (mut journal, mut r) = fake.start(options(true));
    r.set(&mut journal, &[(s, cpus("2"))], &[]);
    assert_eq!(fake.cpuset_at(&format!("{S}/x/y")), "2-3");
    drop(journal);
    let (_, report) = fake.journal();
    assert!(report.is_clean() && report.instead.is_empty(), "{report:?}");
    assert_eq!(fake.everything(), before);
}

/// v1 removes an offline CPU from every cpuset, and refuses it while it is offline.
/// Promise 64.
#[test]
fn v1_is_reverted_without_an_offline_cpu() {
    for (online_at_the_end, expected) in [("0-1,3", "0-1,3"), ("0-3", "0-3")] {
        let fake = Fake::hybrid(4);
        let (s, a) = (fake.container(S, "0-3"), fake.container(A, "0-3"));
        let (mut journal, mut r) = fake.start(options(false));
        r.set(&mut journal, &[(s, cpus("1"))], &[a]);
        fake.write(&format!("{A}/cpuset.cpus"), "0-1");
        fake.online("0-1,3");
        r.step(&mut journal, Instant::now());
        assert_eq!(
            r.states().map(|(_, state, _)| state.rewrites).sum::<u64>(),
            0
        );
        fake.online(online_at_the_end);
        drop(journal);
        let (_, report) = fake.journal();
        assert!(report.is_clean() && report.foreign.is_empty(), "{report:?}");
        assert_eq!(fake.cpuset(A), expected);
    }
}

/// Promise 64.
#[test]
fn an_interrupt_of_offline_cpus_moves_to_online_cpus() {
    let fake = Fake::v2(4);
    let s = fake.container(S, "");
    let irq = "/proc/irq/24/smp_affinity_list";
    fake.write_host(irq, "3");
    let (mut journal, mut r) = fake.start(crate::reservation::ReservationOptions {
        move_irqs: true,
        ..options(false)
    });
    r.set(&mut journal, &[(s, cpus("1"))], &[]);
    assert_eq!(fake.read_host(irq), "0-2");
    fake.online("0-2");
    let report = journal.revert_all();
    assert!(report.is_clean(), "{report:?}");
    assert_eq!(fake.read_host(irq), "0-2");
}
