//! Helpers of the enforcement tests.
#![allow(dead_code, reason = "each test binary uses its part")]

use cofferdam_enforce::{ContainerPolicy, EnforceOptions, Enforcer};
use cofferdam_host::{HostFs, Inventory};
use cofferdam_lab::fixtures::{
    Cgroup, FakeContainer, Namespace, Net, Port, Router, VethPair, exclusive, time_limit, vxlan,
};
use cofferdam_types::{
    CgroupId, Conservation, Container, ContainerLedger, CpuId, CpuTime, Health, Interval, Ledger,
    Means, MeansState, NetworkCpu, Policy,
};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Runs one root test at a time, with a time limit. Asserts that it leaves nothing behind.
pub fn alone(seconds: u64, body: impl FnOnce() + Send + 'static) {
    let _alone = exclusive();
    time_limit(Duration::from_secs(seconds), body);
    cofferdam_lab::fixtures::assert_nothing_left();
}

/// The container as the inventory discovers it.
pub fn found(container: &FakeContainer) -> Arc<Container> {
    let inventory = Inventory::scan().expect("the host can be scanned");
    let mut all = inventory.containers();
    let found = all.find(|c| c.cgroup == CgroupId(container.id()));
    found.expect("a fake container is found").clone()
}

/// Enforcement with a journal of its own.
pub fn options(folder: &Path) -> EnforceOptions {
    EnforceOptions {
        folder: folder.to_owned(),
        ..EnforceOptions::default()
    }
}

pub fn enforce(containers: &[&Arc<Container>]) -> Vec<ContainerPolicy> {
    let policy = Policy {
        network_cpu: NetworkCpu::Enforce,
        ..Policy::default()
    };
    let wanted = containers
        .iter()
        .map(|c| ContainerPolicy::new(Arc::clone(c), policy));
    wanted.collect()
}

/// A peer, and a router that forwards to containers, connected by the link `p0`–`up0`.
pub struct Uplink {
    pub router: Router,
    pub peer: Namespace,
    _link: VethPair,
}

impl Uplink {
    pub fn new() -> Uplink {
        let (router, peer) = (Router::new("router"), Namespace::new("peer"));
        let link = VethPair::new((&peer, "p0"), (&*router, "up0"));
        peer.address("p0", "10.97.0.1/24");
        router.address("up0", "10.97.0.2/24");
        Uplink {
            router,
            peer,
            _link: link,
        }
    }

    /// From now on, the peer's packets to containers go through a VXLAN to port 4789.
    pub fn tunnel(&self) {
        let (router, peer) = (&*self.router, &self.peer);
        vxlan(router, "vx0", 7, "up0", "10.97.0.2", "10.97.0.1");
        vxlan(peer, "vx0", 7, "p0", "10.97.0.1", "10.97.0.2");
        router.address("vx0", "10.96.0.2/24");
        peer.address("vx0", "10.96.0.1/24");
        peer.route("default via 10.96.0.2");
    }
}

/// An offender and a victim behind a router, both enforced.
pub struct Scene {
    pub enforcer: Enforcer,
    pub offender: FakeContainer,
    pub victim: FakeContainer,
    pub router: Router,
    pub port: Port,
    /// The offender as the inventory discovers it.
    pub o: Arc<Container>,
    /// The victim as the inventory discovers it.
    pub v: Arc<Container>,
    /// [`Scene::state`] before enforcement.
    pub before: String,
    _folder: tempfile::TempDir,
}

impl Scene {
    /// Scene in which the offender's NAPI thread runs in its cgroup.
    pub fn engaged() -> Scene {
        let mut scene = Scene::new();
        until_napi_in_force(
            &mut scene.enforcer,
            &scene.o,
            &interval(&scene.o, &scene.v, 10),
        );
        scene
    }

    /// Scene before the first step.
    pub fn new() -> Scene {
        Scene::prepared(|_| {})
    }

    /// Scene before the first step, after `prepare` has changed the offender.
    pub fn prepared(prepare: impl FnOnce(&FakeContainer)) -> Scene {
        let (offender, victim) = (FakeContainer::new("offender"), FakeContainer::new("victim"));
        let router = Router::new("router");
        let port = router.attach(&offender);
        router.attach(&victim);
        prepare(&offender);
        let before = state(&offender, &*router, &port.device);
        let folder = tempfile::tempdir().expect("a folder");
        let mut enforcer = Enforcer::open(options(folder.path())).expect("nobody else enforces");
        let (o, v) = (found(&offender), found(&victim));
        enforcer.set(enforce(&[&o, &v]));
        Scene {
            enforcer,
            offender,
            victim,
            router,
            port,
            o,
            v,
            before,
            _folder: folder,
        }
    }

    /// Passes changes that a runtime or an administrator made to the offender.
    pub fn follow(&mut self) {
        self.o = found(&self.offender);
        self.enforcer.set(enforce(&[&self.o, &self.v]));
    }

    /// Takes steps in which the offender causes work and the victim is charged, until `done`.
    pub fn until(&mut self, what: &str, mut done: impl FnMut(&Scene) -> bool) {
        let interval = interval(&self.o, &self.v, 10);
        cofferdam_lab::fixtures::wait_until(what, Duration::from_secs(10), || {
            self.enforcer.step(&interval);
            done(self)
        });
    }

    /// Reverts all changes; `meanwhile` undoes changes of the offender. Asserts that the state is
    /// as before.
    pub fn ends_as_it_began(self, meanwhile: impl FnOnce(&FakeContainer)) {
        let report = self.enforcer.revert();
        assert!(report.is_clean() && report.foreign.is_empty(), "{report:?}");
        meanwhile(&self.offender);
        let after = state(&self.offender, &*self.router, &self.port.device);
        assert_eq!(after, self.before);
    }

    /// State of the offender's interface and cgroup, and of the router's port to it.
    pub fn state(&self) -> String {
        state(&self.offender, &*self.router, &self.port.device)
    }
}

/// Synthetic interval of 20 ms: on CPU 0 softirqs took `softirq_ms` for `offender`'s packets, half
/// of it in the time of `victim`.
pub fn interval(offender: &Arc<Container>, victim: &Arc<Container>, softirq_ms: u64) -> Interval {
    let ns = softirq_ms * 1_000_000;
    let row = |container: &Arc<Container>, caused_ns: u64, billed_ns: u64| ContainerLedger {
        container: container.clone(),
        ledger: Ledger {
            caused_rx_ns: caused_ns,
            rx_packets: caused_ns / 1000,
            charged_network_ns: ns / 2,
            cpu_usage_ns: billed_ns,
            ..Ledger::default()
        },
        caused_by_cpu_ns: vec![caused_ns, 0],
        charged_by_cpu_ns: vec![ns / 2, 0],
        interruptions_by_cpu: vec![ns / 20_000, 0],
        received_from: Default::default(),
    };
    let cpu = CpuTime {
        softirq_ns: ns,
        network_softirq_ns: ns,
        attributed_ns: ns,
        interruptions: ns / 10_000,
        ..CpuTime::default()
    };
    Interval {
        time: SystemTime::now(),
        length: Duration::from_millis(20),
        cpus: vec![(CpuId(0), cpu), (CpuId(1), CpuTime::default())],
        containers: vec![row(offender, ns, 10_000_000), row(victim, 0, 10_000_000)],
        unattributed_ns: BTreeMap::new(),
        health: Health::default(),
        conservation: Conservation {
            measured_ns: ns,
            attributed_ns: ns,
            worst_cpu_error_pct: 0.0,
        },
        sampling: None,
    }
}

/// State of one means of a container.
pub fn means(enforcer: &Enforcer, container: &Container, means: Means) -> MeansState {
    let status = enforcer.status();
    let mut all = status.containers.into_iter();
    let found = all.find(|c| c.cgroup == container.cgroup);
    let network = found.expect("it is wanted").network;
    let mut states = network.expect("it is enforced").means.into_iter();
    states
        .find(|s| s.means == means)
        .expect("every means is reported")
}

/// Takes steps until the NAPI thread of `container` runs in its cgroup: the kernel needs some time.
pub fn until_napi_in_force(enforcer: &mut Enforcer, container: &Container, interval: &Interval) {
    let mut why = String::new();
    for _ in 0..500 {
        enforcer.step(interval);
        let state = means(enforcer, container, Means::NapiThread);
        if state.in_force {
            return;
        }
        why = state.why;
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{why}");
}

/// Everything that enforcement may change for a container, as text.
pub fn state(container: &FakeContainer, host: &dyn Net, host_device: &str) -> String {
    let mut text = container.sh(
        "ethtool -k eth0; cd /sys/class/net/eth0; cat threaded queues/rx-*/rps_cpus; \
         ip link show eth0",
    );
    text += &host.sh(&format!("ethtool -k {host_device}; ip link"));
    let cgroup: &Cgroup = container.cgroup();
    for directory in [
        cgroup.dir(),
        cgroup.controller("cpu"),
        cgroup.controller("cpuacct"),
    ] {
        let mut names: Vec<String> = fs::read_dir(directory)
            .expect("the fixture's cgroup exists")
            .filter_map(|e| e.ok().filter(|e| e.path().is_dir()))
            .map(|e| e.path().display().to_string())
            .collect();
        names.sort();
        text += &names.join("\n");
        for file in ["cpu.shares", "cpu.weight", "cpu.cfs_quota_us", "cpu.max"] {
            text += &fs::read_to_string(directory.join(file)).unwrap_or_default();
        }
    }
    text
}

/// The host, for callers that change none of its files.
pub fn host() -> HostFs {
    HostFs::host()
}
