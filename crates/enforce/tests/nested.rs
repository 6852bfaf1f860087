//! Reservations on this host for containers inside others, and below cgroups with few CPUs.

// Clippy's exception for tests does not reach their helpers.
#![allow(clippy::unwrap_used)]

use cofferdam_enforce::journal::Journal;
use cofferdam_enforce::reservation::{ReservationOptions, Reservations};
use cofferdam_host::{HostFs, online_cpus};
use cofferdam_lab::fixtures::{Cgroup, exclusive, time_limit};
use cofferdam_types::{CgroupId, Container, CpuAmount, CpuId};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);

/// Cgroup with a process in it, or with only child cgroups.
struct Tenant {
    idle: Option<Child>,
    cgroup: Cgroup,
}

impl Tenant {
    fn new(cgroup: Cgroup) -> Tenant {
        let idle = Command::new("sleep").arg("1000").spawn().unwrap();
        cgroup.add(idle.id());
        let idle = Some(idle);
        Tenant { idle, cgroup }
    }

    /// Cgroup without a process: pure v2 allows none in a cgroup whose children have controllers.
    fn around(label: &str) -> Tenant {
        Tenant {
            idle: None,
            cgroup: Cgroup::new(label),
        }
    }

    fn pid(&self) -> Option<u32> {
        self.idle.as_ref().map(Child::id)
    }

    fn child(&self, name: &str) -> Tenant {
        Tenant::new(self.cgroup.child(name))
    }

    fn container(&self) -> Arc<Container> {
        Arc::new(Container {
            pid: self.pid(),
            ..Container::plain(CgroupId(self.cgroup.id()), self.cgroup.path(), "test")
        })
    }

    /// CPUs that its process may run on, as the kernel reports them.
    fn allowed(&self) -> BTreeSet<CpuId> {
        let status = format!("/proc/{}/status", self.pid().unwrap());
        let status = fs::read_to_string(status).unwrap();
        let mut lines = status.lines();
        let list = lines.find_map(|l| l.strip_prefix("Cpus_allowed_list:"));
        let cpus = cofferdam_host::parse::cpu_list(list.unwrap()).unwrap();
        cpus.into_iter().collect()
    }

    fn cpuset(&self) -> PathBuf {
        self.cgroup.controller("cpuset").join("cpuset.cpus")
    }
}

impl Drop for Tenant {
    fn drop(&mut self) {
        if let Some(idle) = &mut self.idle {
            // The process may have ended already.
            let _ = idle.kill();
            let _ = idle.wait();
        }
    }
}

fn lists(tenants: &[&Tenant]) -> BTreeMap<PathBuf, String> {
    let list = |t: &&Tenant| (t.cpuset(), fs::read_to_string(t.cpuset()).unwrap());
    tenants.iter().map(list).collect()
}

fn one() -> CpuAmount {
    "1".parse().unwrap()
}

/// Names of a container's degradations.
fn names(r: &Reservations, tenant: &Tenant) -> Vec<String> {
    let id = CgroupId(tenant.cgroup.id());
    let found = r.states().find(|(other, ..)| *other == id);
    let degraded = found.map(|(.., degraded)| degraded).unwrap_or_default();
    degraded.into_iter().map(|d| d.name).collect()
}

/// Runs `body` with the CPUs of this host, one test at a time.
fn scene(body: impl FnOnce(&BTreeSet<CpuId>, &mut Journal, &mut Reservations) + Send + 'static) {
    let _alone = exclusive();
    time_limit(LIMIT, move || {
        let folder = tempfile::tempdir().unwrap();
        let (mut journal, _) = Journal::open(folder.path()).unwrap();
        let cpus = online_cpus(&HostFs::host()).unwrap().into_iter().collect();
        let options = ReservationOptions {
            lending: false,
            ..ReservationOptions::default()
        };
        let mut r = Reservations::new(HostFs::host(), options).unwrap();
        body(&cpus, &mut journal, &mut r);
        r.set(&mut journal, &[], &[]);
        assert_eq!((journal.in_force(), journal.failed_changes()), (0, 0));
    });
}

/// Promise 38.
#[test]
fn an_owner_gets_a_cpu_of_its_narrow_parent() {
    scene(|cpus, journal, r| {
        let narrow = Tenant::around("narrow");
        let first: BTreeSet<CpuId> = cpus.first().copied().into_iter().collect();
        fs::write(narrow.cpuset(), cpus.first().unwrap().to_string()).unwrap();
        let (inner, neighbour) = (narrow.child("inner"), Tenant::new(Cgroup::new("beside")));
        let before = lists(&[&narrow, &inner, &neighbour]);
        r.set(
            journal,
            &[(inner.container(), one())],
            &[neighbour.container()],
        );
        assert_eq!(names(r, &inner), [""; 0]);
        assert_eq!(inner.allowed(), first);
        assert_eq!(
            neighbour.allowed(),
            cpus.difference(&first).copied().collect()
        );
        r.set(journal, &[], &[]);
        assert_eq!(lists(&[&narrow, &inner, &neighbour]), before);
    });
}

/// Promise 38.
#[test]
fn an_impossible_request_takes_nothing_until_it_fits() {
    scene(|cpus, journal, r| {
        let narrow = Tenant::around("narrow");
        fs::write(narrow.cpuset(), cpus.first().unwrap().to_string()).unwrap();
        let (inner, other) = (narrow.child("inner"), narrow.child("other"));
        let neighbour = Tenant::new(Cgroup::new("beside"));
        let before = lists(&[&narrow, &inner, &other, &neighbour]);
        let standard = [other.container(), neighbour.container()];
        r.set(journal, &[(inner.container(), one())], &standard);
        assert_eq!(names(r, &inner), ["reservation_impossible"]);
        assert_eq!(lists(&[&narrow, &inner, &other, &neighbour]), before);
        assert_eq!(journal.in_force(), 0);
        assert_eq!(&neighbour.allowed(), cpus);
        // The administrator gives it all CPUs.
        let all: Vec<String> = cpus.iter().map(CpuId::to_string).collect();
        fs::write(narrow.cpuset(), all.join(",")).unwrap();
        r.step(journal, Instant::now());
        let last: BTreeSet<CpuId> = cpus.last().copied().into_iter().collect();
        assert_eq!(names(r, &inner), [""; 0]);
        assert_eq!(inner.allowed(), last);
        assert_eq!(
            neighbour.allowed(),
            cpus.difference(&last).copied().collect()
        );
    });
}

/// Promise 38.
#[test]
fn an_inner_owner_keeps_its_cpu_from_outer_containers() {
    scene(|cpus, journal, r| {
        let outer = Tenant::around("outer");
        let (inner, other) = (outer.child("inner"), outer.child("other"));
        let neighbour = Tenant::new(Cgroup::new("beside"));
        let before = lists(&[&outer, &inner, &other, &neighbour]);
        let standard = [outer.container(), other.container(), neighbour.container()];
        r.set(journal, &[(inner.container(), one())], &standard);
        let last: BTreeSet<CpuId> = cpus.last().copied().into_iter().collect();
        let rest: BTreeSet<CpuId> = cpus.difference(&last).copied().collect();
        assert_eq!(inner.allowed(), last);
        assert_eq!((other.allowed(), neighbour.allowed()), (rest.clone(), rest));
        for tenant in [&outer, &inner, &other, &neighbour] {
            assert_eq!(names(r, tenant), [""; 0]);
        }
        r.set(journal, &[], &[]);
        assert_eq!(lists(&[&outer, &inner, &other, &neighbour]), before);
    });
}

/// Promise 38.
#[test]
fn containers_inside_an_owner_run_on_its_cpu() {
    scene(|cpus, journal, r| {
        let outer = Tenant::around("outer");
        let (inner, other) = (outer.child("inner"), outer.child("init"));
        let neighbour = Tenant::new(Cgroup::new("beside"));
        let before = lists(&[&outer, &inner, &other, &neighbour]);
        let standard = [inner.container(), neighbour.container()];
        r.set(journal, &[(outer.container(), one())], &standard);
        let last: BTreeSet<CpuId> = cpus.last().copied().into_iter().collect();
        assert_eq!(
            (inner.allowed(), other.allowed()),
            (last.clone(), last.clone())
        );
        assert_eq!(
            neighbour.allowed(),
            cpus.difference(&last).copied().collect()
        );
        for tenant in [&outer, &inner, &neighbour] {
            assert_eq!(names(r, tenant), [""; 0]);
        }
        r.set(journal, &[], &[]);
        assert_eq!(lists(&[&outer, &inner, &other, &neighbour]), before);
    });
}
