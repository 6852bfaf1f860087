//! Containers that share a network namespace are enforced as one, in the cgroup of their pod.

// Clippy's exception for tests does not reach their helpers.
#![allow(clippy::unwrap_used)]

mod common;

use cofferdam_accounting::{Accountant, Options as AccountantOptions};
use cofferdam_enforce::Enforcer;
use cofferdam_host::Inventory;
use cofferdam_lab::fixtures::traffic::{self, Udp};
use cofferdam_lab::fixtures::{
    FakeContainer, Namespace, Net, PodMember, PodmanPod, Router, VethPair, wait_until,
};
use cofferdam_types::{Container, Means};
use common::*;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Directories of the pod's cgroup.
fn directories(pod: &PodmanPod) -> Vec<PathBuf> {
    let path = pod.cgroup_path();
    let path = path.strip_prefix("/").expect("a cgroup path");
    let mounts = ["unified", "cpu", "cpuacct", ""];
    let roots = mounts.iter().map(|m| Path::new("/sys/fs/cgroup").join(m));
    roots
        .map(|root| root.join(path))
        .filter(|d| d.is_dir())
        .collect()
}

/// Names of the threads in the leaf below the pod's cgroup.
fn leaf(pod: &PodmanPod) -> Vec<String> {
    let files = directories(pod)
        .into_iter()
        .map(|d| d.join("cofferdam.napi/cgroup.procs"));
    let texts = files.filter_map(|file| fs::read_to_string(file).ok());
    let pids = texts.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>());
    let comm = |pid: String| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    pids.map(comm).collect()
}

/// Settings that enforcement may change for a pod, as text.
fn state(pod: &PodmanPod, router: &Router, device: &str) -> String {
    let mut text =
        pod.sh("ethtool -k eth0; cd /sys/class/net/eth0; cat threaded queues/rx-*/rps_cpus");
    text += &router.sh(&format!("ethtool -k {device}; ip -d link; tc qdisc"));
    for directory in directories(pod) {
        let entries = fs::read_dir(&directory)
            .unwrap()
            .flatten()
            .map(|e| e.path());
        let mut below: Vec<PathBuf> = entries.filter(|p| p.is_dir()).chain([directory]).collect();
        below.sort();
        for directory in below {
            text += &format!("{}\n", directory.display());
            for file in [
                "cpu.shares",
                "cpu.weight",
                "cpu.cfs_quota_us",
                "cpu.max",
                "cpuset.cpus",
            ] {
                text += &fs::read_to_string(directory.join(file)).unwrap_or_default();
            }
        }
    }
    text
}

fn found_members(pod: &PodmanPod) -> Vec<Arc<Container>> {
    let inventory = Inventory::scan().expect("the host can be scanned");
    let find = |member: &PodMember| {
        let mut all = inventory.containers();
        let found = all.find(|c| c.id.as_deref() == Some(member.id()));
        found.expect("podman's container is found").clone()
    };
    [&pod.sandbox]
        .into_iter()
        .chain(&pod.containers)
        .map(find)
        .collect()
}

/// Promise 31.
#[test]
fn a_pods_napi_thread_runs_in_the_pods_cgroup() {
    alone(240, || {
        let mut pod = PodmanPod::new("pod", 2);
        let victim = FakeContainer::new("victim");
        let router = Router::new("router");
        let port = router.attach(&pod);
        router.attach(&victim);
        let before = state(&pod, &router, &port.device);
        let v = found(&victim);
        let members = found_members(&pod);
        let folder = tempfile::tempdir().unwrap();
        let mut enforcer = Enforcer::open(options(folder.path())).unwrap();
        let wanted = |members: &[Arc<Container>]| {
            let all: Vec<&Arc<Container>> = members.iter().chain([&v]).collect();
            enforce(&all)
        };
        enforcer.set(wanted(&members));
        // Only one container reports for the pod, whichever of them causes the work, and never the
        // sandbox.
        for causer in &members {
            until_napi_in_force(&mut enforcer, &members[1], &interval(causer, &v, 10));
        }
        let threads = leaf(&pod);
        assert!(!threads.is_empty());
        assert!(
            threads.iter().all(|t| t.starts_with("napi/eth0-")),
            "{threads:?}"
        );
        for other in [&members[0], &members[2]] {
            let state = means(&enforcer, other, Means::NapiThread);
            assert!(!state.in_force && !state.failed, "{}", state.why);
            assert!(
                state.why.contains("it is enforced with its pod"),
                "{}",
                state.why
            );
        }
        assert!(enforcer.status().changes_in_force > 0);

        // A restarted container does not disturb the others.
        pod.containers[1].restart();
        let members = found_members(&pod);
        enforcer.set(wanted(&members));
        assert!(means(&enforcer, &members[1], Means::NapiThread).in_force);

        // A pod of one container and the sandbox is enforced as well.
        enforcer.set(wanted(&members[..2]));
        assert!(means(&enforcer, &members[1], Means::NapiThread).in_force);

        let report = enforcer.revert();
        assert!(report.is_clean() && report.foreign.is_empty(), "{report:?}");
        assert!(leaf(&pod).is_empty());
        let after = state(&pod, &router, &port.device);
        assert_eq!(after, before);

        // A new sandbox has another namespace; the pod's cgroup stays.
        let mut enforcer = Enforcer::open(options(folder.path())).unwrap();
        enforcer.set(wanted(&members));
        until_napi_in_force(&mut enforcer, &members[1], &interval(&members[1], &v, 10));
        pod.restart();
        router.attach(&pod);
        let members = found_members(&pod);
        enforcer.set(wanted(&members));
        until_napi_in_force(&mut enforcer, &members[1], &interval(&members[1], &v, 10));
        assert!(!leaf(&pod).is_empty());
        let report = enforcer.revert();
        assert!(report.is_clean() && report.foreign.is_empty(), "{report:?}");
        assert!(leaf(&pod).is_empty());
    });
}

/// Promise 31.
#[test]
fn a_flooded_pods_packets_are_dropped_and_counted_once() {
    alone(240, || {
        let options_of_accounting = AccountantOptions {
            slots: 64,
            measure_programs: false,
        };
        let mut accountant = Accountant::start(options_of_accounting).unwrap();
        let follow = |accountant: &mut Accountant, ms: u64| {
            let until = Instant::now() + Duration::from_millis(ms);
            accountant.follow(until, None).unwrap();
        };
        // The pod starts while the accounting runs, as on a node.
        let pod = std::thread::scope(|scope| {
            let starting = scope.spawn(|| PodmanPod::new("pod", 2));
            while !starting.is_finished() {
                follow(&mut accountant, 5);
            }
            starting.join().expect("the pod starts")
        });
        let victim = FakeContainer::new("victim");
        let router = Router::new("router");
        let port = router.attach(&pod);
        let peer = Namespace::new("peer");
        let _uplink = VethPair::new((&peer, "p0"), (&*router, "up0"));
        peer.address("p0", "10.97.0.1/24");
        router.address("up0", "10.97.0.2/24");
        peer.route("default via 10.97.0.2");
        peer.ping(&port.ipv4.to_string());
        let before = state(&pod, &router, &port.device);
        // Packets are processed on the CPU where the victim computes.
        router.steer("up0", 1);
        let limit = Duration::from_secs(90);
        let _work = traffic::compute(&victim, Some(0), limit);
        let receiver = &pod.containers[0];
        let at = port.v4(9000);
        let _sink = traffic::udp_sink(receiver, Some(1), at, u64::MAX);
        let _flood = traffic::udp_send(&peer, Some(1), Udp::to(at).flood(limit));

        let folder = tempfile::tempdir().unwrap();
        let mut enforcer = Enforcer::open(options(folder.path())).unwrap();
        let (members, v) = (found_members(&pod), found(&victim));
        // The flood then exceeds the pod's share, on fast machines too.
        victim.outweigh();
        let all: Vec<&Arc<Container>> = members.iter().chain([&v]).collect();
        enforcer.set(enforce(&all));
        let mut last = accountant.snapshot().unwrap();
        let (mut received, mut of_sandbox) = (0, 0);
        let shed = |enforcer: &Enforcer| -> u64 {
            let all = enforcer.status().containers.into_iter();
            let lead = all.filter(|c| c.cgroup == members[1].cgroup);
            lead.filter_map(|c| c.network)
                .map(|n| n.dropped_rx_packets)
                .sum()
        };
        wait_until(
            "packets of the pod are shed",
            Duration::from_secs(60),
            || {
                follow(&mut accountant, 20);
                let now = accountant.snapshot().unwrap();
                let interval = now.since(&last);
                last = now;
                let rx = |c: &Container| {
                    let rows = interval.containers.iter();
                    let mut own = rows.filter(|row| row.container.cgroup == c.cgroup);
                    own.next().map_or(0, |row| row.ledger.rx_packets)
                };
                received += rx(&members[1]);
                of_sandbox += rx(&members[0]);
                enforcer.step(&interval);
                shed(&enforcer) > 1_000
            },
        );
        assert!(
            received > 10 * of_sandbox.max(1),
            "{received} and {of_sandbox} packets"
        );
        let report = enforcer.revert();
        assert!(report.is_clean() && report.foreign.is_empty(), "{report:?}");
        router.steer("up0", 0);
        assert_eq!(state(&pod, &router, &port.device), before);
    });
}
