//! Victims without a rule that are no containers: each of them is protected.

// Clippy's exception for tests does not reach their helpers.
#![allow(clippy::unwrap_used)]

mod common;

use cofferdam_accounting::{Accountant, Options};
use cofferdam_affinity::run_on;
use cofferdam_bpf::Interruptions;
use cofferdam_enforce::Enforcer;
use cofferdam_host::{CgroupLayout, HostFs};
use cofferdam_lab::fixtures::traffic::{self, Udp};
use cofferdam_lab::fixtures::{
    Cgroup, FakeContainer, Host, Namespace, Net, Router, VethPair, fork, unique_link, wait_until,
};
use cofferdam_types::{CgroupId, Container, ContainerLedger, CpuId, Interval, Means};
use common::*;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);

/// Flooded container under a rule, on CPU 0 with its victims; the flood comes from CPU 1.
struct FloodScene {
    offender: FakeContainer,
    router: Router,
    accountant: Accountant,
    to: std::net::SocketAddr,
}

impl FloodScene {
    fn new() -> FloodScene {
        FloodScene::behind(Router::new("router"))
    }

    fn behind(router: Router) -> FloodScene {
        let offender = FakeContainer::new("offender");
        let port = router.attach(&offender);
        offender.steer("eth0", 1);
        // The programs come first: loading takes long under a flood.
        let accountant = Accountant::start(Options::default()).unwrap();
        FloodScene {
            offender,
            router,
            accountant,
            to: port.v4(9000),
        }
    }

    /// Enforces the container, with a journal in `folder`.
    fn enforced(&self, folder: &Path) -> (Enforcer, Arc<Container>) {
        let id = CgroupId(self.offender.id());
        let mut all = self.accountant.containers().into_iter();
        let offender = all.find(|c| c.cgroup == id).unwrap();
        let mut enforcer = Enforcer::open(options(folder)).unwrap();
        enforcer.set(enforce(&[&offender]));
        (enforcer, offender)
    }

    /// Enforces the container until its NAPI thread is in its cgroup. Returns the network CPU that
    /// was meanwhile charged to the cgroup at `path`, and the network CPU that the container
    /// caused.
    fn bounded(&mut self, path: &Path) -> (u64, u64) {
        let id = CgroupId(self.offender.id());
        let folder = tempfile::tempdir().unwrap();
        let (mut enforcer, o) = self.enforced(folder.path());
        let flood = Udp::to(self.to).bytes(200).flood(LIMIT * 2);
        let _flood = traffic::udp_send(&*self.router, Some(1), flood);
        let (mut paid_ns, mut caused_ns) = (0, 0);
        let until = Instant::now() + LIMIT;
        let mut last = self.accountant.snapshot().unwrap();
        while !means(&enforcer, &o, Means::NapiThread).in_force || paid_ns == 0 {
            assert!(
                Instant::now() < until,
                "{paid_ns} ns paid: {:?}",
                enforcer.status()
            );
            let interval = self.interval(&mut last);
            paid_ns += of(&interval, path).map_or(0, |row| row.ledger.charged_network_ns);
            let own = interval
                .containers
                .iter()
                .find(|r| r.container.cgroup == id);
            caused_ns += own.map_or(0, |row| row.ledger.caused_ns());
            enforcer.step(&interval);
        }
        let report = enforcer.revert();
        assert!(report.is_clean() && report.foreign.is_empty(), "{report:?}");
        (paid_ns, caused_ns)
    }

    /// CPU weight of the offender, in its file's unit.
    fn weight(&self) -> u64 {
        let directory = self.offender.cgroup().controller("cpu");
        let mut files = ["cpu.shares", "cpu.weight"].iter();
        let text = files.find_map(|name| fs::read_to_string(directory.join(name)).ok());
        text.unwrap().trim().parse().unwrap()
    }

    fn interval(&mut self, last: &mut cofferdam_types::Snapshot) -> Interval {
        let soon = Instant::now() + Duration::from_millis(50);
        self.accountant.follow(soon, None).unwrap();
        let now = self.accountant.snapshot().unwrap();
        let interval = now.since(last);
        *last = now;
        interval
    }
}

/// Row of the host's cgroup at `path`.
fn of<'a>(interval: &'a Interval, path: &Path) -> Option<&'a ContainerLedger> {
    let mut rows = interval.containers.iter();
    rows.find(|row| row.container.is_of_host() && row.container.cgroup_path == path)
}

/// Address of the host for packets of `source`, processed on CPU 0.
struct HostAddress {
    at: std::net::SocketAddr,
    _pair: VethPair,
}

fn join_host(source: &Namespace) -> HostAddress {
    let device = unique_link();
    let pair = VethPair::new((source, "eth0"), (&Host, &device));
    source.address("eth0", "10.96.7.2/24");
    Host.address(&device, "10.96.7.1/24");
    Host.steer(&device, 1);
    source.ping("10.96.7.1");
    HostAddress {
        at: "10.96.7.1:9000".parse().unwrap(),
        _pair: pair,
    }
}

/// Promise 30.
#[test]
fn a_host_job_without_rule_is_a_named_victim() {
    alone(240, || {
        let job = Cgroup::new("job");
        let mut flooded = FloodScene::new();
        let victim = traffic::compute(&job, Some(0), LIMIT * 3);
        let (paid_ns, caused_ns) = flooded.bounded(job.path());
        assert!(caused_ns > paid_ns / 2, "{caused_ns} {paid_ns}");
        assert!(victim.is_alive());
        drop(victim);
        // The accounting forgets a job that has ended together with its cgroup.
        let path = job.path().to_owned();
        drop(job);
        let mut last = flooded.accountant.snapshot().unwrap();
        flooded.interval(&mut last);
        assert!(of(&flooded.interval(&mut last), &path).is_none());
    });
}

/// A service below its slice, as systemd creates it, restarted while the container is enforced.
/// Promise 30.
#[test]
fn a_service_below_a_slice_is_a_named_victim() {
    alone(240, || {
        let slice = Cgroup::new("system.slice");
        let mut flooded = FloodScene::new();
        for _ in 0..2 {
            let service = slice.child("batch.service");
            let _victim = traffic::compute(&service, Some(0), LIMIT * 3);
            let (paid_ns, caused_ns) = flooded.bounded(service.path());
            assert!(caused_ns > paid_ns / 2, "{caused_ns} {paid_ns}");
        }
    });
}

/// A container starts as with a runtime: the first task computes in its cgroup before it enters a
/// namespace, and is a host task until then. The offender stays throttled while the container
/// computes.
/// Promise 30.
#[test]
fn a_container_that_enters_its_namespace_late_stays_protected() {
    alone(240, || {
        let job = Cgroup::new("job");
        // The router's work for the offender's packets, on CPU 0, is in no NAPI thread.
        let uplink = Uplink::new();
        uplink.router.steer("up0", 1);
        uplink.peer.route("default via 10.97.0.2");
        let mut flooded = FloodScene::behind(uplink.router);
        let folder = tempfile::tempdir().unwrap();
        let (mut enforcer, _) = flooded.enforced(folder.path());
        let before = flooded.weight();
        let _sink = traffic::udp_sink(&flooded.offender, Some(0), flooded.to, u64::MAX);
        let flood = Udp::to(flooded.to).bytes(200).flood(LIMIT * 3);
        let _flood = traffic::udp_send(&uplink.peer, Some(1), flood);
        let _victim = fork(&job, Some(0), |_| {
            let compute = |length: &str| format!("timeout {length} sh -c 'while :; do :; done'");
            let line = format!("{}; exec unshare -n {}", compute("2"), compute("300"));
            Err(Command::new("sh").args(["-c", &line]).exec())
        });
        let mut last = flooded.accountant.snapshot().unwrap();
        let mut step = |flooded: &mut FloodScene| {
            let interval = flooded.interval(&mut last);
            enforcer.step(&interval);
            let id = CgroupId(job.id());
            let rows = interval.containers.iter();
            let mut rows = rows.filter(|row| row.container.cgroup == id);
            rows.find(|row| row.ledger.charged_network_ns > 0)
                .map(|row| row.container.is_of_host())
        };
        wait_until("a job of the host to pay", LIMIT, || {
            step(&mut flooded) == Some(true)
        });
        wait_until("the job to be a container", LIMIT, || {
            step(&mut flooded) == Some(false)
        });
        // The average use of host tasks is forgotten after some 0.2 s.
        let throttled = (0..60).filter(|_| {
            step(&mut flooded);
            flooded.weight() < before
        });
        let throttled = throttled.count();
        assert!(
            throttled > 45,
            "the offender was throttled in {throttled} of 60 steps"
        );
        let report = enforcer.revert();
        assert!(report.is_clean() && report.foreign.is_empty(), "{report:?}");
    });
}

/// Promise 30.
#[test]
fn a_thread_of_the_root_cgroup_is_a_victim() {
    alone(240, || {
        let mut flooded = FloodScene::new();
        let victim = traffic::compute(&Host, Some(0), LIMIT * 3);
        let layout = CgroupLayout::read(&HostFs::host()).unwrap();
        for root in layout.v1_mounts.values().chain([&layout.v2_mount]) {
            // The controllers of a runtime's own cgroup do not matter here.
            if !root.ends_with("memory") {
                fs::write(root.join("cgroup.procs"), victim.pid().to_string()).unwrap();
            }
        }
        let (paid_ns, caused_ns) = flooded.bounded(Path::new("/"));
        assert!(caused_ns > paid_ns / 2, "{caused_ns} {paid_ns}");
    });
}

/// The service receives in the host's namespace. The accounting finds it by its sockets once its
/// traffic is worth the lookup, and charges the packets to no other container.
/// Promise 7.
#[test]
fn a_service_that_receives_is_accounted_by_its_sockets() {
    alone(120, || {
        let service = Cgroup::new("receiver");
        let source = Namespace::new("source");
        let to = join_host(&source);
        let mut accountant = Accountant::start(Options::default()).unwrap();
        let sink = traffic::udp_sink(&service, Some(0), to.at, u64::MAX);
        let flood = Udp::to(to.at).bytes(200).flood(LIMIT);
        let _flood = traffic::udp_send(&source, Some(1), flood);
        let mut last = accountant.snapshot().unwrap();
        wait_until("the service to be caused its packets", LIMIT, || {
            let soon = Instant::now() + Duration::from_millis(100);
            accountant.follow(soon, None).unwrap();
            let now = accountant.snapshot().unwrap();
            let interval = now.since(&last);
            last = now;
            let row = of(&interval, service.path());
            row.is_some_and(|row| {
                let host = interval.unattributed_ns[&cofferdam_types::Reason::HostTraffic];
                row.ledger.caused_rx_ns > 10 * host
            })
        });
        assert!(last.conservation().worst_cpu_error_pct <= 1.0);
        drop(sink);
    });
}

/// A service that a rule names floods its neighbours from the host's own namespace: its packets are
/// dropped at its sockets. Then the service and its cgroup end during the flood.
/// Promise 30.
#[test]
fn a_named_receiving_service_is_limited_at_its_sockets() {
    alone(240, || {
        let service = Cgroup::new("service");
        let job = Cgroup::new("job");
        let source = Namespace::new("source");
        let to = join_host(&source);
        let mut accountant = Accountant::start(Options::default()).unwrap();
        let sink = traffic::udp_sink(&service, Some(0), to.at, u64::MAX);
        let _victim = traffic::compute(&job, Some(0), LIMIT * 3);
        let named = format!("cgroup:{}", service.path().display());
        accountant.name(&[named.parse().unwrap()]).unwrap();
        let find = |accountant: &Accountant| {
            let mut all = accountant.containers().into_iter();
            all.find(|c| c.cgroup_path == service.path() && !c.is_of_host())
        };
        let s = find(&accountant).expect("it has a process");
        let folder = tempfile::tempdir().unwrap();
        let mut enforcer = Enforcer::open(options(folder.path())).unwrap();
        enforcer.set(enforce(&[&s]));
        let flood = Udp::to(to.at).bytes(200).flood(LIMIT * 2);
        let _flood = traffic::udp_send(&source, Some(1), flood);

        let mut last = accountant.snapshot().unwrap();
        let mut step = |accountant: &mut Accountant, enforcer: &mut Enforcer| {
            let soon = Instant::now() + Duration::from_millis(20);
            accountant.follow(soon, None).unwrap();
            let now = accountant.snapshot().unwrap();
            enforcer.step(&now.since(&last));
            last = now;
        };
        wait_until("its packets to be dropped", LIMIT, || {
            step(&mut accountant, &mut enforcer);
            let status = enforcer.status();
            let network = status.containers[0].network.as_ref().unwrap();
            network.dropped_rx_packets > 1_000 && means(&enforcer, &s, Means::IngressDrop).in_force
        });
        drop(sink);
        let path = service.path().to_owned();
        drop(service);
        for _ in 0..5 {
            step(&mut accountant, &mut enforcer);
        }
        assert!(
            accountant
                .containers()
                .iter()
                .all(|c| c.cgroup_path != path)
        );
        // The agent does this on the next change of containers.
        enforcer.set(enforce(&[]));
        assert_eq!(enforcer.status().failed_changes, 0);
        let report = enforcer.revert();
        assert!(report.is_clean() && report.foreign.is_empty(), "{report:?}");
    });
}

/// The cost of a flood's interruptions is measured by the task's own clock and by programs that
/// trace this one thread. They count every receive softirq on its CPU, and none on other CPUs or of
/// other threads.
/// Promise 35.
#[test]
fn only_a_tasks_own_interruptions_are_counted() {
    alone(60, || {
        let offender = FakeContainer::new("offender");
        let router = Router::new("router");
        let port = router.attach(&offender);
        offender.steer("eth0", 1);
        let mut programs = Interruptions::load().unwrap();
        let mut watch = |cpu| {
            run_on(CpuId(cpu)).unwrap();
            let spin = |seen: &dyn Fn() -> _| {
                let until = Instant::now() + Duration::from_millis(300);
                while Instant::now() < until {
                    std::hint::spin_loop();
                }
                seen()
            };
            programs.watch(spin).unwrap()
        };
        let quiet = watch(0);
        let flood = Udp::to(port.v4(9000)).bytes(200).flood(LIMIT);
        let flood = traffic::udp_send(&*router, Some(1), flood);
        let mut flooded = quiet;
        wait_until("a flood to CPU 0 to interrupt a task there", LIMIT, || {
            flooded = watch(0);
            flooded.interruptions > 100 + 2 * quiet.interruptions
        });
        assert!(flooded.time > quiet.time, "{flooded:?}, quiet {quiet:?}");
        assert!(flooded.time < Duration::from_millis(300), "{flooded:?}");
        drop(flood);
    });
}
