//! Real cgroups, network namespaces and devices of this host. Needs root.
#![allow(
    clippy::unwrap_used,
    reason = "a fixture that cannot be made is a failed test"
)]

use cofferdam_host::{HostFs, Inventory, resolve};
use cofferdam_lab::fixtures::{Cgroup, FakeContainer, Host, Namespace, Net, VethPair};
use cofferdam_lab::fixtures::{macvlan, run, time_limit, unique_link, wait_until};
use cofferdam_types::{
    CgroupId, Container, ContainerChange, IfIndex, InterfacePair, KernelEvent, NetnsId, Runtime,
    Selector,
};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

fn find(inventory: &Inventory, cgroup: &Cgroup) -> Option<Arc<Container>> {
    inventory
        .containers()
        .find(|c| c.cgroup.0 == cgroup.id())
        .cloned()
}

fn created(cgroup: &Cgroup) -> KernelEvent {
    KernelEvent::CgroupCreated {
        cgroup: CgroupId(cgroup.id()),
        path: cgroup.path().to_owned(),
    }
}

fn seen(cgroup: &Cgroup, netns: NetnsId, pid: u32) -> KernelEvent {
    KernelEvent::ProcessSeen {
        cgroup: CgroupId(cgroup.id()),
        netns,
        pid,
    }
}

fn netns(of: &Namespace) -> NetnsId {
    NetnsId(of.inode().try_into().unwrap())
}

fn index(net: &dyn Net, device: &str) -> IfIndex {
    let text = net.sh(&format!("cat /sys/class/net/{device}/ifindex"));
    IfIndex(text.trim().parse().unwrap())
}

/// Returns the changes to one cgroup and those below it; other tests change others at the same
/// time.
fn ours(changes: Vec<ContainerChange>, path: &Path) -> Vec<ContainerChange> {
    use ContainerChange::{Added, Changed, Removed};
    let here = |change: &ContainerChange| {
        let (Added(c) | Changed(c) | Removed(c)) = change;
        c.cgroup_path.starts_with(path)
    };
    changes.into_iter().filter(here).collect()
}

fn one(changes: Vec<ContainerChange>, path: &Path) -> ContainerChange {
    let mut changes = ours(changes, path);
    assert_eq!(changes.len(), 1, "{changes:?}");
    changes.remove(0)
}

/// Promise 7.
#[test]
fn scan_finds_a_plain_container_with_its_pair() {
    time_limit(LIMIT, || {
        let fake = FakeContainer::new("plain");
        let outer = unique_link();
        let _pair = VethPair::new((&Host, &outer), (&fake, "eth0"));
        let inventory = Inventory::scan().unwrap();
        let container = find(&inventory, fake.cgroup()).expect("found by its namespace");
        assert_eq!(container.name, fake.name());
        assert_eq!(container.runtime, Runtime::Plain);
        assert_eq!(container.netns, Some(netns(fake.namespace())));
        assert_eq!(container.pid, Some(fake.pid()));
        assert!(!container.host_network);
        let pair = InterfacePair {
            host_ifindex: Some(index(&Host, &outer)),
            host_name: Some(outer),
            host_netns: Some(inventory.host_netns()),
            lower_netns: None,
            container_ifindex: index(&fake, "eth0"),
            container_name: Some("eth0".into()),
        };
        assert_eq!(container.interfaces, [pair]);
    });
}

/// Promise 8.
#[test]
fn events_follow_a_plain_container_from_birth_to_death() {
    time_limit(LIMIT, || {
        let mut inventory = Inventory::scan().unwrap();
        let fake = FakeContainer::new("life");
        let outer = unique_link();
        let _pair = VethPair::new((&Host, &outer), (&fake, "eth0"));
        let (cgroup, path) = (CgroupId(fake.id()), fake.cgroup_path().to_owned());
        assert_eq!(ours(inventory.handle(&created(fake.cgroup())), &path), []);
        // The process entered its cgroup before its namespace: the present namespace counts.
        let early = seen(fake.cgroup(), inventory.host_netns(), fake.pid());
        let ContainerChange::Added(container) = one(inventory.handle(&early), &path) else {
            panic!("not added")
        };
        let event = seen(fake.cgroup(), netns(fake.namespace()), fake.pid());
        assert_eq!(ours(inventory.handle(&event), &path), []);
        assert_eq!(container.interfaces.len(), 1);
        assert_eq!(container.interfaces[0].host_name, Some(outer));

        let below = fake.cgroup().child("inner");
        let below_id = CgroupId(below.id());
        let change = one(inventory.handle(&created(&below)), &path);
        assert!(matches!(change, ContainerChange::Changed(c) if c.descendants == [below_id]));
        drop(below);
        let event = KernelEvent::CgroupRemoved { cgroup: below_id };
        let change = one(inventory.handle(&event), &path);
        assert!(matches!(change, ContainerChange::Changed(c) if c.descendants.is_empty()));

        drop(fake);
        let change = one(
            inventory.handle(&KernelEvent::CgroupRemoved { cgroup }),
            &path,
        );
        assert!(matches!(change, ContainerChange::Removed(c) if c.cgroup == cgroup));
    });
}

#[test]
fn a_cgroup_unknown_so_far_is_found_through_its_process() {
    time_limit(LIMIT, || {
        let mut inventory = Inventory::scan().unwrap();
        let fake = FakeContainer::new("late");
        let path = fake.cgroup_path();
        let event = seen(fake.cgroup(), netns(fake.namespace()), fake.pid());
        let change = one(inventory.handle(&event), path);
        assert!(matches!(change, ContainerChange::Added(c) if c.cgroup_path == path));
        // A full scan after lost events finds nothing else.
        assert_eq!(
            ours(inventory.handle(&KernelEvent::Lost { count: 1 }), path),
            []
        );
    });
}

#[test]
fn packets_in_an_unknown_namespace_lead_to_its_cgroup() {
    time_limit(LIMIT, || {
        let mut inventory = Inventory::scan().unwrap();
        let fake = FakeContainer::new("quiet");
        inventory.handle(&created(fake.cgroup()));
        let event = KernelEvent::UnknownNetns {
            netns: netns(fake.namespace()),
        };
        let change = one(inventory.handle(&event), fake.cgroup_path());
        assert!(matches!(change, ContainerChange::Added(c) if c.cgroup.0 == fake.id()));
    });
}

/// Waits, as an agent does, until netlink events make `holds` true.
fn follow(
    inventory: &mut Inventory,
    cgroup: &Cgroup,
    what: &str,
    holds: impl Fn(&[InterfacePair]) -> bool,
) {
    wait_until(what, Duration::from_secs(20), || {
        let mut readable = [PollFd::new(inventory.link_fd(), PollFlags::POLLIN)];
        poll(&mut readable, PollTimeout::from(1000u16)).unwrap();
        ours(inventory.handle_links(), cgroup.path())
            .iter()
            .any(|change| matches!(change, ContainerChange::Changed(c) if holds(&c.interfaces)))
    });
}

/// Devices come, are renamed and go while the container runs.
///
/// Promise 8.
#[test]
fn netlink_reports_devices() {
    time_limit(LIMIT, || {
        let fake = FakeContainer::new("dev");
        let cgroup = fake.cgroup();
        let mut inventory = Inventory::scan().unwrap();
        assert_eq!(find(&inventory, cgroup).unwrap().interfaces, []);

        // The first device also gives the namespace the number by which events name it.
        let (outer, renamed) = (unique_link(), unique_link());
        let _pair = VethPair::new((&Host, &outer), (&fake, "eth0"));
        let named = |name: &str| {
            let name = name.to_owned();
            move |all: &[InterfacePair]| {
                all.len() == 1
                    && all[0].host_name.as_ref() == Some(&name)
                    && all[0].container_name.as_deref() == Some("eth0")
            }
        };
        follow(&mut inventory, cgroup, "a new pair", named(&outer));
        run(&["ip", "link", "set", &outer, "name", &renamed]);
        follow(
            &mut inventory,
            cgroup,
            "the name on the host",
            named(&renamed),
        );
        fake.run("ip link set eth0 name lan0");
        follow(&mut inventory, cgroup, "the name inside", |all| {
            all.len() == 1 && all[0].container_name.as_deref() == Some("lan0")
        });
        fake.run("ip link add mv0 link lan0 type macvlan");
        follow(&mut inventory, cgroup, "a macvlan", |all| {
            all.len() == 2
                && all
                    .iter()
                    .filter(|pair| pair.host_ifindex.is_none())
                    .count()
                    == 1
        });
        run(&["ip", "link", "del", &renamed]);
        follow(&mut inventory, cgroup, "the pair to go", <[_]>::is_empty);
    });
}

/// The other end of the pair is in a third namespace, such as a router's.
#[test]
fn the_host_side_may_be_in_a_third_namespace() {
    time_limit(LIMIT, || {
        let router = Namespace::new("router");
        let fake = FakeContainer::new("third");
        let _pair = VethPair::new((&router, "down0"), (&fake, "eth0"));
        let inventory = Inventory::scan().unwrap();
        let pair = InterfacePair {
            host_name: None,
            host_ifindex: Some(index(&router, "down0")),
            host_netns: Some(netns(&router)),
            lower_netns: None,
            container_ifindex: index(&fake, "eth0"),
            container_name: Some("eth0".into()),
        };
        assert_eq!(find(&inventory, fake.cgroup()).unwrap().interfaces, [pair]);
    });
}

/// Promise 32.
#[test]
fn a_macvlan_has_no_host_side() {
    time_limit(LIMIT, || {
        let lower = Namespace::new("lower");
        let fake = FakeContainer::new("macvlan");
        let base = unique_link();
        let _pair = VethPair::new((&Host, &base), (&lower, "eth0"));
        macvlan(&Host, &base, &fake, "mv0");
        let inventory = Inventory::scan().unwrap();
        let container = find(&inventory, fake.cgroup()).unwrap();
        assert_eq!(container.interfaces.len(), 1);
        assert_eq!(
            container.interfaces[0].container_name.as_deref(),
            Some("mv0")
        );
        assert_eq!(container.interfaces[0].host_ifindex, None);
        assert_eq!(container.interfaces[0].host_netns, None);
        let host = Some(inventory.host_netns());
        assert_eq!(container.interfaces[0].lower_netns, host);
    });
}

/// Number of containers of a full host.
const MANY: usize = 1_000;

/// Promise 8.
#[test]
fn a_thousand_cgroups_are_followed_with_the_descriptors_of_one() {
    let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
    time_limit(LIMIT, move || {
        let parent = Cgroup::new("full");
        let with_process = |n: usize| {
            let cgroup = parent.child(&format!("c{n}"));
            let process = Host.spawn("sleep 1000");
            cgroup.add(process.pid());
            // In this drop order: a cgroup is removed once it is empty.
            (process, cgroup)
        };
        let mut cgroups: Vec<_> = (0..MANY).map(with_process).collect();
        let path = parent.path().to_owned();
        let all: Selector = format!("cgroup:{}/*", path.display()).parse().unwrap();
        let mut inventory = Inventory::scan().unwrap();
        let before = descriptors();
        let changes = ours(inventory.name(std::slice::from_ref(&all)), &path);
        assert_eq!(changes.len(), MANY);
        assert_eq!(descriptors(), before);

        let (process, cgroup) = with_process(MANY);
        assert_eq!(ours(inventory.handle(&created(&cgroup)), &path), []);
        let event = seen(&cgroup, inventory.host_netns(), process.pid());
        let added = one(inventory.handle(&event), &path);
        assert!(matches!(added, ContainerChange::Added(c) if c.cgroup.0 == cgroup.id()));

        let (process, cgroup) = cgroups.swap_remove(MANY / 2);
        let ended = CgroupId(cgroup.id());
        drop(process);
        drop(cgroup);
        let event = KernelEvent::CgroupRemoved { cgroup: ended };
        let removed = one(inventory.handle(&event), &path);
        assert!(matches!(removed, ContainerChange::Removed(c) if c.cgroup == ended));
    });
}

#[test]
fn a_process_of_the_host_makes_no_container() {
    time_limit(LIMIT, || {
        let cgroup = Cgroup::new("service");
        let process = Host.spawn("sleep 1000");
        cgroup.add(process.pid());
        let mut inventory = Inventory::scan().unwrap();
        assert!(find(&inventory, &cgroup).is_none());
        let event = seen(&cgroup, inventory.host_netns(), process.pid());
        assert_eq!(ours(inventory.handle(&event), cgroup.path()), []);
        drop(process);
    });
}

/// Promise 9.
#[test]
fn cpu_use_is_read_and_selectors_resolve() {
    time_limit(LIMIT, || {
        let fake = FakeContainer::new("use");
        let mut inventory = Inventory::scan().unwrap();
        let container = find(&inventory, fake.cgroup()).unwrap();
        // A program was started in it.
        let first = inventory.cpu_usage_ns(&container).unwrap();
        assert!(first > 0);
        assert!(inventory.cpu_usage_ns(&container).unwrap() >= first);

        let all: Vec<_> = inventory.containers().cloned().collect();
        for text in [
            fake.name().to_owned(),
            format!("cgroup:{}", fake.cgroup_path().display()),
            format!("netns:{}", fake.namespace().name()),
            format!("netns:{}", fake.namespace().inode()),
            format!("pid:{}", fake.pid()),
        ] {
            let selector: Selector = text.parse().unwrap();
            let found = resolve(&selector, &all).unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(found, std::slice::from_ref(&container), "{text}");
        }
        drop(fake);
        let error = inventory.cpu_usage_ns(&container).unwrap_err();
        assert!(error.to_string().contains("cpu.stat"), "{error}");
    });
}

/// A process that may not enter other namespaces still gets an inventory.
#[test]
fn without_root_a_scan_still_answers() {
    time_limit(LIMIT, || {
        let fake = FakeContainer::new("foreign");
        let id = fake.id();
        let found = std::thread::spawn(move || {
            for call in [libc::SYS_setresgid, libc::SYS_setresuid] {
                // SAFETY: plain integers; the system call concerns this thread alone.
                assert_eq!(unsafe { libc::syscall(call, 65534, 65534, 65534) }, 0);
            }
            let inventory = Inventory::scan().unwrap();
            inventory.containers().any(|c| c.cgroup.0 == id)
        });
        assert!(!found.join().unwrap(), "its namespace may not be looked at");
        assert_eq!(
            HostFs::host().netns_of(fake.pid()),
            Some(netns(fake.namespace()))
        );
    });
}
