//! Cgroups of the host: discovered by events, never containers.

use super::fake::{FakeHost, HOST};
use super::{by_path, created, only, seen, selectors};
use crate::inventory::{Inventory, MOST_HOST_CGROUPS};
use cofferdam_types::{CgroupId, ContainerChange, KernelEvent};
use std::path::Path;

fn payment_event(host: &FakeHost, path: &str, pid: Option<u32>) -> KernelEvent {
    KernelEvent::UnknownCgroup {
        cgroup: host.id(path),
        pid,
    }
}

fn paths(inventory: &Inventory) -> Vec<String> {
    let all = inventory.host_cgroups();
    let mut paths: Vec<_> = all.map(|c| c.cgroup_path.display().to_string()).collect();
    paths.sort();
    paths
}

/// The service never becomes a container by that.
#[test]
fn a_service_is_discovered_by_name_once_it_pays() {
    let host = FakeHost::new(false);
    host.process("/system.slice/ssh.service", 100, HOST);
    host.process("/", 2, HOST);
    let mut inventory = host.inventory();
    assert!(paths(&inventory).is_empty());

    let change = only(inventory.handle(&payment_event(
        &host,
        "/system.slice/ssh.service",
        Some(100),
    )));
    let ContainerChange::Added(ssh) = change else {
        panic!("{change:?}")
    };
    assert!(ssh.is_of_host() && ssh.host_network && ssh.descendants.is_empty());
    assert_eq!(ssh.name, "/system.slice/ssh.service");
    // A socket of the root's cgroup raises an event without a process.
    assert_eq!(inventory.handle(&payment_event(&host, "/", None)).len(), 1);
    assert_eq!(inventory.handle(&payment_event(&host, "/", Some(2))), []);
    assert_eq!(paths(&inventory), ["/", "/system.slice/ssh.service"]);
    assert_eq!(inventory.containers().count(), 0);
}

#[test]
fn an_older_cgroup_is_discovered_by_its_process() {
    let host = FakeHost::new(true);
    let mut inventory = host.inventory();
    host.process("/batch/job", 100, HOST);
    let event = payment_event(&host, "/batch/job", None);
    assert_eq!(inventory.handle(&event), [], "nothing leads to its path");
    let event = payment_event(&host, "/batch/job", Some(100));
    assert_eq!(inventory.handle(&event).len(), 1);
    host.end_process(100);
    let removed = KernelEvent::UnknownCgroup {
        cgroup: CgroupId(999_999),
        pid: Some(100),
    };
    assert_eq!(inventory.handle(&removed), []);
}

/// Promise 7.
#[test]
fn a_restarted_service_is_another_one() {
    let host = FakeHost::new(false);
    let path = "/system.slice/batch.service";
    host.process(path, 100, HOST);
    let mut inventory = host.inventory();
    let first = host.id(path);
    inventory.handle(&payment_event(&host, path, Some(100)));
    host.end_process(100);
    host.remove_cgroup(path);
    let changes = inventory.handle(&KernelEvent::CgroupRemoved { cgroup: first });
    assert!(matches!(only(changes), ContainerChange::Removed(c) if c.cgroup == first));
    assert!(paths(&inventory).is_empty());
    host.process(path, 101, HOST);
    assert_eq!(inventory.handle(&created(&host, path)), []);
    assert_eq!(
        inventory
            .handle(&payment_event(&host, path, Some(101)))
            .len(),
        1
    );
    assert_eq!(paths(&inventory), [path]);
}

/// A rule names the cgroup, or a container includes it.
///
/// Promise 7.
#[test]
fn a_cgroup_of_a_container_is_no_longer_the_hosts() {
    let host = FakeHost::new(false);
    host.process("/bar", 100, HOST);
    host.process("/bar/worker", 101, HOST);
    host.process("/pod", 102, HOST);
    let mut inventory = host.inventory();
    for (path, pid) in [("/bar", 100), ("/bar/worker", 101), ("/pod", 102)] {
        assert_eq!(
            inventory
                .handle(&payment_event(&host, path, Some(pid)))
                .len(),
            1
        );
    }
    // The rule's container, and two cgroups of the host fewer.
    let changes = inventory.name(&selectors(&["cgroup:/bar"]));
    let removed = changes
        .iter()
        .filter(|c| matches!(c, ContainerChange::Removed(_)));
    assert_eq!((changes.len(), removed.count()), (3, 2), "{changes:?}");
    assert_eq!(paths(&inventory), ["/pod"]);
    // These cgroups are the container's while the rule exists.
    assert_eq!(
        inventory.handle(&payment_event(&host, "/bar/worker", Some(101))),
        []
    );
    // A process of it enters its own namespace.
    host.move_process(102, 7);
    let changes = inventory.handle(&seen(&host, "/pod", 7, 102));
    assert_eq!(changes.len(), 2, "{changes:?}");
    assert!(paths(&inventory).is_empty());
    assert!(by_path(&inventory, "/pod").is_some_and(|c| !c.is_of_host()));
    // Without the rule the cgroups are the host's again when they are next seen.
    inventory.name(&[]);
    assert!(by_path(&inventory, "/bar").is_none());
    assert_eq!(
        inventory
            .handle(&payment_event(&host, "/bar", Some(100)))
            .len(),
        1
    );
}

/// A rule names the cgroup, which has got its first process since. A process that is created in a
/// cgroup raises no event, but its first packet does.
#[test]
fn a_payer_that_a_rule_names_is_its_container() {
    let host = FakeHost::new(false);
    host.cgroup("/bar");
    let mut inventory = host.inventory();
    assert_eq!(inventory.name(&selectors(&["cgroup:/bar"])), []);
    host.process("/bar", 100, HOST);
    let change = only(inventory.handle(&payment_event(&host, "/bar", Some(100))));
    assert!(matches!(change, ContainerChange::Added(c) if !c.is_of_host()));
}

/// A thousand cgroups pay: only as many are tracked as there is room for, and forgotten ones make
/// room.
///
/// Promise 7.
#[test]
fn a_thousand_payers_are_bounded() {
    let host = FakeHost::new(false);
    let path = |n: u32| format!("/job{n}");
    for n in 0..1_000 {
        host.process(&path(n), 1_000 + n, HOST);
    }
    let mut inventory = host.inventory();
    for n in 0..1_000 {
        inventory.handle(&payment_event(&host, &path(n), Some(1_000 + n)));
    }
    assert_eq!(paths(&inventory).len(), MOST_HOST_CGROUPS);
    assert!(!inventory.has_room_for_hosts());
    let changes = inventory.forget_hosts(&[host.id("/job0"), host.id("/job1")]);
    assert_eq!(changes.len(), 2);
    let before = inventory.fs.operations();
    assert_eq!(
        inventory
            .handle(&payment_event(&host, "/job999", Some(1_999)))
            .len(),
        1
    );
    assert!(inventory.fs.operations() - before < 5);
}

#[test]
fn the_time_of_a_cgroup_is_its_own_tasks_time() {
    let host = FakeHost::new(false);
    host.process("/", 2, HOST);
    host.process("/a", 100, HOST);
    host.process("/b/c", 101, HOST);
    let stat = |path: &str, us: u64| {
        host.write(
            &format!("/sys/fs/cgroup{path}/cpu.stat"),
            &format!("usage_usec {us}\n"),
        );
    };
    stat("", 10_000);
    stat("/a", 4_000);
    stat("/b", 3_000);
    stat("/b/c", 2_500);
    let mut inventory = host.inventory();
    for (path, ns) in [("/", 3_000_000), ("/a", 4_000_000), ("/b", 500_000)] {
        inventory.handle(&payment_event(&host, path, None));
        let found = inventory
            .host_cgroups()
            .find(|c| c.cgroup_path == Path::new(path));
        let container = found.cloned().expect("it pays");
        assert_eq!(inventory.cpu_usage_ns(&container).unwrap(), ns, "{path}");
    }
}

/// A job is started a thousand times, each time in a new cgroup at the same path.
///
/// Promise 7.
#[test]
fn a_cgroup_that_is_made_a_thousand_times_leaves_nothing() {
    let host = FakeHost::new(false);
    let mut inventory = host.inventory();
    let (mut added, mut removed) = (0, 0);
    let mut ids = std::collections::HashSet::new();
    for pid in 1_000..2_000 {
        host.process("/job", pid, HOST);
        let cgroup = host.id("/job");
        ids.insert(cgroup);
        // Every second one is removed before any event of it is handled.
        if pid % 2 == 0 {
            inventory.handle(&created(&host, "/job"));
            added += inventory
                .handle(&payment_event(&host, "/job", Some(pid)))
                .len();
        }
        host.end_process(pid);
        host.remove_cgroup("/job");
        removed += inventory
            .handle(&KernelEvent::CgroupRemoved { cgroup })
            .len();
        let late = KernelEvent::UnknownCgroup {
            cgroup,
            pid: Some(pid),
        };
        assert_eq!(inventory.handle(&late), []);
    }
    assert!(!ids.is_empty());
    assert_eq!((added, removed), (500, 500));
    assert!(paths(&inventory).is_empty());
    assert_eq!(inventory.tree.top_down().len(), 1, "the root alone");
}
