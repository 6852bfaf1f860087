//! Cgroups that a rule names, as containers.

use super::*;

/// The processes of the named cgroup are in the host's namespace.
///
/// Promise 7.
#[test]
fn a_named_cgroup_is_a_container() {
    let host = FakeHost::new(false);
    host.process("/bar1/worker", 100, HOST);
    host.process("/other", 101, HOST);
    let mut inventory = host.inventory();
    assert_eq!(inventory.containers().count(), 0);

    let change = only(inventory.name(&selectors(&["cgroup:/bar*", "web-*"])));
    let ContainerChange::Added(bar) = change else {
        panic!("{change:?}")
    };
    assert_eq!(bar.cgroup_path, Path::new("/bar1"));
    assert!(bar.host_network);
    assert_eq!(bar.descendants, [host.id("/bar1/worker")]);
    assert!(inventory.name(&selectors(&["cgroup:/bar*"])).is_empty());

    // Another one is made later, and discovered with its first process.
    host.process("/bar2", 102, HOST);
    assert!(inventory.handle(&created(&host, "/bar2")).is_empty());
    let change = only(inventory.handle(&seen(&host, "/bar2", HOST, 102)));
    assert!(matches!(change, ContainerChange::Added(_)), "{change:?}");

    // The rule of one is removed.
    let changes = inventory.name(&selectors(&["cgroup:/bar2"]));
    assert!(matches!(only(changes), ContainerChange::Removed(c) if c.cgroup == bar.cgroup));
    assert_eq!(inventory.name(&[]).len(), 1);
    assert_eq!(inventory.containers().count(), 0);
}

/// A double star names no cgroup either.
///
/// Promise 7.
#[test]
fn a_name_splits_no_container_of_a_runtime() {
    let host = FakeHost::new(false);
    let path = format!("/machine.slice/libpod-{}.scope", hex_id(1));
    host.process(&format!("{path}/container"), 100, 7);
    host.process("/bar", 101, HOST);
    let mut inventory = host.inventory();
    let named = format!("cgroup:{path}/container");
    assert!(
        inventory
            .name(&selectors(&[&named, "cgroup:/**"]))
            .is_empty()
    );
    assert_eq!(inventory.containers().count(), 1);
}
