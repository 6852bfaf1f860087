//! Containers of podman, whose sysfs is read-only for the whole network namespace: their NAPI
//! threads are started all the same, and reverted.

mod common;

use cofferdam_enforce::journal::{DeviceId, Form, Journal, Target, WriteOutcome};
use cofferdam_enforce::{Enforcer, revert_leftover};
use cofferdam_host::Inventory;
use cofferdam_lab::fixtures::{FakeContainer, Net, Network, PodmanContainer, Router, try_run};
use cofferdam_types::{Container, IfIndex, NetnsId};
use common::*;
use std::fs;
use std::sync::Arc;

fn found_podman(container: &PodmanContainer) -> Arc<Container> {
    let inventory = Inventory::scan().expect("the host can be scanned");
    let mut all = inventory.containers();
    let found = all.find(|c| c.id.as_deref() == Some(container.id()));
    found.expect("podman's container is found").clone()
}

/// Mount of the container's sysfs: `MOUNT-OPTIONS SUPERBLOCK-OPTIONS`.
fn sysfs(container: &PodmanContainer) -> String {
    let mounts = fs::read_to_string(format!("/proc/{}/mountinfo", container.pid()));
    let mounts = mounts.expect("the container's first process lives");
    let line = mounts.lines().find(|l| l.contains(" - sysfs "));
    let words: Vec<&str> = line.expect("runc mounts sysfs").split(' ').collect();
    format!("{} {}", words[5], words[words.len() - 1])
}

/// Settings that enforcement changes for the container.
fn state(container: &PodmanContainer, host: &dyn Net, host_device: &str) -> String {
    container.sh(
        "ethtool -k eth0; cd /sys/class/net/eth0; cat threaded queues/rx-*/rps_cpus; \
         ip link show eth0",
    ) + &host.sh(&format!("ethtool -k {host_device}"))
        + &sysfs(container)
}

fn leaf(container: &PodmanContainer) -> Vec<String> {
    let path = container.cgroup_path();
    let path = path.strip_prefix("/").expect("a cgroup path");
    let mounts = ["unified", "cpu", "cpuacct", ""];
    let roots = mounts.iter().map(|m| format!("/sys/fs/cgroup/{m}"));
    let files = roots.map(|root| {
        let leaf = std::path::Path::new(&root)
            .join(path)
            .join("cofferdam.napi");
        fs::read_to_string(leaf.join("cgroup.procs")).unwrap_or_default()
    });
    let pids = files.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>());
    let comm = |pid: String| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    pids.map(comm).collect()
}

/// Promise 31.
#[test]
fn a_podman_containers_napi_thread_runs_in_its_cgroup() {
    alone(180, || {
        let offender = PodmanContainer::new("offender", Network::None);
        let victim = FakeContainer::new("victim");
        let router = Router::new("router");
        let port = router.attach(&offender);
        router.attach(&victim);
        let before = state(&offender, &*router, &port.device);
        assert!(before.ends_with(" ro"), "runc makes it read-only: {before}");
        let (o, v) = (found_podman(&offender), found(&victim));
        let folder = tempfile::tempdir().unwrap();
        for killed in [false, true] {
            let mut enforcer = Enforcer::open(options(folder.path())).unwrap();
            enforcer.set(enforce(&[&o, &v]));
            until_napi_in_force(&mut enforcer, &o, &interval(&o, &v, 10));
            let threads = leaf(&offender);
            assert!(!threads.is_empty());
            assert!(
                threads.iter().all(|name| name.starts_with("napi/eth0-")),
                "{threads:?}"
            );
            assert!(sysfs(&offender).ends_with(" ro"), "{}", sysfs(&offender));
            let report = if killed {
                drop(enforcer); // as one that was killed: nothing is reverted
                revert_leftover(&options(folder.path())).unwrap()
            } else {
                enforcer.revert()
            };
            assert!(report.is_clean() && report.foreign.is_empty(), "{report:?}");
            assert_eq!(state(&offender, &*router, &port.device), before);
            assert!(leaf(&offender).is_empty());
        }
    });
}

/// Promise 31.
#[test]
fn a_read_only_sysfs_is_written_and_never_left_writable() {
    alone(180, || {
        let container = PodmanContainer::new("sysfs", Network::None);
        let router = Router::new("router");
        let port = router.attach(&container);
        container.sh("ethtool -K eth0 gro on");
        let before = state(&container, &*router, &port.device);
        let folder = tempfile::tempdir().unwrap();
        let index = container.sh("cat /sys/class/net/eth0/ifindex");
        let device = DeviceId {
            netns: NetnsId(u32::try_from(container.netns_inode()).unwrap()),
            netns_cookie: None,
            ifindex: IfIndex(index.trim().parse().unwrap()),
        };
        let file = |name: &str| Target::DeviceFile {
            device,
            file: name.into(),
        };
        let (mut journal, _) = Journal::open(folder.path()).unwrap();
        for (name, form, value) in [
            ("threaded", Form::Text, "1"),
            ("queues/rx-0/rps_cpus", Form::CpuMask, "1"),
        ] {
            let written = journal.set(&file(name), form, value).unwrap();
            assert_eq!(written, WriteOutcome::Changed, "{name}");
            let now = container.sh(&format!("cat /sys/class/net/eth0/{name}"));
            assert_eq!(form.canonical(&now), form.canonical(value), "{name}");
            assert!(sysfs(&container).ends_with(" ro"));
        }
        // Killed in the very moment in which the sysfs is writable.
        journal
            .set(&Target::Sysfs { device }, Form::Text, "rw")
            .unwrap();
        assert!(sysfs(&container).ends_with(" rw"));
        assert!(
            sysfs(&container).starts_with("ro,"),
            "its own mount stays read-only"
        );
        let pid = container.pid().to_string();
        let script = "echo x > /sys/class/net/lo/ifalias";
        let inside = [
            "nsenter",
            "-t",
            &pid,
            "-m",
            "-n",
            "/bin/busybox",
            "sh",
            "-c",
            script,
        ];
        let refused = try_run(&inside).expect_err("the container must not be able to write");
        assert!(refused.to_string().contains("Read-only"), "{refused}");
        drop(journal);
        let (_journal, report) = Journal::open(folder.path()).unwrap();
        assert!(report.is_clean() && report.foreign.is_empty(), "{report:?}");
        assert_eq!(report.reverted, 3);
        assert_eq!(state(&container, &*router, &port.device), before);
    });
}

/// Promise 31.
#[test]
fn a_sysfs_with_foreign_mounts_stays_read_only() {
    alone(180, || {
        let container = PodmanContainer::new("sysfs", Network::None);
        let device = DeviceId {
            netns: NetnsId(u32::try_from(container.netns_inode()).unwrap()),
            netns_cookie: None,
            ifindex: IfIndex(1),
        };
        // Another process with a mount that only the superblock keeps read-only.
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join("mount");
        fs::write(&script, "mount -t sysfs x /mnt && exec sleep 60").unwrap();
        let other = container.spawn(&format!("unshare -m sh {}", script.display()));
        let mounts = || {
            let text = fs::read_to_string(format!("/proc/{}/mountinfo", other.pid()));
            text.unwrap_or_default()
        };
        let limit = std::time::Duration::from_secs(10);
        cofferdam_lab::fixtures::wait_until("the mount", limit, || mounts().contains(" /mnt rw"));
        let (mut journal, _) = Journal::open(folder.path()).unwrap();
        let sysfs_rw = journal.set(&Target::Sysfs { device }, Form::Text, "rw");
        let error = sysfs_rw.unwrap_err().to_string();
        assert!(
            error.contains("would also make it writable for process"),
            "{error}"
        );
        assert!(sysfs(&container).ends_with(" ro"));
        assert_eq!(journal.in_force(), 0);
    });
}
