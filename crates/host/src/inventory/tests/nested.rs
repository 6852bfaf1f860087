//! Containers with processes in several network namespaces, and namespaces with several containers.

use super::fake::{FakeHost, HOST, hex_id};
use super::{by_path, seen};
use crate::inventory::Inventory;
use cofferdam_types::Container;

fn spaces(container: &Container) -> (Option<u32>, Vec<u32>) {
    let further = container.further_netns.iter().map(|n| n.0).collect();
    (container.netns.map(|n| n.0), further)
}

/// Makes two inventories: one that saw `pid` enter `netns` in `path`, and one that scans now.
fn live_and_fresh(
    host: &FakeHost,
    live: Inventory,
    path: &str,
    netns: u32,
    pid: u32,
) -> [Inventory; 2] {
    let mut live = live;
    live.handle(&seen(host, path, netns, pid));
    [live, host.inventory()]
}

/// Promise 7.
#[test]
fn a_sandbox_does_not_take_its_containers_namespace() {
    for path in [
        format!("/docker/{}", hex_id(1)),
        "/tenants/plain".to_owned(),
        "/lxc.payload.box".to_owned(),
    ] {
        let host = FakeHost::new(false);
        // The further namespace has the lower number.
        host.process(&path, 100, 9);
        let live = host.inventory();
        host.process(&path, 101, 5);
        for inventory in live_and_fresh(&host, live, &path, 5, 101) {
            let container = by_path(&inventory, &path).unwrap();
            assert_eq!(spaces(container), (Some(9), vec![5]), "{path}");
        }
    }
}

/// Promise 7.
#[test]
fn a_sandbox_in_a_cgroup_below_is_the_runtimes_containers() {
    let host = FakeHost::new(false);
    let path = format!("/docker/{}", hex_id(1));
    let below = format!("{path}/inner");
    host.process(&path, 100, 9);
    let live = host.inventory();
    host.process(&below, 101, 5);
    for inventory in live_and_fresh(&host, live, &below, 5, 101) {
        assert_eq!(
            spaces(by_path(&inventory, &path).unwrap()),
            (Some(9), vec![5])
        );
        assert!(by_path(&inventory, &below).is_none());
    }
}

/// Promise 7.
#[test]
fn a_host_network_container_stays_one_beside_its_sandbox() {
    let host = FakeHost::new(false);
    let path = format!("/docker/{}", hex_id(1));
    host.process(&path, 100, HOST);
    host.set_pid_namespace(100, 77);
    let live = host.inventory();
    host.process(&path, 101, 5);
    host.set_pid_namespace(101, 77);
    for inventory in live_and_fresh(&host, live, &path, 5, 101) {
        let container = by_path(&inventory, &path).unwrap();
        assert_eq!(spaces(container), (Some(HOST), vec![5]));
        assert!(container.host_network);
    }
}

/// Promise 7.
#[test]
fn a_supervisor_on_the_host_is_not_its_containers_init() {
    let host = FakeHost::new(false);
    let unit = "/machine.slice/systemd-nspawn@web.service";
    host.process(&format!("{unit}/supervisor"), 100, HOST);
    let live = host.inventory();
    let payload = format!("{unit}/payload");
    host.process(&payload, 101, 5);
    host.set_pid_namespace(101, 77);
    for inventory in live_and_fresh(&host, live, &payload, 5, 101) {
        assert_eq!(
            spaces(by_path(&inventory, unit).unwrap()),
            (Some(5), vec![])
        );
    }
}

/// Nomad: a container of docker's has the namespace, and a task of another driver joins it.
///
/// Promise 7.
#[test]
fn a_task_shares_the_namespace_that_a_pause_container_holds() {
    let host = FakeHost::new(false);
    let pause = format!("/docker/{}", hex_id(1));
    let task = "/nomad.slice/share.slice/5bb9fbf7.web.scope";
    host.process(&pause, 100, 5);
    let live = host.inventory();
    host.process(task, 101, 5);
    for inventory in live_and_fresh(&host, live, task, 5, 101) {
        for path in [pause.as_str(), task] {
            assert_eq!(
                spaces(by_path(&inventory, path).unwrap()),
                (Some(5), vec![])
            );
        }
    }
}

/// Promise 7.
#[test]
fn a_namespace_that_another_container_takes_is_no_further_one() {
    let host = FakeHost::new(false);
    let (first, second) = (
        format!("/docker/{}", hex_id(1)),
        format!("/docker/{}", hex_id(2)),
    );
    host.process(&first, 100, 9);
    host.process(&first, 101, 5);
    let live = host.inventory();
    host.process(&second, 102, 5);
    for inventory in live_and_fresh(&host, live, &second, 5, 102) {
        assert_eq!(
            spaces(by_path(&inventory, &first).unwrap()),
            (Some(9), vec![])
        );
        assert_eq!(
            spaces(by_path(&inventory, &second).unwrap()),
            (Some(5), vec![])
        );
    }
}

#[test]
fn a_plain_container_ends_with_its_last_process() {
    let host = FakeHost::new(false);
    host.process("/tenants/a", 100, 5);
    let mut inventory = host.inventory();
    host.end_process(100);
    inventory.review_all();
    inventory.handle_links();
    assert!(by_path(&inventory, "/tenants/a").is_none());
}
