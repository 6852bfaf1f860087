//! A container with a CPU quota pays for its packets out of the quota, and its own tasks continue.

// Clippy's exception for tests does not reach their helpers.
#![allow(clippy::unwrap_used)]

mod common;

use cofferdam_accounting::Accountant;
use cofferdam_enforce::Enforcer;
use cofferdam_lab::fixtures::traffic::{self, Udp};
use cofferdam_lab::fixtures::{FakeContainer, Namespace, Net, VethPair};
use cofferdam_types::{Means, Snapshot};
use common::*;
use std::fs;
use std::time::{Duration, Instant};

/// A tenth of a CPU.
const QUOTA: f64 = 0.1;

/// Gives the container [`QUOTA`], through v1 or v2.
fn cap(container: &FakeContainer) {
    let directory = container.cgroup().controller("cpu");
    if directory.join("cpu.max").exists() {
        fs::write(directory.join("cpu.max"), "10000 100000").unwrap();
    } else {
        fs::write(directory.join("cpu.cfs_period_us"), "100000").unwrap();
        fs::write(directory.join("cpu.cfs_quota_us"), "10000").unwrap();
    }
}

/// CPU time of the process `pid` during `body`, in CPUs.
fn used_cpus(pid: u32, body: impl FnOnce()) -> f64 {
    let read = || -> u64 {
        let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap();
        text.split_whitespace().next().unwrap().parse().unwrap()
    };
    let (before, begin) = (read(), Instant::now());
    body();
    (read() - before) as f64 / begin.elapsed().as_nanos() as f64
}

/// Promise 33.
#[test]
fn a_container_under_a_quota_survives_a_flood() {
    alone(90, || {
        let (offender, victim) = (FakeContainer::new("capped"), FakeContainer::new("victim"));
        cap(&offender);
        let peer = Namespace::new("peer");
        let _pair = VethPair::new((&offender, "eth0"), (&peer, "p0"));
        offender.address("eth0", "10.95.0.2/24");
        peer.address("p0", "10.95.0.1/24");
        peer.ping("10.95.0.2");
        // A NIC whose interrupts hit the victim's CPU behaves alike.
        offender.steer("eth0", 1);
        let folder = tempfile::tempdir().unwrap();
        let mut accountant = Accountant::start(cofferdam_accounting::Options::default()).unwrap();
        let mut enforcer = Enforcer::open(options(folder.path())).unwrap();
        let (o, v) = (found(&offender), found(&victim));
        enforcer.set(enforce(&[&o, &v]));
        let length = Duration::from_secs(60);
        let own = traffic::compute(&offender, Some(0), length);
        let _victim = traffic::compute(&victim, Some(0), length);
        let flood = Udp::to("10.95.0.2:9000".parse().unwrap()).flood(length);
        let _floods = [(); 2].map(|()| traffic::udp_send(&peer, Some(1), flood.bytes(200)));

        let mut last = accountant.snapshot().unwrap();
        let mut run = |enforcer: &mut Enforcer, length: Duration| -> Snapshot {
            let (begin, first) = (Instant::now(), last.clone());
            while begin.elapsed() < length {
                std::thread::sleep(Duration::from_millis(20));
                let now = accountant.snapshot().unwrap();
                enforcer.step(&now.since(&last));
                last = now;
            }
            assert!(last.uptime > first.uptime);
            first
        };
        run(&mut enforcer, Duration::from_secs(4));
        let mut first = None;
        let got = used_cpus(own.pid(), || {
            first = Some(run(&mut enforcer, Duration::from_secs(6)));
        });
        let interval = accountant.snapshot().unwrap().since(&first.unwrap());
        let rows = interval.containers.iter();
        let row = rows
            .clone()
            .find(|r| r.container.cgroup == o.cgroup)
            .unwrap();
        let victim = rows
            .clone()
            .find(|r| r.container.cgroup == v.cgroup)
            .unwrap();
        let paid = victim.ledger.charged_network_ns as f64 - victim.ledger.caused_ns() as f64;
        let paid = paid / interval.length.as_nanos() as f64;
        let facts = format!("own task {got:.3}, victim paid {paid:.3}, {:?}", row.ledger);
        println!("{facts}");
        // Half of the quota always belongs to its tasks. The part of that which they get depends on
        // other work of this host.
        assert!(got > QUOTA * 0.2, "{facts}");
        assert!(paid < 0.05, "{facts}");
        let state = means(&enforcer, &o, Means::IngressDrop);
        assert!(state.in_force, "{}", state.why);
        let napi = means(&enforcer, &o, Means::NapiThread);
        let stops = cofferdam_bpf::quota_stops_kernel_threads().unwrap();
        assert_eq!(napi.in_force, stops, "{}", napi.why);
        assert!(stops || napi.why.contains("quota"), "{}", napi.why);
        let report = enforcer.revert();
        assert!(report.is_clean() && report.foreign.is_empty(), "{report:?}");
    });
}
