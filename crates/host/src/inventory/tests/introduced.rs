//! Containers with runtime records.

use super::*;

fn introduction(id: &str, path: Option<&str>) -> Introduction {
    Introduction {
        id: id.to_owned(),
        name: "app".to_owned(),
        pod: Some("shop/web".to_owned()),
        cgroup_path: path.map(Into::into),
    }
}

fn bundle(host: &FakeHost, id: &str) {
    let task = format!("/run/containerd/io.containerd.runtime.v2.task/k8s.io/{id}/config.json");
    let text = r#"{"annotations": {"io.kubernetes.cri.container-name": "from-a-file"}}"#;
    host.write(&task, text);
}

/// Promise 39.
#[test]
fn a_name_that_the_runtime_says_needs_no_file() {
    let (host, id) = (FakeHost::new(true), hex_id(1));
    bundle(&host, &id);
    let mut inventory = host.inventory();
    let changes = inventory.introduce(vec![introduction(&id, None)]);
    assert!(changes.is_empty(), "there is no cgroup of it yet");
    let path = format!("/kubepods/pod00000001-0000-4000-8000-000000000000/{id}");
    host.process(&path, 100, 7);
    inventory.handle(&created(&host, &path));
    let container = by_path(&inventory, &path).unwrap();
    assert_eq!(
        (container.name.as_str(), container.pod.as_deref()),
        ("app", Some("shop/web"))
    );
}

/// Promise 39.
#[test]
fn one_that_was_found_before_is_renamed() {
    let (host, id) = (FakeHost::new(true), hex_id(1));
    let path = format!("/kubepods/pod00000001-0000-4000-8000-000000000000/{id}");
    bundle(&host, &id);
    host.process(&path, 100, 7);
    let mut inventory = host.inventory();
    assert_eq!(by_path(&inventory, &path).unwrap().name, "from-a-file");
    let changes = inventory.introduce(vec![introduction(&id, None)]);
    assert!(matches!(only(changes), ContainerChange::Changed(c) if c.name == "app"));
}

/// The record comes before or after the cgroup, which may have any form.
///
/// Promise 39.
#[test]
fn the_cgroup_of_a_record_is_a_container() {
    let (host, id) = (FakeHost::new(true), "anything".to_owned());
    let path = format!("/some/where/{id}");
    host.process(&path, 100, HOST);
    let mut inventory = host.inventory();
    assert!(by_path(&inventory, &path).is_none());
    inventory.introduce(vec![introduction(&id, Some(&path))]);
    let container = by_path(&inventory, &path).unwrap();
    assert_eq!(
        (container.name.as_str(), container.host_network),
        ("app", true)
    );
    assert_eq!(container.id.as_deref(), Some("anything"));
    let later = format!("/some/where/else/{}", hex_id(9));
    inventory.introduce(vec![introduction(&hex_id(9), None)]);
    host.process(&later, 101, 7);
    inventory.handle(&created(&host, &later));
    assert_eq!(by_path(&inventory, &later).unwrap().name, "app");
}

/// Promise 39.
#[test]
fn files_are_read_only_while_nobody_says_better() {
    let (host, id) = (FakeHost::new(true), hex_id(1));
    let path = format!("/kubepods/pod00000001-0000-4000-8000-000000000000/{id}");
    bundle(&host, &id);
    let mut inventory = host.inventory();
    assert!(inventory.read_runtime_files(false).is_empty());
    host.process(&path, 100, 7);
    inventory.handle(&created(&host, &path));
    assert!(
        by_path(&inventory, &path)
            .unwrap()
            .name
            .starts_with("containerd-")
    );
    let found = inventory.read_runtime_files(true);
    assert!(matches!(only(found), ContainerChange::Changed(c) if c.name == "from-a-file"));
    assert!(inventory.read_runtime_files(true).is_empty());
}

#[test]
fn a_name_that_is_none_is_not_shown() {
    let (host, id) = (FakeHost::new(true), hex_id(1));
    let mut inventory = host.inventory();
    let mut bad = introduction(&id, None);
    bad.name = "a\u{1b}[2J".to_owned();
    inventory.introduce(vec![bad]);
    let path = format!("/kubepods/pod00000001-0000-4000-8000-000000000000/{id}");
    host.process(&path, 100, 7);
    inventory.handle(&created(&host, &path));
    assert!(
        by_path(&inventory, &path)
            .unwrap()
            .name
            .starts_with("containerd-")
    );
}

/// A runtime may use the same id again for another pod.
///
/// Promise 39.
#[test]
fn an_id_refers_to_the_present_container() {
    let (host, id) = (FakeHost::new(true), hex_id(1));
    let path = |pod: u32| format!("/kubepods/pod0000000{pod}-0000-4000-8000-000000000000/{id}");
    let mut inventory = host.inventory();
    for pod in 1..4 {
        host.process(&path(pod), 100 + pod, 7);
        inventory.handle(&created(&host, &path(pod)));
        let changes = inventory.introduce(vec![introduction(&id, None)]);
        let name = by_path(&inventory, &path(pod)).unwrap().name.clone();
        assert_eq!(name, "app", "{changes:?}");
        let cgroup = host.id(&path(pod));
        inventory.handle(&KernelEvent::CgroupRemoved { cgroup });
        assert!(inventory.with_id(&id).is_none());
        inventory.forget_introduced(&id);
    }
    assert!(inventory.by_id.is_empty());
}
