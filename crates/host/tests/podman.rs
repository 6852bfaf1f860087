//! Real podman containers. Needs root, podman, runc and busybox-static; no registry.
#![allow(
    clippy::unwrap_used,
    reason = "a fixture that cannot be made is a failed test"
)]

mod common;

use cofferdam_host::{HostFs, Inventory, parse};
use cofferdam_types::{CgroupId, Container, ContainerChange, KernelEvent, Runtime};
use common::{netns_of, run, unique, within};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(120);

/// A container, and its image, which both go away again.
struct Podman {
    name: String,
    image: String,
}

impl Podman {
    fn start(extra: &[&str]) -> Podman {
        let rootfs = tempfile::tempdir().unwrap();
        let bin = rootfs.path().join("bin");
        std::fs::create_dir(&bin).unwrap();
        std::fs::copy("/bin/busybox", bin.join("sleep")).unwrap();
        let archive = rootfs.path().join("rootfs.tar");
        let (tar, root) = (archive.to_str().unwrap(), rootfs.path().to_str().unwrap());
        run("tar", &["-C", root, "-cf", tar, "bin"]);
        let podman = Podman {
            name: unique("web"),
            image: unique("img"),
        };
        run("podman", &["import", tar, &podman.image]);
        let mut arguments = vec![
            "--runtime",
            "runc",
            "run",
            "--detach",
            "--name",
            &podman.name,
        ];
        arguments.extend([
            "--ulimit",
            "nofile=20000:20000",
            "--ulimit",
            "nproc=10000:10000",
        ]);
        arguments.extend(extra);
        arguments.extend([&podman.image, "/bin/sleep", "300"]);
        run("podman", &arguments);
        podman
    }

    fn inspect(&self, field: &str) -> String {
        run("podman", &["inspect", "--format", field, &self.name])
    }

    fn pid(&self) -> u32 {
        self.inspect("{{.State.Pid}}").parse().unwrap()
    }
}

impl Drop for Podman {
    fn drop(&mut self) {
        let quiet = |arguments: &[&str]| {
            let _ = Command::new("podman").args(arguments).output();
        };
        quiet(&["rm", "--force", "--time", "0", &self.name]);
        quiet(&["rmi", "--force", &self.image]);
    }
}

fn find(inventory: &Inventory, name: &str) -> Option<Arc<Container>> {
    inventory.containers().find(|c| c.name == name).cloned()
}

/// Changes to the one container; other tests make and remove others all the while.
fn ours(changes: Vec<ContainerChange>, name: &str) -> Vec<ContainerChange> {
    let here = |change: &ContainerChange| {
        let (ContainerChange::Added(c) | ContainerChange::Changed(c) | ContainerChange::Removed(c)) =
            change;
        c.name == name
    };
    changes.into_iter().filter(here).collect()
}

fn cgroup_of(inventory: &Inventory, pid: u32) -> (CgroupId, PathBuf) {
    let text = HostFs::host()
        .read_text(format!("/proc/{pid}/cgroup"))
        .unwrap();
    let path = parse::proc_cgroup_v2(&text).unwrap();
    let directory = inventory.layout().v2_directory(&path);
    (CgroupId(std::fs::metadata(directory).unwrap().ino()), path)
}

#[test]
fn a_bridged_container_has_its_name_namespace_and_pair() {
    within(LIMIT, || {
        let podman = Podman::start(&[]);
        let mut inventory = Inventory::scan().unwrap();
        let container = find(&inventory, &podman.name).expect("found by name");
        assert_eq!(container.runtime, Runtime::Podman);
        assert_eq!(container.id, Some(podman.inspect("{{.Id}}")));
        assert_eq!(container.netns, Some(netns_of(podman.pid())));
        assert!(!container.host_network);
        let pair = &container.interfaces[0];
        assert_eq!(container.interfaces.len(), 1);
        assert_eq!(pair.container_name.as_deref(), Some("eth0"));
        let host_name = pair.host_name.as_deref().expect("a veth on the bridge");
        assert_eq!(common::ifindex(host_name), pair.host_ifindex.unwrap().0);
        assert!(inventory.cpu_usage_ns(&container).unwrap() > 0);

        // The same, told by events to an inventory that lost it.
        inventory.handle(&KernelEvent::CgroupRemoved {
            cgroup: container.cgroup,
        });
        assert!(find(&inventory, &podman.name).is_none());
        let (cgroup, path) = cgroup_of(&inventory, podman.pid());
        let changes = ours(
            inventory.handle(&KernelEvent::CgroupCreated { cgroup, path }),
            &podman.name,
        );
        assert!(matches!(&changes[..], [ContainerChange::Added(c)]
            if c.name == podman.name && c.netns.is_none()));
        let host = inventory.host_netns();
        let pid = podman.pid();
        // runc joins the cgroup before it leaves the host's namespace.
        let changes = ours(
            inventory.handle(&KernelEvent::ProcessSeen {
                cgroup,
                netns: host,
                pid,
            }),
            &podman.name,
        );
        assert!(matches!(&changes[..], [ContainerChange::Changed(c)] if c.host_network));
        let own = netns_of(pid);
        let changes = ours(
            inventory.handle(&KernelEvent::ProcessSeen {
                cgroup,
                netns: own,
                pid,
            }),
            &podman.name,
        );
        assert!(matches!(&changes[..], [ContainerChange::Changed(c)]
            if !c.host_network && c.interfaces == container.interfaces));
        // `podman exec` enters from the host's namespace; that changes nothing.
        let exec = KernelEvent::ProcessSeen {
            cgroup,
            netns: host,
            pid: std::process::id(),
        };
        assert_eq!(ours(inventory.handle(&exec), &podman.name), []);
    });
}

#[test]
fn a_host_network_container_is_told_apart() {
    within(LIMIT, || {
        let podman = Podman::start(&["--network", "host"]);
        let inventory = Inventory::scan().unwrap();
        let container = find(&inventory, &podman.name).expect("found by name");
        assert!(container.host_network);
        assert_eq!(container.netns, Some(inventory.host_netns()));
        assert_eq!(container.interfaces, []);
        assert_eq!(container.cgroup, cgroup_of(&inventory, podman.pid()).0);
    });
}

#[test]
fn containers_of_a_pod_share_a_namespace() {
    within(LIMIT, || {
        let first = Podman::start(&[]);
        let network = format!("container:{}", first.name);
        let second = Podman::start(&["--network", &network]);
        let inventory = Inventory::scan().unwrap();
        let (a, b) = (
            find(&inventory, &first.name),
            find(&inventory, &second.name),
        );
        let (a, b) = (a.expect("the first"), b.expect("the second"));
        assert_eq!(a.netns, b.netns);
        assert_eq!(a.interfaces, b.interfaces);
        assert_eq!(a.interfaces.len(), 1);
    });
}
