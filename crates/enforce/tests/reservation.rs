//! Reservations on this host, with cgroups and processes of our own.

// Clippy's exception for tests does not reach their helpers.
#![allow(clippy::unwrap_used)]

use cofferdam_enforce::journal::Journal;
use cofferdam_enforce::reservation::{ReservationOptions, Reservations};
use cofferdam_enforce::{ContainerPolicy, EnforceOptions, Enforcer};
use cofferdam_host::{HostFs, online_cpus};
use cofferdam_lab::fixtures::{Cgroup, FakeContainer, Process, exclusive, time_limit, wait_until};
use cofferdam_types::{CgroupId, Container, CpuAmount, CpuId, CpuPolicy, Policy};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);

fn container(cgroup: &Cgroup, pid: Option<u32>) -> Arc<Container> {
    Arc::new(Container {
        pid,
        ..Container::plain(CgroupId(cgroup.id()), cgroup.path(), "test")
    })
}

fn of(fake: &FakeContainer) -> Arc<Container> {
    container(fake.cgroup(), Some(fake.pid()))
}

/// CPUs that a process may run on, as the kernel reports them.
fn allowed(pid: u32) -> BTreeSet<CpuId> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let list = status
        .lines()
        .find_map(|l| l.strip_prefix("Cpus_allowed_list:"));
    let cpus = cofferdam_host::parse::cpu_list(list.unwrap()).unwrap();
    cpus.into_iter().collect()
}

/// CPU settings of a cgroup.
fn settings(cgroup: &Cgroup) -> BTreeMap<PathBuf, String> {
    let mut all = BTreeMap::new();
    for controller in ["cpu", "cpuset"] {
        for entry in fs::read_dir(cgroup.controller(controller))
            .unwrap()
            .flatten()
        {
            let name = entry.file_name().to_string_lossy().into_owned();
            if ["cpu.shares", "cpu.weight", "cpuset.cpus", "cpu.idle"].contains(&name.as_str()) {
                all.insert(entry.path(), fs::read_to_string(entry.path()).unwrap());
            }
        }
    }
    all
}

fn options(lending: bool) -> ReservationOptions {
    ReservationOptions {
        lending,
        ..ReservationOptions::default()
    }
}

fn one() -> CpuAmount {
    "1".parse().unwrap()
}

/// Runs `body` with the CPUs of this host and a journal of its own, one test at a time.
fn scene(body: impl FnOnce(&BTreeSet<CpuId>, &mut Journal) + Send + 'static) {
    let _alone = exclusive();
    time_limit(LIMIT, move || {
        let folder = tempfile::tempdir().unwrap();
        let (mut journal, _) = Journal::open(folder.path()).unwrap();
        let cpus = online_cpus(&HostFs::host()).unwrap().into_iter().collect();
        body(&cpus, &mut journal);
        assert_eq!(journal.in_force(), 0);
    });
}

/// Promise 37.
#[test]
fn processes_run_where_the_plan_says_and_are_reverted() {
    scene(|cpus, journal| {
        let (s, a) = (FakeContainer::new("strict"), FakeContainer::new("other"));
        let before = (settings(s.cgroup()), settings(a.cgroup()));
        let mut r = Reservations::new(HostFs::host(), options(true)).unwrap();
        r.set(journal, &[(of(&s), one())], &[of(&a)]);
        let own: BTreeSet<CpuId> = cpus.last().copied().into_iter().collect();
        assert_eq!(allowed(s.pid()), own);
        assert_eq!(allowed(a.pid()), cpus.difference(&own).copied().collect());
        for (_, _, degraded) in r.states() {
            assert!(degraded.is_empty(), "{degraded:?}");
        }
        r.set(journal, &[], &[]);
        assert_eq!((settings(s.cgroup()), settings(a.cgroup())), before);
        assert_eq!(&allowed(s.pid()), cpus);
    });
}

/// Promise 37.
#[test]
fn an_idle_cpu_is_lent_and_reclaimed() {
    scene(|cpus, journal| {
        let (s, a) = (FakeContainer::new("strict"), FakeContainer::new("other"));
        let mut r = Reservations::new(HostFs::host(), options(true)).unwrap();
        r.set(journal, &[(of(&s), one())], &[of(&a)]);
        wait_until("the idle CPU to be lent", Duration::from_secs(10), || {
            r.step(journal, Instant::now());
            &allowed(a.pid()) == cpus
        });
        let _burner: Process = s.start("sha256sum /dev/zero");
        wait_until("the CPU to be reclaimed", Duration::from_secs(20), || {
            r.step(journal, Instant::now());
            allowed(a.pid()).len() + 1 == cpus.len()
        });
        assert_eq!(r.states().next().unwrap().1.lendings, 1);
        r.set(journal, &[], &[]);
    });
}

/// Promise 37.
#[test]
fn a_rewritten_cpuset_is_corrected() {
    scene(|cpus, journal| {
        let s = FakeContainer::new("strict");
        let mut r = Reservations::new(HostFs::host(), options(false)).unwrap();
        r.set(journal, &[(of(&s), one())], &[]);
        let first = cpus.first().unwrap().to_string();
        fs::write(s.cgroup().controller("cpuset").join("cpuset.cpus"), &first).unwrap();
        r.step(journal, Instant::now());
        assert_eq!(allowed(s.pid()), cpus.last().copied().into_iter().collect());
        assert_eq!(r.states().next().unwrap().1.rewrites, 1);
        r.set(journal, &[], &[]);
        assert_eq!(
            allowed(s.pid()),
            cpus.first().copied().into_iter().collect()
        );
    });
}

/// Promise 37.
#[test]
fn the_next_process_reverts_after_a_crash() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        let folder = tempfile::tempdir().unwrap();
        let (s, a) = (FakeContainer::new("strict"), FakeContainer::new("other"));
        let before = (settings(s.cgroup()), settings(a.cgroup()));
        {
            let (mut journal, _) = Journal::open(folder.path()).unwrap();
            let mut r = Reservations::new(HostFs::host(), options(true)).unwrap();
            r.set(&mut journal, &[(of(&s), one())], &[of(&a)]);
            assert_ne!(settings(s.cgroup()), before.0);
        }
        let (_, report) = Journal::open(folder.path()).unwrap();
        assert!(report.is_clean(), "{report:?}");
        assert_eq!((settings(s.cgroup()), settings(a.cgroup())), before);
    });
}

#[test]
fn the_enforcer_reserves_reports_and_reverts() {
    let _alone = exclusive();
    time_limit(LIMIT, || {
        let (s, a) = (FakeContainer::new("strict"), FakeContainer::new("other"));
        let before = (settings(s.cgroup()), settings(a.cgroup()));
        let folder = tempfile::tempdir().unwrap();
        let mut enforcer = Enforcer::open(EnforceOptions {
            folder: folder.path().to_owned(),
            ..EnforceOptions::default()
        })
        .unwrap();
        let wanted = |fake: &FakeContainer, cpu| {
            let policy = Policy {
                cpu,
                ..Policy::default()
            };
            ContainerPolicy::new(of(fake), policy)
        };
        enforcer.set(vec![
            wanted(&s, CpuPolicy::Strict(one())),
            wanted(&a, CpuPolicy::Standard),
        ]);
        let status = enforcer.status();
        assert!(status.changes_in_force > 0);
        let own = status.containers[0].reservation.clone().unwrap().own_cpus;
        assert_eq!(allowed(s.pid()), own.iter().copied().collect());
        assert_eq!(status.containers[1].reservation, None);
        // Without a strict container no settings are changed.
        enforcer.set(vec![wanted(&a, CpuPolicy::Standard)]);
        assert_eq!((settings(s.cgroup()), settings(a.cgroup())), before);
        assert!(enforcer.revert().is_clean());
    });
}
