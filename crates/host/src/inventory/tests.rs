mod fake;
mod histories;
mod hosts;
mod introduced;
mod named;
mod nested;

use super::*;
use crate::links::{InnerLink, Inside, LinkEvent, PeerSpace};
use crate::netlink::LinkMessage;
use cofferdam_types::{IfIndex, KernelEvent};
use fake::{FakeHost, HOST, hex_id};

fn created(host: &FakeHost, path: &str) -> KernelEvent {
    KernelEvent::CgroupCreated {
        cgroup: host.id(path),
        path: path.into(),
    }
}

fn seen(host: &FakeHost, path: &str, netns: u32, pid: u32) -> KernelEvent {
    KernelEvent::ProcessSeen {
        cgroup: host.id(path),
        netns: NetnsId(netns),
        pid,
    }
}

fn by_path<'a>(inventory: &'a Inventory, path: &str) -> Option<&'a Arc<Container>> {
    inventory
        .containers()
        .find(|c| c.cgroup_path == Path::new(path))
}

fn selectors(texts: &[&str]) -> Vec<Selector> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn only(changes: Vec<ContainerChange>) -> ContainerChange {
    let mut changes = changes;
    assert_eq!(changes.len(), 1, "{changes:?}");
    changes.remove(0)
}

/// Promise 7.
#[test]
fn podman_in_both_layouts_and_both_drivers() {
    let id = hex_id(1);
    for hybrid in [false, true] {
        for path in [
            format!("/machine.slice/libpod-{id}.scope"),
            format!("/libpod_parent/libpod-{id}"),
            format!("/system.slice/web.service/libpod-payload-{id}"),
        ] {
            let host = FakeHost::new(hybrid);
            host.write(
                "/var/lib/containers/storage/overlay-containers/containers.json",
                &format!(r#"[{{"id":"{id}","names":["web-1"]}}]"#),
            );
            host.process(&format!("{path}/container"), 100, 7);
            host.process(
                &format!("/machine.slice/libpod-conmon-{id}.scope"),
                99,
                HOST,
            );
            let inventory = host.inventory();
            let container = by_path(&inventory, &path).expect("a container");
            assert_eq!(inventory.containers().count(), 1);
            assert_eq!(container.name, "web-1");
            assert_eq!(container.runtime, Runtime::Podman);
            assert_eq!(container.netns, Some(NetnsId(7)));
            assert_eq!(
                container.descendants,
                [host.id(&format!("{path}/container"))]
            );
        }
    }
}

#[test]
fn rootless_podman_has_its_name_in_the_users_home() {
    let host = FakeHost::new(false);
    let id = hex_id(2);
    host.write(
        "/etc/passwd",
        "root:x:0:0::/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\n",
    );
    host.write(
        "/home/ann/.local/share/containers/storage/overlay-containers/containers.json",
        &format!(r#"[{{"id":"{id}","names":["mine"]}}]"#),
    );
    let path =
        format!("/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-{id}.scope");
    host.process(&format!("{path}/container"), 100, 7);
    assert_eq!(by_path(&host.inventory(), &path).unwrap().name, "mine");
}

/// Promise 7.
#[test]
fn kubernetes_in_both_drivers() {
    let (app, pause) = (hex_id(3), hex_id(4));
    let uid = "0e3f6f6c-1111-2222-3333-444455556666";
    let slice = format!(
        "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{}.slice",
        uid.replace('-', "_")
    );
    let config = |kind: &str| {
        format!(
            r#"{{"annotations":{{"io.kubernetes.cri.container-type":"{kind}",
            "io.kubernetes.cri.container-name":"nginx","io.kubernetes.cri.sandbox-name":"web",
            "io.kubernetes.cri.sandbox-namespace":"shop"}}}}"#
        )
    };
    for (app_path, pause_path) in [
        (
            format!("{slice}/cri-containerd-{app}.scope"),
            format!("{slice}/cri-containerd-{pause}.scope"),
        ),
        (
            format!("/kubepods/burstable/pod{uid}/{app}"),
            format!("/kubepods/burstable/pod{uid}/{pause}"),
        ),
    ] {
        let host = FakeHost::new(false);
        let tasks = "/run/containerd/io.containerd.runtime.v2.task/k8s.io";
        host.write(&format!("{tasks}/{app}/config.json"), &config("container"));
        host.process(&app_path, 100, 7);
        host.process(&pause_path, 101, 7);
        let inventory = host.inventory();
        let container = by_path(&inventory, &app_path).unwrap();
        assert_eq!(
            (container.name.as_str(), container.pod.as_deref()),
            ("nginx", Some("shop/web"))
        );
        assert_eq!(container.runtime, Runtime::Containerd);
        // Without readable state: the short id, and the pod's UID.
        let other = by_path(&inventory, &pause_path).unwrap();
        assert_eq!(other.name, format!("containerd-{}", &pause[..12]));
        assert_eq!(other.pod.as_deref(), Some(uid));
        assert_eq!(other.netns, container.netns);
        // Only the containers: neither the slices nor the pod.
        assert_eq!(inventory.containers().count(), 2);
    }
}

/// Promise 7.
#[test]
fn a_task_of_ctr_is_known_by_containerds_own_directory() {
    let host = FakeHost::new(true);
    let tasks = "/run/containerd/io.containerd.runtime.v2.task";
    host.write(&format!("{tasks}/default/web-1/config.json"), "{}");
    host.process("/default/web-1", 100, 7);
    // A path of the same form that containerd does not know.
    host.process("/default/other", 101, 8);
    let inventory = host.inventory();
    let task = by_path(&inventory, "/default/web-1").expect("a container");
    assert_eq!(task.runtime, Runtime::Containerd);
    assert_eq!(task.name, "web-1");
    assert_eq!(task.id.as_deref(), Some("web-1"));
    let other = by_path(&inventory, "/default/other").expect("a container");
    assert_eq!(other.runtime, Runtime::Plain);
}

/// Promise 7.
#[test]
fn docker_crio_and_nspawn() {
    let host = FakeHost::new(true);
    let (docker, plain, crio) = (hex_id(5), hex_id(6), hex_id(7));
    let config = format!("/var/lib/docker/containers/{docker}/config.v2.json");
    host.write(&config, r#"{"Name":"/db-1"}"#);
    host.write(
        &format!("/run/containers/storage/overlay-containers/{crio}/userdata/config.json"),
        r#"{"annotations":{"io.kubernetes.container.name":"api","io.kubernetes.pod.name":"p",
            "io.kubernetes.pod.namespace":"n"}}"#,
    );
    host.process(&format!("/system.slice/docker-{docker}.scope"), 100, 7);
    host.process(&format!("/docker/{plain}"), 101, HOST);
    host.process(&format!("/kubepods.slice/crio-{crio}.scope"), 102, 8);
    host.process(&format!("/kubepods.slice/crio-conmon-{crio}.scope"), 103, 8);
    host.process(r"/machine.slice/machine-old\x2dbox.scope/payload", 104, 9);
    host.process(
        "/machine.slice/systemd-nspawn@tree.service/payload",
        105,
        10,
    );
    host.process("/lxc.payload.deb/init.scope", 106, 11);
    host.process("/lxc.monitor.deb", 107, HOST);
    let inventory = host.inventory();
    let mut found: Vec<_> = inventory
        .containers()
        .map(|c| (c.name.clone(), c.runtime, c.host_network))
        .collect();
    found.sort();
    let short = format!("docker-{}", &plain[..12]);
    assert_eq!(
        found,
        [
            ("api".to_owned(), Runtime::Crio, false),
            ("db-1".to_owned(), Runtime::Docker, false),
            ("deb".to_owned(), Runtime::Plain, false),
            (short, Runtime::Docker, true),
            ("old-box".to_owned(), Runtime::Nspawn, false),
            ("tree".to_owned(), Runtime::Nspawn, false),
        ]
    );
}

#[test]
fn the_highest_plain_cgroup_of_a_namespace_is_the_container() {
    let host = FakeHost::new(false);
    host.process("/tenants/a", 100, 7);
    host.process("/tenants/a/sub", 101, 7);
    host.process("/tenants/a/other", 102, 8);
    host.process("/tenants/b/deep", 103, 9);
    host.process("/system.slice/ssh.service", 104, HOST);
    host.process("/", 105, 10);
    let inventory = host.inventory();
    let paths: Vec<_> = inventory
        .containers()
        .map(|c| c.cgroup_path.to_str().unwrap().to_owned())
        .collect();
    // The root is never a container.
    let mut expected = ["/tenants/a", "/tenants/a/other", "/tenants/b/deep"];
    expected.sort_by_key(|p| host.id(p));
    assert_eq!(paths, expected);
    assert_eq!(
        by_path(&inventory, "/tenants/a").unwrap().descendants,
        [host.id("/tenants/a/sub")]
    );
    assert_eq!(
        inventory
            .container_of(host.id("/tenants/a/sub"))
            .unwrap()
            .name,
        "a"
    );
}

#[test]
fn a_parent_that_comes_later_takes_its_children_over() {
    let host = FakeHost::new(false);
    let mut inventory = host.inventory();
    host.process("/t/child", 100, 7);
    let change = only(inventory.handle(&seen(&host, "/t/child", 7, 100)));
    assert!(matches!(change, ContainerChange::Added(c) if c.name == "child"));
    host.process("/t", 101, 7);
    let changes = inventory.handle(&seen(&host, "/t", 7, 101));
    assert!(
        matches!(&changes[..], [ContainerChange::Removed(c), ContainerChange::Added(t)]
        if c.name == "child" && t.name == "t" && t.descendants == [host.id("/t/child")])
    );
}

#[test]
fn a_session_with_processes_on_the_host_waits_for_packets() {
    let host = FakeHost::new(false);
    let mut inventory = host.inventory();
    host.process("/user.slice/session-1.scope", 100, HOST);
    host.process("/user.slice/session-1.scope", 101, 7);
    // `ip netns exec` for a moment: not a container.
    assert_eq!(
        inventory.handle(&seen(&host, "/user.slice/session-1.scope", 7, 101)),
        []
    );
    let change = only(inventory.handle(&KernelEvent::UnknownNetns { netns: NetnsId(7) }));
    assert!(matches!(change, ContainerChange::Added(c) if c.name == "session-1.scope"));
    // A container with a better claim: the session loses the namespace.
    host.process("/tenants/web", 102, 7);
    let changes = inventory.handle(&seen(&host, "/tenants/web", 7, 102));
    assert!(
        matches!(&changes[..], [ContainerChange::Removed(s), ContainerChange::Added(w)]
        if s.name == "session-1.scope" && w.name == "web")
    );
}

/// A worker is moved into its cgroup, and then enters a namespace without executing a program,
/// after the namespace's devices have sent their first packets.
#[test]
fn a_namespace_without_a_process_is_looked_for_again() {
    let host = FakeHost::new(false);
    let mut inventory = host.inventory();
    let unknown = KernelEvent::UnknownNetns { netns: NetnsId(7) };
    assert_eq!(inventory.handle(&unknown), []);
    host.process("/worker", 100, HOST);
    assert_eq!(inventory.handle(&seen(&host, "/worker", HOST, 100)), []);
    host.move_process(100, 7);
    let before = inventory.fs.operations();
    assert_eq!(inventory.handle_links(), []);
    assert_eq!(inventory.handle(&unknown), []);
    assert_eq!(inventory.fs.operations(), before, "not before its time");
    inventory.claims.next_search = Some(std::time::Instant::now());
    let change = only(inventory.handle_links());
    assert!(matches!(change, ContainerChange::Added(c) if c.name == "worker"));
    // The search is over once the process is found.
    assert_eq!(inventory.handle(&unknown), []);
    inventory.claims.next_search = Some(std::time::Instant::now());
    inventory.handle_links();
    assert_eq!(inventory.claims.next_search, None);
}

#[test]
fn a_search_is_given_up() {
    let host = FakeHost::new(false);
    let mut inventory = host.inventory();
    inventory.handle(&KernelEvent::UnknownNetns { netns: NetnsId(7) });
    let mut passes = 1;
    while inventory.claims.next_search.is_some() {
        inventory.claims.next_search = Some(std::time::Instant::now());
        inventory.handle_links();
        passes += 1;
    }
    assert_eq!(passes, 10);
}

#[test]
fn entering_a_containers_namespace_makes_no_container() {
    let host = FakeHost::new(false);
    let path = format!("/system.slice/docker-{}.scope", hex_id(8));
    host.process(&path, 100, 7);
    host.process("/system.slice/kubelet.service", 102, HOST);
    let mut inventory = host.inventory();
    host.process("/system.slice/kubelet.service", 101, 7);
    assert_eq!(
        inventory.handle(&seen(&host, "/system.slice/kubelet.service", 7, 101)),
        []
    );
}

#[test]
fn a_container_follows_its_processes_into_another_namespace() {
    let host = FakeHost::new(false);
    host.process("/web", 100, 7);
    let mut inventory = host.inventory();
    host.process("/web", 101, 8);
    // The first process is still there: the second namespace is a further one.
    let change = only(inventory.handle(&seen(&host, "/web", 8, 101)));
    assert!(matches!(change, ContainerChange::Changed(c)
        if c.netns == Some(NetnsId(7)) && c.further_netns == [NetnsId(8)]));
    host.end_process(100);
    let change = only(inventory.handle(&seen(&host, "/web", 8, 101)));
    assert!(matches!(change, ContainerChange::Changed(c)
        if c.netns == Some(NetnsId(8)) && c.further_netns.is_empty()));
}

#[test]
fn events_about_what_is_gone_are_harmless() {
    let host = FakeHost::new(true);
    let mut inventory = host.inventory();
    let removed = CgroupId(u64::MAX);
    let pid = u32::MAX;
    for event in [
        KernelEvent::CgroupRemoved { cgroup: removed },
        KernelEvent::CgroupCreated {
            cgroup: removed,
            path: "/was/here".into(),
        },
        KernelEvent::ProcessSeen {
            cgroup: removed,
            netns: NetnsId(7),
            pid,
        },
        KernelEvent::ProcessSeen {
            cgroup: CgroupId(5),
            netns: NetnsId(7),
            pid,
        },
        KernelEvent::UnknownNetns { netns: NetnsId(7) },
        KernelEvent::UnknownNetns {
            netns: NetnsId(HOST),
        },
        KernelEvent::Lost { count: 3 },
    ] {
        assert_eq!(inventory.handle(&event), [], "{event:?}");
    }
    // A runtime's cgroup whose directory is removed before the event is handled: it comes and goes.
    let path = format!("/docker-{}.scope", hex_id(9));
    let event = KernelEvent::CgroupCreated {
        cgroup: removed,
        path: path.into(),
    };
    assert!(matches!(
        only(inventory.handle(&event)),
        ContainerChange::Added(_)
    ));
    let event = KernelEvent::CgroupRemoved { cgroup: removed };
    assert!(matches!(
        only(inventory.handle(&event)),
        ContainerChange::Removed(_)
    ));
}

#[test]
fn lost_events_are_made_up_for() {
    let host = FakeHost::new(false);
    let id = hex_id(10);
    let path = format!("/system.slice/docker-{id}.scope");
    host.process(&path, 100, 7);
    host.process("/plain", 101, 8);
    let mut inventory = host.inventory();
    assert_eq!(inventory.handle(&KernelEvent::Lost { count: 1 }), []);
    host.end_process(100);
    host.remove_cgroup(&path);
    host.end_process(101);
    host.process("/fresh", 102, 9);
    let changes = inventory.handle(&KernelEvent::Lost { count: 1 });
    let mut words: Vec<String> = changes
        .iter()
        .map(|change| match change {
            ContainerChange::Added(c) => format!("+{}", c.cgroup_path.display()),
            ContainerChange::Changed(c) => format!("~{}", c.cgroup_path.display()),
            ContainerChange::Removed(c) => format!("-{}", c.cgroup_path.display()),
        })
        .collect();
    words.sort();
    assert_eq!(
        words,
        [
            "+/fresh".to_owned(),
            "-/plain".to_owned(),
            format!("-{path}")
        ]
    );
}

#[test]
fn device_events_reach_the_right_container() {
    let host = FakeHost::new(false);
    host.process("/web", 100, 7);
    let eth0 = LinkMessage {
        index: 2,
        name: "eth0".into(),
        kind: "veth".into(),
        peer: Some(30),
        peer_nsid: Some(0),
        ..LinkMessage::default()
    };
    let veth = LinkMessage {
        index: 30,
        name: "veth30".into(),
        kind: "veth".into(),
        peer: Some(2),
        peer_nsid: Some(4),
        ..LinkMessage::default()
    };
    let inner = InnerLink {
        link: eth0.clone(),
        peer_space: PeerSpace::Host,
    };
    let inside = Inside {
        nsid: Some(4),
        links: vec![inner],
    };
    host.network().inside.insert(NetnsId(7), inside);
    host.network().host.push(veth.clone());
    let mut inventory = host.inventory();
    let pair = &by_path(&inventory, "/web").unwrap().interfaces[0];
    assert_eq!(pair.host_name.as_deref(), Some("veth30"));
    assert_eq!(pair.host_ifindex, Some(IfIndex(30)));
    assert_eq!(pair.host_netns, Some(NetnsId(HOST)));

    // A repeated message costs no visit.
    let visits = host.network().visits;
    host.network().events.push(LinkEvent::Link {
        nsid: None,
        link: LinkMessage {
            up: true,
            ..veth.clone()
        },
    });
    host.network().events.push(LinkEvent::Link {
        nsid: Some(4),
        link: LinkMessage { up: true, ..eth0 },
    });
    assert_eq!(inventory.handle_links(), []);
    assert_eq!(host.network().visits, visits);

    let renamed = LinkMessage {
        name: "uplink".into(),
        ..veth.clone()
    };
    host.network().events.push(LinkEvent::Link {
        nsid: None,
        link: renamed,
    });
    let change = only(inventory.handle_links());
    assert!(matches!(change, ContainerChange::Changed(c)
        if c.interfaces[0].host_name.as_deref() == Some("uplink")));

    host.network().inside.insert(
        NetnsId(7),
        Inside {
            nsid: Some(4),
            links: vec![],
        },
    );
    host.network().events.push(LinkEvent::Link {
        nsid: None,
        link: LinkMessage {
            removed: true,
            ..veth
        },
    });
    let change = only(inventory.handle_links());
    assert!(matches!(change, ContainerChange::Changed(c) if c.interfaces.is_empty()));
    // After lost messages everything is queried again.
    host.network().events.push(LinkEvent::Lost);
    assert_eq!(inventory.handle_links(), []);
}

/// Number of containers of a full host.
const MANY: u32 = 1_000;

/// With a thousand containers, an event costs the same as with one.
///
/// Promise 8.
#[test]
fn an_event_costs_the_same_with_a_thousand_containers() {
    let work = |containers: u32| {
        let host = FakeHost::new(false);
        for n in 0..containers {
            host.process(
                &format!("/machine.slice/libpod-{}.scope", hex_id(n.into())),
                1000 + n,
                7 + n,
            );
        }
        let mut inventory = host.inventory();
        assert_eq!(inventory.containers().count(), containers as usize);
        let path = "/system.slice/fresh.service/deep/er";
        host.process(path, 500, 5);
        let visits = host.network().visits;
        let before = inventory.fs.operations();
        assert_eq!(inventory.handle(&created(&host, path)), []);
        // The process has entered its own namespace in the meantime.
        let added = inventory.handle(&seen(&host, path, HOST, 500));
        assert!(matches!(only(added), ContainerChange::Added(_)));
        assert_eq!(inventory.handle(&seen(&host, path, 5, 500)), []);
        let podman = format!("/machine.slice/libpod-{}.scope", hex_id(0));
        assert_eq!(inventory.handle(&seen(&host, &podman, 7, 1000)), []);
        let sub = format!("{podman}/sub");
        host.cgroup(&sub);
        assert_eq!(inventory.handle(&created(&host, &sub)).len(), 1);
        let removed = KernelEvent::CgroupRemoved {
            cgroup: host.id(path),
        };
        assert_eq!(inventory.handle(&removed).len(), 1);
        (
            inventory.fs.operations() - before,
            host.network().visits - visits,
        )
    };
    let (few, many) = (work(1), work(MANY));
    assert_eq!(few, many);
    assert!(many.0 < 20, "{} file operations for six events", many.0);
    assert_eq!(many.1, 1, "one visit, to the new namespace");
}
