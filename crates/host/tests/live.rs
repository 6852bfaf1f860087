//! Real cgroups, network namespaces and devices of this host. Needs root.

mod common;

use cofferdam_host::{Inventory, resolve};
use cofferdam_types::{Container, ContainerChange, InterfacePair, KernelEvent, Runtime, Selector};
use common::{Cgroup, Netns, Sleeper, ifindex, run, unique, wait_for, within};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

fn find(inventory: &Inventory, cgroup: &Cgroup) -> Option<Arc<Container>> {
    inventory
        .containers()
        .find(|c| c.cgroup == cgroup.id())
        .cloned()
}

/// The changes to one cgroup and those below it; other tests change other ones all the while.
fn ours(changes: Vec<ContainerChange>, path: &Path) -> Vec<ContainerChange> {
    let here = |change: &ContainerChange| {
        let (ContainerChange::Added(c) | ContainerChange::Changed(c) | ContainerChange::Removed(c)) =
            change;
        c.cgroup_path.starts_with(path)
    };
    changes.into_iter().filter(here).collect()
}

fn one(changes: Vec<ContainerChange>, path: &Path) -> ContainerChange {
    let mut changes = ours(changes, path);
    assert_eq!(changes.len(), 1, "{changes:?}");
    changes.remove(0)
}

#[test]
fn scan_finds_a_plain_container_with_its_pair() {
    within(LIMIT, || {
        let cgroup = Cgroup::new(format!("/{}", unique("plain")));
        let netns = Netns::new("n");
        let host_name = netns.veth("eth0");
        let sleeper = Sleeper::start(&cgroup, Some(&netns));
        let inner = netns.ip(&["-o", "link", "show", "eth0"]);
        let inner_index: u32 = inner.split(':').next().unwrap().parse().unwrap();

        let inventory = Inventory::scan().unwrap();
        let container = find(&inventory, &cgroup).expect("found by its namespace");
        assert_eq!(container.runtime, Runtime::Plain);
        assert_eq!(container.netns, Some(netns.id()));
        assert_eq!(container.pid, Some(sleeper.pid()));
        assert!(!container.host_network);
        assert_eq!(
            container.interfaces,
            [InterfacePair {
                host_ifindex: Some(cofferdam_types::IfIndex(ifindex(&host_name))),
                host_name: Some(host_name),
                host_netns: Some(inventory.host_netns()),
                container_ifindex: cofferdam_types::IfIndex(inner_index),
                container_name: Some("eth0".into()),
            }]
        );
    });
}

#[test]
fn events_tell_of_a_plain_container_from_birth_to_death() {
    within(LIMIT, || {
        let mut inventory = Inventory::scan().unwrap();
        let netns = Netns::new("n");
        let host_name = netns.veth("eth0");
        let cgroup = Cgroup::new(format!("/{}", unique("life")));
        let id = cgroup.id();
        let whole = cgroup.path.clone();
        assert_eq!(ours(inventory.handle(&cgroup.created()), &whole), []);

        // Like `sh -c 'echo $$ > cgroup.procs; exec ip netns exec …'`: first in the host's.
        let sleeper = Sleeper::start(&cgroup, Some(&netns));
        let early = KernelEvent::ProcessSeen {
            cgroup: id,
            netns: inventory.host_netns(),
            pid: sleeper.pid(),
        };
        assert_eq!(ours(inventory.handle(&early), &whole), []);
        let changes = inventory.handle(&cgroup.seen(sleeper.pid()));
        let ContainerChange::Added(container) = one(changes, &whole) else {
            panic!("not the change expected")
        };
        assert_eq!(container.interfaces.len(), 1);
        assert_eq!(container.interfaces[0].host_name, Some(host_name));

        let below = Cgroup::new(cgroup.path.join("inner"));
        let below_id = below.id();
        let changes = inventory.handle(&below.created());
        let ContainerChange::Changed(container) = one(changes, &whole) else {
            panic!("not the change expected")
        };
        assert_eq!(container.descendants, [below_id]);
        drop(below);
        let changes = inventory.handle(&KernelEvent::CgroupRemoved { cgroup: below_id });
        assert!(
            matches!(one(changes, &whole), ContainerChange::Changed(c) if c.descendants.is_empty())
        );

        drop(sleeper);
        drop(cgroup);
        let changes = inventory.handle(&KernelEvent::CgroupRemoved { cgroup: id });
        assert!(matches!(one(changes, &whole), ContainerChange::Removed(c) if c.cgroup == id));
    });
}

#[test]
fn a_cgroup_unknown_so_far_is_found_through_its_process() {
    within(LIMIT, || {
        let mut inventory = Inventory::scan().unwrap();
        let outer = Cgroup::new(format!("/{}", unique("outer")));
        let inner = Cgroup::new(outer.path.join("inner"));
        let netns = Netns::new("n");
        let sleeper = Sleeper::start(&inner, Some(&netns));
        let changes = inventory.handle(&inner.seen(sleeper.pid()));
        let ContainerChange::Added(container) = one(changes, &outer.path) else {
            panic!("not the change expected")
        };
        assert_eq!(container.cgroup_path, inner.path);
        // Its parent is no container, and lost events change nothing.
        assert!(find(&inventory, &outer).is_none());
        let again: Vec<_> = inventory
            .handle(&KernelEvent::Lost { count: 1 })
            .into_iter()
            .filter(|c| {
                matches!(c, ContainerChange::Changed(c) | ContainerChange::Removed(c)
                if c.cgroup == inner.id())
            })
            .collect();
        assert_eq!(again, []);
    });
}

#[test]
fn packets_in_an_unknown_namespace_lead_to_its_cgroup() {
    within(LIMIT, || {
        let mut inventory = Inventory::scan().unwrap();
        let cgroup = Cgroup::new(format!("/{}", unique("quiet")));
        inventory.handle(&cgroup.created());
        let netns = Netns::new("n");
        let _sleeper = Sleeper::start(&cgroup, Some(&netns));
        let changes = inventory.handle(&KernelEvent::UnknownNetns { netns: netns.id() });
        assert!(
            matches!(one(changes, &cgroup.path), ContainerChange::Added(c) if c.cgroup == cgroup.id())
        );
    });
}

/// Devices that come, are renamed and go while the container runs.
#[test]
fn netlink_tells_of_devices() {
    within(LIMIT, || {
        let cgroup = Cgroup::new(format!("/{}", unique("dev")));
        let netns = Netns::new("n");
        let _sleeper = Sleeper::start(&cgroup, Some(&netns));
        let mut inventory = Inventory::scan().unwrap();
        assert_eq!(find(&inventory, &cgroup).unwrap().interfaces, []);

        let until = |inventory: &mut Inventory, what: &str, holds: &dyn Fn(&Container) -> bool| {
            wait_for(what, || {
                let mut readable = [PollFd::new(inventory.link_fd(), PollFlags::POLLIN)];
                poll(&mut readable, PollTimeout::from(20_000u16)).unwrap();
                let changes = inventory.handle_links();
                changes.into_iter().find_map(|change| match change {
                    ContainerChange::Changed(c) if c.cgroup == cgroup.id() && holds(&c) => Some(c),
                    _ => None,
                })
            })
        };
        // The first device also gives the namespace the number by which it is heard of.
        let host_name = netns.veth("eth0");
        let c = until(&mut inventory, "a new pair", &|c| c.interfaces.len() == 1);
        assert_eq!(
            c.interfaces[0].host_name.as_deref(),
            Some(host_name.as_str())
        );

        let renamed = unique("r");
        run("ip", &["link", "set", &host_name, "name", &renamed]);
        until(&mut inventory, "the host's name", &|c| {
            c.interfaces
                .first()
                .is_some_and(|i| i.host_name.as_ref() == Some(&renamed))
        });
        netns.ip(&["link", "set", "eth0", "name", "lan0"]);
        until(&mut inventory, "the inner name", &|c| {
            c.interfaces
                .first()
                .is_some_and(|i| i.container_name.as_deref() == Some("lan0"))
        });
        netns.ip(&["link", "add", "mv0", "link", "lan0", "type", "macvlan"]);
        let c = until(&mut inventory, "a macvlan", &|c| c.interfaces.len() == 2);
        assert_eq!(
            (&c.interfaces[1].host_name, c.interfaces[1].host_ifindex),
            (&None, None)
        );
        run("ip", &["link", "del", &renamed]);
        until(&mut inventory, "the pair to go", &|c| {
            c.interfaces.is_empty()
        });
    });
}

/// A pair whose other end is in a third namespace, such as a router's.
#[test]
fn the_host_side_may_be_in_a_third_namespace() {
    within(LIMIT, || {
        let cgroup = Cgroup::new(format!("/{}", unique("third")));
        let (netns, router) = (Netns::new("n"), Netns::new("r"));
        router.ip(&[
            "link",
            "add",
            "down0",
            "type",
            "veth",
            "peer",
            "name",
            "eth0",
            "netns",
            &netns.name,
        ]);
        let _sleeper = Sleeper::start(&cgroup, Some(&netns));
        let inventory = Inventory::scan().unwrap();
        let container = find(&inventory, &cgroup).unwrap();
        assert_eq!(container.interfaces.len(), 1);
        let pair = &container.interfaces[0];
        assert_eq!(pair.host_netns, Some(router.id()));
        assert!(pair.host_ifindex.is_some());
        assert_eq!(pair.host_name, None);
    });
}

#[test]
fn a_macvlan_has_no_host_side() {
    within(LIMIT, || {
        let cgroup = Cgroup::new(format!("/{}", unique("mv")));
        let (netns, lower) = (Netns::new("n"), Netns::new("l"));
        let base = lower.veth("base0");
        run(
            "ip",
            &[
                "link",
                "add",
                "link",
                &base,
                "name",
                &unique("m"),
                "netns",
                &netns.name,
                "type",
                "macvlan",
            ],
        );
        let _sleeper = Sleeper::start(&cgroup, Some(&netns));
        let inventory = Inventory::scan().unwrap();
        let container = find(&inventory, &cgroup).unwrap();
        assert_eq!(container.interfaces.len(), 1);
        assert_eq!(container.interfaces[0].host_ifindex, None);
    });
}

#[test]
fn a_process_of_the_host_makes_no_container() {
    within(LIMIT, || {
        let cgroup = Cgroup::new(format!("/{}", unique("svc")));
        let _sleeper = Sleeper::start(&cgroup, None);
        let mut inventory = Inventory::scan().unwrap();
        assert!(find(&inventory, &cgroup).is_none());
        assert_eq!(ours(inventory.handle(&cgroup.created()), &cgroup.path), []);
    });
}

#[test]
fn cpu_use_is_read_and_selectors_resolve() {
    within(LIMIT, || {
        let name = unique("use");
        let cgroup = Cgroup::new(format!("/{name}"));
        let netns = Netns::new("n");
        let sleeper = Sleeper::start(&cgroup, Some(&netns));
        let mut inventory = Inventory::scan().unwrap();
        let container = find(&inventory, &cgroup).unwrap();
        // A shell and two programs were started in it.
        let first = inventory.cpu_usage_ns(&container).unwrap();
        assert!(first > 0);
        assert!(inventory.cpu_usage_ns(&container).unwrap() >= first);

        let all: Vec<_> = inventory.containers().cloned().collect();
        for text in [
            name.clone(),
            format!("cgroup:/{name}"),
            format!("netns:{}", netns.name),
            format!("netns:{}", netns.id()),
            format!("pid:{}", sleeper.pid()),
        ] {
            let selector: Selector = text.parse().unwrap();
            let found = resolve(&selector, &all).unwrap_or_else(|e| panic!("{text}: {e}"));
            assert_eq!(found, std::slice::from_ref(&container), "{text}");
        }
        drop(sleeper);
        drop(cgroup);
        let error = inventory.cpu_usage_ns(&container).unwrap_err();
        assert!(error.to_string().contains("cpu.stat"), "{error}");
    });
}
