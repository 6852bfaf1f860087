//! Real podman containers. Needs root, podman, runc and busybox-static; no registry.
#![allow(
    clippy::unwrap_used,
    reason = "a fixture that cannot be made is a failed test"
)]

use cofferdam_host::Inventory;
use cofferdam_lab::fixtures::{Network, PodmanContainer, time_limit};
use cofferdam_types::{Container, ContainerChange, KernelEvent, NetnsId, Runtime};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(120);

fn find(inventory: &Inventory, name: &str) -> Option<Arc<Container>> {
    inventory.containers().find(|c| c.name == name).cloned()
}

/// Returns the changes to the one container; other tests make and remove others at the same time.
fn ours(changes: Vec<ContainerChange>, name: &str) -> Vec<ContainerChange> {
    use ContainerChange::{Added, Changed, Removed};
    let here = |change: &ContainerChange| {
        let (Added(c) | Changed(c) | Removed(c)) = change;
        c.name == name
    };
    changes.into_iter().filter(here).collect()
}

/// Promise 7.
#[test]
fn a_bridged_container_has_its_name_namespace_and_pair() {
    time_limit(LIMIT, || {
        let podman = PodmanContainer::new("bridged", Network::Bridge);
        let mut inventory = Inventory::scan().unwrap();
        let host = inventory.host_netns();
        let container = find(&inventory, podman.name()).expect("found by name");
        let own = NetnsId(podman.netns_inode().try_into().unwrap());
        assert_eq!(container.runtime, Runtime::Podman);
        assert_eq!(container.id.as_deref(), Some(podman.id()));
        assert_eq!(container.cgroup_path, podman.cgroup_path());
        assert_eq!(container.netns, Some(own));
        assert!(!container.host_network);
        assert_eq!(container.interfaces.len(), 1);
        let pair = &container.interfaces[0];
        assert_eq!(pair.container_name.as_deref(), Some("eth0"));
        let device = Path::new("/sys/class/net").join(pair.host_name.as_ref().unwrap());
        let index = std::fs::read_to_string(device.join("ifindex")).unwrap();
        assert_eq!(index.trim(), pair.host_ifindex.unwrap().to_string());
        assert!(device.join("master").exists(), "a port of podman's bridge");
        assert!(inventory.cpu_usage_ns(&container).unwrap() > 0);

        // An inventory that lost the container discovers it again by events.
        let cgroup = container.cgroup;
        inventory.handle(&KernelEvent::CgroupRemoved { cgroup });
        assert!(find(&inventory, podman.name()).is_none());
        let mut tell = |event| ours(inventory.handle(&event), podman.name());
        let path = podman.cgroup_path();
        let changes = tell(KernelEvent::CgroupCreated { cgroup, path });
        assert!(matches!(&changes[..], [ContainerChange::Added(c)] if c.netns.is_none()));
        // runc joins the cgroup before it leaves the host's namespace. The event is late: the
        // processes decide, not its text.
        let pid = podman.pid();
        let changes = tell(KernelEvent::ProcessSeen {
            cgroup,
            netns: host,
            pid,
        });
        assert!(matches!(&changes[..], [ContainerChange::Changed(c)]
            if !c.host_network && c.interfaces == container.interfaces));
        let changes = tell(KernelEvent::ProcessSeen {
            cgroup,
            netns: own,
            pid,
        });
        assert_eq!(changes, []);
        // `podman exec` enters from the host's namespace; that changes nothing.
        let pid = std::process::id();
        assert_eq!(
            tell(KernelEvent::ProcessSeen {
                cgroup,
                netns: host,
                pid
            }),
            []
        );
    });
}

/// Promise 7.
#[test]
fn a_host_network_container_is_distinguished() {
    time_limit(LIMIT, || {
        let podman = PodmanContainer::new("hostnet", Network::Host);
        let inventory = Inventory::scan().unwrap();
        let container = find(&inventory, podman.name()).expect("found by name");
        assert!(container.host_network);
        assert_eq!(container.netns, Some(inventory.host_netns()));
        assert_eq!(container.interfaces, []);
        assert_eq!(container.cgroup_path, podman.cgroup_path());
    });
}
