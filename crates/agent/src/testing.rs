//! Complete agent in one process without the kernel: ledger and effects are synthetic.

use crate::assign::Assigner;
use crate::client::Client;
use crate::config::Source;
use crate::control::{Channels, Control, EndCause, Signals};
use crate::effects::{Effects, RevertResult};
use crate::ledger::Ledger;
use crate::losses::{Diagnose, OpenDiagnosis};
use crate::server::{ControlSocket, Notice, Parts, Server};
use crate::wake::{self, Waker};
use cofferdam_accounting::ReadError;
use cofferdam_enforce::ContainerPolicy;
use cofferdam_host::{HostFs, Introduction};
use cofferdam_types::{
    AccountingMode, CgroupId, Container, ContainerLedger, ContainerStatus, CpuAmount, CpuId,
    CpuLoss, CpuTime, Degradation, DiagnosedContainer, DiagnosisHealth, EnforcementStatus,
    Entitlement, Health, Interval, Ledger as Counts, Neighbour, NetnsId, NetworkEnforcement,
    Policy, Sampling, ScheduleInterval, ScheduleTime, Selector, Snapshot,
};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{channel, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

/// State that the test changes while the agent runs, and records of the calls that it received.
#[derive(Clone, Debug, Default)]
pub(crate) struct World {
    pub containers: Arc<Mutex<Vec<Arc<Container>>>>,
    /// Each complete set that the effects received.
    pub sets: Arc<Mutex<Vec<Vec<ContainerPolicy>>>>,
    /// Selectors that the ledger was last asked to count as containers.
    pub named: Arc<Mutex<Vec<Selector>>>,
    /// Containers to which CPUs are promised.
    pub promised: Arc<Mutex<Vec<String>>>,
    pub promises_applied: Arc<AtomicU64>,
    /// Runtime records that the ledger received.
    pub introduced: Arc<Mutex<Vec<Introduction>>>,
    /// Whether names are read from files, once that was set.
    pub reads_files: Arc<Mutex<Option<bool>>>,
    pub steps: Arc<AtomicU64>,
    pub reverted: Arc<AtomicU64>,
    pub opened: Arc<AtomicU64>,
    pub unavailable: Arc<AtomicBool>,
    pub unreadable: Arc<AtomicBool>,
    /// Whether every container pays for others with half a CPU.
    pub pays: Arc<AtomicBool>,
    /// Whether the ledger says that it is estimated.
    pub estimates: Arc<AtomicBool>,
    /// For each step of the effects: number of containers in the interval, and its length.
    pub judged: Arc<Mutex<Vec<(usize, Duration)>>>,
    /// Whether a container came whose use the effects do not know yet.
    pub needs_usage: Arc<AtomicBool>,
    /// Readings, between two frames of the recorder, that needed current CPU use.
    pub usage_readings: Arc<AtomicU64>,
}

impl World {
    pub fn add(&self, id: u64, name: &str) {
        self.containers.lock().unwrap().push(container(id, name));
    }

    pub fn add_with_id(&self, id: u64, name: &str, runtime_id: &str) {
        let container = Container::clone(&container(id, name));
        self.containers.lock().unwrap().push(Arc::new(Container {
            id: Some(runtime_id.to_owned()),
            ..container
        }));
    }

    pub fn promises(&self) -> Vec<String> {
        self.promised.lock().unwrap().clone()
    }

    pub fn promises_applied(&self) -> u64 {
        self.promises_applied.load(Ordering::Relaxed)
    }

    pub fn remove(&self, id: u64) {
        self.containers.lock().unwrap().retain(|c| c.cgroup.0 != id);
    }

    /// Names in the newest set of the containers whose classes change the host.
    pub fn wanted(&self) -> Vec<String> {
        let sets = self.sets.lock().unwrap();
        let last = sets.last().cloned().unwrap_or_default();
        let last = last
            .iter()
            .filter(|w| crate::rules::changes_host(&w.policy));
        last.map(|w| w.container.name.clone()).collect()
    }
}

pub(crate) fn container(id: u64, name: &str) -> Arc<Container> {
    Arc::new(Container {
        descendants: vec![CgroupId(id + 1000)],
        netns: Some(NetnsId(4_026_531_000)),
        pid: Some(7),
        ..Container::plain(CgroupId(id), format!("/tenants/{name}"), name)
    })
}

/// Interval in which each of `paid` (cgroup, milliseconds) paid that much for others.
pub(crate) fn interval_with_payments(length: Duration, paid: &[(u64, u64)]) -> Interval {
    let snapshot = |uptime, share: u64| Snapshot {
        time: SystemTime::UNIX_EPOCH,
        uptime,
        cpus: vec![(CpuId(0), CpuTime::default())],
        containers: paid
            .iter()
            .map(|(id, ms)| ContainerLedger {
                container: container(*id, &format!("c{id}")),
                ledger: Counts {
                    charged_network_ns: share * ms * 1_000_000,
                    ..Counts::default()
                },
                caused_by_cpu_ns: vec![0],
                charged_by_cpu_ns: vec![share * ms * 1_000_000],
                interruptions_by_cpu: vec![0],
                received_from: Default::default(),
            })
            .collect(),
        unattributed_ns: BTreeMap::new(),
        health: Health::default(),
        sampling: None,
    };
    snapshot(length, 1).since(&snapshot(Duration::ZERO, 0))
}

/// Enforced container to which `ms` milliseconds were returned.
pub(crate) fn status_with_returned(id: u64, ms: u64) -> ContainerStatus {
    ContainerStatus {
        cgroup: CgroupId(id),
        name: format!("c{id}"),
        policy: Policy::default(),
        network: Some(NetworkEnforcement {
            means: Vec::new(),
            debt_ns: 0,
            forgiven_ns: 0,
            charged_ns: 0,
            returned_ns: ms * 1_000_000,
            dropped_rx_packets: 0,
            dropped_tx_packets: 0,
        }),
        reservation: None,
        degraded: Vec::new(),
    }
}

struct FakeLedger {
    world: World,
    tracked: Vec<Arc<Container>>,
    generation: u64,
    started: Instant,
}

impl Ledger for FakeLedger {
    fn follow(&mut self, until: Instant, wake: BorrowedFd<'_>) -> Result<(), ReadError> {
        let left = until.saturating_duration_since(Instant::now());
        let timeout = PollTimeout::from(u16::try_from(left.as_millis() + 1).unwrap());
        poll(&mut [PollFd::new(wake, PollFlags::POLLIN)], timeout).unwrap();
        Ok(())
    }

    fn quick_snapshot(&mut self, usage_age: Duration) -> Result<Snapshot, ReadError> {
        let readings = u64::from(usage_age.is_zero());
        self.world
            .usage_readings
            .fetch_add(readings, Ordering::Relaxed);
        self.snapshot()
    }

    fn snapshot(&mut self) -> Result<Snapshot, ReadError> {
        if self.world.unreadable.load(Ordering::Relaxed) {
            return Err(ReadError("the map is gone".into()));
        }
        let before = std::mem::replace(
            &mut self.tracked,
            self.world.containers.lock().unwrap().clone(),
        );
        self.generation += u64::from(before != self.tracked);
        let ended = before
            .iter()
            .filter(|c| !self.tracked.iter().any(|k| k.cgroup == c.cgroup));
        let uptime = self.started.elapsed();
        let uptime_ns = uptime.as_nanos() as u64;
        let paid_ns = u64::from(self.world.pays.load(Ordering::Relaxed)) * uptime_ns / 2;
        let estimates = self.mode() == AccountingMode::Sampled;
        let entry = |c: &Arc<Container>| ContainerLedger {
            container: c.clone(),
            ledger: Counts {
                caused_rx_ns: c.cgroup.0 * 1000,
                charged_network_ns: paid_ns,
                ..Counts::default()
            },
            caused_by_cpu_ns: vec![1],
            charged_by_cpu_ns: vec![1],
            interruptions_by_cpu: vec![1],
            received_from: Default::default(),
        };
        Ok(Snapshot {
            time: SystemTime::now(),
            uptime,
            cpus: vec![(CpuId(0), CpuTime::default())],
            containers: ended.chain(&self.tracked).map(entry).collect(),
            unattributed_ns: BTreeMap::new(),
            health: Health::default(),
            sampling: Some(Arc::new(Sampling {
                mode: self.mode(),
                estimated_ns: u64::from(estimates) * uptime_ns,
                ..Sampling::default()
            })),
        })
    }

    fn containers(&self) -> Vec<Arc<Container>> {
        self.tracked.clone()
    }

    fn name(&mut self, selectors: &[Selector]) -> Result<(), ReadError> {
        *self.world.named.lock().unwrap() = selectors.to_vec();
        Ok(())
    }

    fn introduce(&mut self, containers: Vec<Introduction>) -> Result<(), ReadError> {
        self.world.introduced.lock().unwrap().extend(containers);
        Ok(())
    }

    fn read_runtime_files(&mut self, read: bool) -> Result<(), ReadError> {
        *self.world.reads_files.lock().unwrap() = Some(read);
        Ok(())
    }

    fn generation(&self) -> u64 {
        self.generation
    }

    fn mode(&self) -> AccountingMode {
        match self.world.estimates.load(Ordering::Relaxed) {
            true => AccountingMode::Sampled,
            false => AccountingMode::Exact,
        }
    }
}

struct FakeEffects(World);

impl Effects for FakeEffects {
    fn set(&mut self, wanted: Vec<ContainerPolicy>) {
        self.0.sets.lock().unwrap().push(wanted);
    }

    fn promise(
        &mut self,
        container: &str,
        _: &std::path::Path,
        _: CpuAmount,
    ) -> Result<String, String> {
        self.0.promised.lock().unwrap().push(container.to_owned());
        Ok("7".to_owned())
    }

    fn cancel_promise(&mut self, container: &str) -> bool {
        let mut promised = self.0.promised.lock().unwrap();
        let before = promised.len();
        promised.retain(|id| id != container);
        promised.len() < before
    }

    fn apply_promises(&mut self) {
        self.0.promises_applied.fetch_add(1, Ordering::Relaxed);
    }

    fn step(&mut self, interval: &Interval) {
        let judged = (interval.containers.len(), interval.length);
        self.0.judged.lock().unwrap().push(judged);
        self.0.steps.fetch_add(1, Ordering::Relaxed);
    }

    fn needs_usage(&self) -> bool {
        self.0.needs_usage.load(Ordering::Relaxed)
    }

    fn status(&self) -> EnforcementStatus {
        EnforcementStatus {
            changes_in_force: self.0.wanted().len() as u64,
            ..EnforcementStatus::default()
        }
    }

    fn revert(self: Box<Self>) -> RevertResult {
        self.0.reverted.fetch_add(1, Ordering::Relaxed);
        RevertResult::default()
    }
}

/// Diagnosis in which each container got half a second of each second, and waited for the rest.
struct FakeDiagnosis;

/// Interval in which each container is entitled to a CPU, gets half of it, and loses `lost_ms` of
/// each second to the host.
pub(crate) fn interval_with_losses(
    containers: &[Arc<Container>],
    length: Duration,
    lost_ms: u64,
) -> ScheduleInterval {
    let of = |ms_a_second: u64| ms_a_second * length.as_millis() as u64 * 1000;
    let time = ScheduleTime {
        run_ns: of(500),
        shared_ns: of(lost_ms),
        ..ScheduleTime::default()
    };
    let one = |container: &Arc<Container>| DiagnosedContainer {
        container: container.clone(),
        loss: CpuLoss::split(of(1000), &time),
        entitlement: Entitlement::Weight,
        time,
        neighbour: Some(Neighbour::Host),
    };
    ScheduleInterval {
        length,
        counted: length,
        cpus: 1,
        idle_ns: 0,
        left_idle_ns: 0,
        host_ns: 0,
        containers: containers.iter().map(one).collect(),
        shares: Vec::new(),
        unused: Vec::new(),
        health: DiagnosisHealth::default(),
    }
}

impl Diagnose for FakeDiagnosis {
    fn read(
        &mut self,
        containers: &[Arc<Container>],
        _: BTreeMap<CgroupId, CpuAmount>,
    ) -> Result<Option<ScheduleInterval>, String> {
        Ok(Some(interval_with_losses(
            containers,
            Duration::from_secs(1),
            500,
        )))
    }

    fn rest(&mut self) -> Result<(), String> {
        Ok(())
    }

    fn resume(&mut self, _: &[Arc<Container>]) -> Result<(), String> {
        Ok(())
    }
}

/// Running agent. Dropping it stops the agent.
pub(crate) struct TestAgent {
    pub world: World,
    pub folder: tempfile::TempDir,
    terminate: Arc<AtomicBool>,
    reload: Arc<AtomicBool>,
    wake: Waker,
    control: Option<JoinHandle<(Result<EndCause, ReadError>, RevertResult)>>,
    server: Option<JoinHandle<()>>,
}

impl TestAgent {
    pub fn start(config: &str) -> TestAgent {
        TestAgent::start_with(config, World::default())
    }

    pub fn start_with(config: &str, world: World) -> TestAgent {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.toml");
        let head = format!(
            "socket.path = \"{}\"\nmetrics.address = \"127.0.0.1:0\"\n",
            folder.path().join("agent.sock").display()
        );
        std::fs::write(&path, head + config).unwrap();
        let source = Source::new(Some(&path));
        let loaded = source.load().unwrap();
        let (wake_control, sleeper) = wake::pair().unwrap();
        let (wake_server, server_sleeper) = wake::pair().unwrap();
        let (commands, incoming) = sync_channel(64);
        let (notices, notices_receiver) = channel();
        let signals = Signals::default();
        let (terminate, reload) = (signals.terminate.clone(), signals.reload.clone());
        let socket = ControlSocket::open(&loaded.config.socket).unwrap();
        let metrics = loaded.config.metrics.address;
        let ledger = FakeLedger {
            world: world.clone(),
            tracked: Vec::new(),
            generation: 0,
            started: Instant::now(),
        };
        let (ready, started) = channel();
        let theirs = world.clone();
        let control = std::thread::spawn(move || {
            let world = theirs.clone();
            let open: crate::control::OpenEffects = Box::new(move |_| {
                world.opened.fetch_add(1, Ordering::Relaxed);
                if world.unavailable.load(Ordering::Relaxed) {
                    return Err(Degradation {
                        name: "enforcement_unavailable".into(),
                        text: "another agent enforces".into(),
                    });
                }
                Ok(Box::new(FakeEffects(world.clone())) as Box<dyn Effects>)
            });
            let world = theirs.clone();
            let diagnosis: OpenDiagnosis = Box::new(move || {
                if world.unavailable.load(Ordering::Relaxed) {
                    return Err("no such tracepoint".into());
                }
                Ok(Box::new(FakeDiagnosis) as Box<dyn Diagnose>)
            });
            let assigner = Assigner::new(HostFs::host(), Vec::new());
            let control = Control::start(
                ledger,
                (open, diagnosis),
                assigner,
                (source, loaded),
                signals,
            );
            let control = control.unwrap();
            let view = Arc::new(Mutex::new(Arc::new(control.view())));
            ready.send(view.clone()).unwrap();
            let channels = Channels {
                commands: incoming,
                sleeper,
                notices,
                wake_server,
                view,
            };
            let ended = control.run(&channels);
            let _ = channels.notices.send(Notice::End);
            channels.wake_server.wake();
            ended
        });
        let view = started.recv().unwrap();
        let waker = wake_control.descriptor().unwrap();
        let server = Server::new(Parts {
            control: socket,
            metrics,
            view,
            commands,
            wake_control,
            notices: notices_receiver,
            sleeper: server_sleeper,
        });
        TestAgent {
            world,
            folder,
            terminate,
            reload,
            wake: Waker::from_descriptor(waker),
            control: Some(control),
            server: Some(std::thread::spawn(move || server.run())),
        }
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("agent.sock")
    }

    pub fn client(&self) -> Client {
        Client::connect(&self.socket()).unwrap()
    }

    /// Writes another configuration; socket and metrics stay unchanged.
    pub fn rewrite(&self, config: &str) {
        let path = self.folder.path().join("agent.toml");
        let head = format!(
            "socket.path = \"{}\"\nmetrics.address = \"127.0.0.1:0\"\n",
            self.socket().display()
        );
        std::fs::write(path, head + config).unwrap();
    }

    pub fn send_sighup(&self) {
        self.reload.store(true, Ordering::Relaxed);
        self.wake.wake();
    }

    /// Ends the agent like SIGTERM does.
    pub fn stop(&mut self) -> Option<EndCause> {
        self.terminate.store(true, Ordering::Relaxed);
        self.wake.wake();
        self.join()
    }

    /// Waits for the end of the agent.
    pub fn join(&mut self) -> Option<EndCause> {
        let (ended, _) = self.control.take()?.join().unwrap();
        self.server.take()?.join().unwrap();
        Some(ended.unwrap())
    }
}

impl Drop for TestAgent {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Waits until `condition` holds; panics after 20 s.
#[track_caller]
pub(crate) fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "waited in vain: {what}"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}
