//! Containers inside others, and below cgroups that have few CPUs.

use super::host::{Fake, cpus};
use super::*;
use crate::journal::fake_kernel::FakeKernel;

fn text(r: &Reservations, id: u64) -> String {
    let mut states = r.states();
    let found = states.find(|(other, ..)| other.0 == id);
    let texts = found.into_iter().flat_map(|(.., degraded)| degraded);
    texts
        .map(|d| format!("{}: {}", d.name, d.text))
        .collect::<Vec<_>>()
        .join("; ")
}

/// Hosts of both layouts, with the root's list as in v1, and the effective CPUs of each cgroup.
fn hosts() -> impl Iterator<Item = Fake> {
    Fake::both(4).inspect(|fake| {
        fake.write("cpuset.cpus", "0-3");
        fake.write_effective();
    })
}

fn update() {
    FakeKernel::change(|_| {});
}

/// Makes the kernel give `id` no CPU of `list`, for a reason that no file shows.
fn take(fake: &Fake, id: u64, list: &str) {
    let folder = fake.cpuset_folder(&id.to_string());
    let taken = crate::cpus::read_list(list).unwrap();
    FakeKernel::change(|kernel| drop(kernel.taken.insert(folder, taken)));
}

/// Promise 38.
#[test]
fn a_refused_owner_takes_nothing_from_anybody() {
    for fake in hosts() {
        let (s, a) = (fake.container(S, "0"), fake.container(A, "0-3"));
        update();
        take(&fake, S, "1-3");
        let before = fake.everything();
        let (mut journal, mut r) = fake.start(options(false));
        r.set(
            &mut journal,
            &[(s.clone(), cpus("2"))],
            std::slice::from_ref(&a),
        );
        assert_eq!(state(&r, S).own_cpus, []);
        assert_eq!(names(&r, S), ["cpuset_refused"]);
        assert!(
            text(&r, S).contains("no container lost any"),
            "{}",
            text(&r, S)
        );
        assert!(names(&r, A).is_empty());
        assert_eq!((fake.everything(), journal.in_force()), (before, 0));
        let failed = journal.failed_changes();
        let start = Instant::now();
        r.step(&mut journal, start);
        r.step(&mut journal, start + 2 * COMPARE_EVERY);
        let tries = journal.failed_changes() - failed;
        assert!(
            tries <= 1 + u64::from(super::super::arrange::MOST_OTHER_TRIES),
            "{tries}"
        );
        FakeKernel::change(|kernel| kernel.taken.clear());
        r.step(&mut journal, start + 60 * COMPARE_EVERY);
        assert_eq!(state(&r, S).own_cpus, [CpuId(2), CpuId(3)]);
        assert_eq!((fake.cpuset(A), names(&r, S)), ("0-1".into(), vec![]));
    }
}

/// Promise 38.
#[test]
fn another_cpu_is_reserved_where_one_is_refused() {
    for fake in hosts() {
        let (s, a) = (fake.container(S, "0-2"), fake.container(A, "0-3"));
        update();
        take(&fake, S, "3");
        let (mut journal, mut r) = fake.start(options(false));
        r.set(&mut journal, &[(s, cpus("1"))], &[a]);
        assert_eq!(state(&r, S).own_cpus, [CpuId(2)]);
        assert_eq!(
            (fake.cpuset(S), fake.cpuset(A)),
            ("2".into(), "0-1,3".into())
        );
        assert!(names(&r, S).is_empty());
    }
}

#[test]
fn an_owner_gets_cpus_that_the_cgroup_above_it_has() {
    for fake in hosts() {
        fake.write("narrow/cpuset.cpus", "0-1");
        let s = fake.container_at(S, "narrow/s", "0-1");
        let a = fake.container(A, "0-3");
        update();
        let before = fake.everything();
        let (mut journal, mut r) = fake.start(options(false));
        r.set(&mut journal, &[(s, cpus("1"))], &[a]);
        assert_eq!(state(&r, S).own_cpus, [CpuId(1)]);
        assert_eq!(fake.cpuset_at("narrow/s"), "1");
        assert_eq!(
            (fake.cpuset(A), fake.cpuset_at("narrow")),
            ("0,2-3".into(), "0-1".into())
        );
        r.set(&mut journal, &[], &[]);
        assert_eq!(fake.everything(), before);
    }
}

#[test]
fn a_request_beyond_the_cgroup_above_takes_nothing() {
    for fake in hosts() {
        fake.write("narrow/cpuset.cpus", "0");
        let s = fake.container_at(S, "narrow/s", "0");
        let sibling = fake.container_at(B, "narrow/b", "0");
        let a = fake.container(A, "0-3");
        update();
        let before = fake.everything();
        let (mut journal, mut r) = fake.start(options(false));
        let standard = [a, sibling];
        r.set(&mut journal, &[(s.clone(), cpus("1"))], &standard);
        assert!(state(&r, S).own_cpus.is_empty());
        let why = text(&r, S);
        for part in [
            "reservation_impossible",
            "/narrow above it has only CPUs 0",
            "AllowedCPUs=",
        ] {
            assert!(why.contains(part), "{why}");
        }
        assert_eq!((fake.everything(), journal.failed_changes()), (before, 0));
        // The administrator gives the cgroup above more CPUs.
        fake.write("narrow/cpuset.cpus", "0-1");
        update();
        r.step(&mut journal, Instant::now());
        assert_eq!(
            (state(&r, S).own_cpus, text(&r, S)),
            (vec![CpuId(1)], String::new())
        );
        assert_eq!(
            (fake.cpuset(A), fake.cpuset_at("narrow/b")),
            ("0,2-3".into(), "0".into())
        );
    }
}

/// Promise 38.
#[test]
fn narrowing_a_cgroup_above_returns_others_cpus() {
    let fake = Fake::v2(4);
    fake.write_effective();
    fake.write("above/cpuset.cpus", "0-3");
    let s = fake.container_at(S, "above/s", "");
    let sibling = fake.container_at(B, "above/b", "");
    let a = fake.container(A, "0-3");
    update();
    let (mut journal, mut r) = fake.start(options(false));
    r.set(&mut journal, &[(s, cpus("1"))], &[a, sibling]);
    assert_eq!(
        (fake.cpuset(A), fake.cpuset_at("above/s")),
        ("0-2".into(), "3".into())
    );
    let start = Instant::now();
    fake.write("above/cpuset.cpus", "0-1");
    update();
    r.step(&mut journal, start);
    assert_eq!(
        (fake.cpuset(A), fake.cpuset_at("above/s")),
        ("0,2-3".into(), "1".into())
    );
    fake.write("above/cpuset.cpus", "0");
    update();
    r.step(&mut journal, start + 2 * COMPARE_EVERY);
    assert_eq!(fake.cpuset(A), "0-3");
    assert!(state(&r, S).own_cpus.is_empty());
    assert_eq!(names(&r, S), ["reservation_impossible"]);
    fake.write("above/cpuset.cpus", "0-3");
    update();
    r.step(&mut journal, start + 4 * COMPARE_EVERY);
    assert_eq!(
        (fake.cpuset(A), state(&r, S).own_cpus),
        ("0-2".into(), vec![CpuId(3)])
    );
}

/// Docker in docker, kind, or LXC with docker: `outer` contains the container `inner` and another
/// one.
fn nested(fake: &Fake) -> [Arc<Container>; 4] {
    let containers = [
        fake.container_at(A, "outer", "0-3"),
        fake.container_at(S, "outer/docker/inner", "0-3"),
        fake.container_at(B, "outer/docker/other", "0-3"),
        fake.container_at(9, "beside", "0-3"),
    ];
    fake.write("outer/docker/cpuset.cpus", "0-3");
    fake.write("outer/init/cpuset.cpus", "0-3");
    update();
    containers
}

/// Promise 38.
#[test]
fn an_inner_owner_keeps_its_cpus_from_all_others() {
    for fake in hosts() {
        let [outer, inner, other, sibling] = nested(&fake);
        let before = fake.everything();
        let (mut journal, mut r) = fake.start(options(false));
        r.set(
            &mut journal,
            &[(inner, cpus("1"))],
            &[outer, other, sibling],
        );
        assert_eq!(state(&r, S).own_cpus, [CpuId(3)]);
        for (path, list) in [
            ("outer", "0-3"),
            ("outer/docker", "0-3"),
            ("outer/docker/inner", "3"),
            ("outer/docker/other", "0-2"),
            ("outer/init", "0-2"),
            ("beside", "0-2"),
        ] {
            assert_eq!(fake.cpuset_at(path), list, "{path}");
        }
        for id in [S, A, B, 9] {
            assert_eq!(text(&r, id), "");
        }
        assert_eq!(journal.failed_changes(), 0);
        r.set(&mut journal, &[], &[]);
        assert_eq!(fake.everything(), before);
    }
}

/// Promise 38.
#[test]
fn containers_inside_an_owner_share_its_cpus() {
    for fake in hosts() {
        let [outer, inner, other, sibling] = nested(&fake);
        let before = fake.everything();
        let (mut journal, mut r) = fake.start(options(false));
        r.set(
            &mut journal,
            &[(outer, cpus("2"))],
            &[inner, other, sibling],
        );
        assert_eq!(text(&r, A), "");
        assert_eq!(state(&r, A).own_cpus, [CpuId(2), CpuId(3)]);
        let effective = |path: &str| match fake.cpuset_at(path) {
            list if list == "0-3" && path.starts_with("outer/") => fake.effective(path),
            list => list,
        };
        for path in [
            "outer",
            "outer/docker/inner",
            "outer/docker/other",
            "outer/init",
        ] {
            assert_eq!(effective(path), "2-3", "{path}");
        }
        assert_eq!(fake.cpuset_at("beside"), "0-1");
        for id in [S, A, B, 9] {
            assert_eq!(text(&r, id), "");
        }
        assert_eq!(journal.failed_changes(), 0);
        r.set(&mut journal, &[], &[]);
        assert_eq!(fake.everything(), before);
    }
}

/// Promise 38.
#[test]
fn an_owner_inside_an_owner_has_separate_cpus() {
    for fake in hosts() {
        let [outer, inner, other, sibling] = nested(&fake);
        let before = fake.everything();
        let (mut journal, mut r) = fake.start(options(false));
        let strict = [(outer, cpus("1")), (inner, cpus("1"))];
        r.set(&mut journal, &strict, &[other, sibling]);
        assert_eq!(text(&r, A), "");
        let (of_outer, of_inner) = (state(&r, A).own_cpus, state(&r, S).own_cpus);
        assert_eq!((of_outer.len(), of_inner.len()), (1, 1));
        assert_ne!(of_outer, of_inner);
        assert_eq!(fake.cpuset_at("outer"), "2-3");
        assert_eq!(
            fake.cpuset_at("outer/docker/inner"),
            of_inner[0].to_string()
        );
        assert_eq!(
            fake.cpuset_at("outer/docker/other"),
            of_outer[0].to_string()
        );
        assert_eq!(fake.cpuset_at("beside"), "0-1");
        r.set(&mut journal, &[], &[]);
        assert_eq!(fake.everything(), before);
    }
}

/// Promise 38.
#[test]
fn processes_around_an_inner_owner_are_named() {
    for fake in hosts() {
        let [outer, inner, other, sibling] = nested(&fake);
        fake.write("outer/cgroup.procs", "4711\n");
        let (mut journal, mut r) = fake.start(options(false));
        r.set(
            &mut journal,
            &[(inner, cpus("1"))],
            &[outer, other, sibling],
        );
        assert_eq!(names(&r, S), ["reservation_shared"]);
        assert!(
            text(&r, S).contains("directly in /sys/fs/cgroup"),
            "{}",
            text(&r, S)
        );
        let weight = fake.weight("outer/docker/inner");
        assert!(["262144", "10000"].contains(&weight.as_str()), "{weight}");
    }
}

/// Promise 24.
/// Promise 38.
#[test]
fn a_read_only_file_system_is_reported_with_a_remedy() {
    for fake in hosts() {
        let (s, a) = (fake.container(S, "0-3"), fake.container(A, "0-3"));
        update();
        let before = fake.everything();
        let (mut journal, mut r) = fake.start(options(true));
        FakeKernel::change(|kernel| kernel.refuses = Some(libc::EROFS));
        r.set(&mut journal, &[(s, cpus("1"))], &[a]);
        assert_eq!(names(&r, S), ["cpuset_refused"]);
        let why = text(&r, S);
        assert!(why.contains("ProtectControlGroups="), "{why}");
        assert!(!why.contains("enable the cpu controller"), "{why}");
        assert_eq!((fake.everything(), journal.in_force()), (before, 0));
        FakeKernel::change(|kernel| kernel.refuses = None);
    }
}

/// Promise 38.
#[test]
fn a_promise_is_of_cpus_that_the_cgroup_above_has() {
    for fake in hosts() {
        fake.write("pods/cpuset.cpus", "0-1");
        fake.container(A, "0-3");
        update();
        let (journal, mut r) = fake.start(options(false));
        let promise = |r: &mut Reservations, path: &str, amount: &str| {
            r.promise(&journal, "id", std::path::Path::new(path), cpus(amount))
        };
        assert_eq!(promise(&mut r, "/pods/pod1/c", "1"), Ok("1".to_owned()));
        let refused = promise(&mut r, "/pods/pod1/c", "3").unwrap_err();
        assert!(
            refused.contains("/pods above it has only CPUs 0-1"),
            "{refused}"
        );
    }
}
