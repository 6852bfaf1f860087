//! One sample: sets up the containers by a policy, starts the neighbours, measures the target.

use super::containers::{Containers, Member, SCALE};
use super::ground::{self, Ground, reserved_amount};
use super::options::Options;
use super::watch::Watch;
use crate::cpustat::{self, CpuStat};
use crate::data::{Latency, SCHEMA};
use crate::error::BenchError;
use crate::experiment::Rig;
use crate::host_facts;
use crate::reservation::data::{
    DEMO_RESERVATIONS, Neighbours, ReservationCell, ReservationPolicy, ReservationSample, Target,
};
use crate::run::Kind;
use crate::rundir::now;
use crate::spawn::{Place, Worker};
use crate::worker::{VictimReport, WakerReport};
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Time between the start of the neighbours and that of the target.
const SETTLE: Duration = Duration::from_millis(300);
/// Time between two steps of the reservations, as in the agent.
const STEP: Duration = Duration::from_millis(50);
/// Units of work in a phase for each reserved CPU: about 4 ms.
const UNITS_PER_CPU: f64 = 150.0;
/// Phases of the calibration.
const PROBE_PHASES: u64 = 50;
/// Rate and work of the interactive target.
const WAKE_PERIOD_US: u64 = 1_000;
const WAKE_WORK_US: u64 = 100;
/// Load of memcached.
const CONNECTIONS: u32 = 8;
const REQUESTS_PER_S: f64 = 4_000.0;
/// Longest life of a worker, seconds.
const LIMIT_S: u32 = 600;

/// Final report of a target's worker.
struct TargetReport {
    elapsed_s: f64,
    latency: Option<Latency>,
    checksum: Option<String>,
}

/// State of one run.
pub(super) struct Bench<'a> {
    options: &'a Options,
    ground: Box<dyn Ground>,
    watch: Option<Watch>,
    phases: HashMap<Target, u64>,
}

impl<'a> Bench<'a> {
    /// Starts the diagnosis and the ground. Warns and goes without diagnosis if this host cannot
    /// run it.
    pub fn new(options: &'a Options, rig: &mut Rig<'_>) -> Result<Bench<'a>, BenchError> {
        let watch = match Watch::start() {
            Ok(watch) => Some(watch),
            Err(why) => {
                rig.warn(&format!("the causes of lost CPU time are not shown: {why}"))?;
                None
            }
        };
        Ok(Bench {
            options,
            ground: ground::of(options, rig)?,
            watch,
            phases: HashMap::new(),
        })
    }

    /// Measures all rounds of one cell.
    pub fn cell(
        &mut self,
        rig: &mut Rig<'_>,
        cell: &ReservationCell,
        samples: &mut Vec<ReservationSample>,
    ) -> Result<(), BenchError> {
        let before = samples.iter().find_map(|s| s.phases);
        if let Some(phases) = before {
            // All parts of a run have the same work.
            self.phases.insert(cell.target, phases);
        }
        self.calibrate(cell)?;
        // After the rounds of an earlier part of this run.
        let first = samples.iter().map(|s| s.round + 1).max().unwrap_or(0);
        for round in first..first + self.options.rounds {
            let mut policies = self.ground.policies();
            // A single thread that wakes has no use for another.
            policies.retain(|p| {
                cell.target != Target::Wakeups || *p != ReservationPolicy::ScaledThreads
            });
            rig.random.shuffle(&mut policies);
            for (position, policy) in (0..).zip(policies) {
                rig.progress.step(
                    (round - first) as usize,
                    self.options.rounds as usize,
                    &format!("{}, {}", cell.id, policy.words()),
                );
                let mut sample = self.sample(rig, cell, policy)?;
                (sample.round, sample.position) = (round, position);
                match rig.dir.manifest().kind {
                    Kind::Demo => rig.dir.sample_in(DEMO_RESERVATIONS, &sample)?,
                    _ => rig.dir.sample(&sample)?,
                }
                samples.push(sample);
            }
        }
        Ok(())
    }

    /// Finds the work that takes the wanted time without neighbours.
    fn calibrate(&mut self, cell: &ReservationCell) -> Result<(), BenchError> {
        if cell.target.is_interactive() || self.phases.contains_key(&cell.target) {
            return Ok(());
        }
        self.ground.arrange(cell, ReservationPolicy::Alone)?;
        let containers = self.ground.containers()?;
        let args = batch(cell, cell.threads, PROBE_PHASES);
        let mut worker = Worker::start(&containers.target.place(), &args)?;
        worker.go()?;
        let report: VictimReport = worker.answer()?;
        // By CPU time, so that a busy host does not make the work smaller.
        let per_phase = report.cpu_s / PROBE_PHASES as f64 / cell.reserved_cpus;
        let phases = (self.options.seconds() / per_phase.max(1e-6))
            .round()
            .max(1.0);
        self.phases.insert(cell.target, phases as u64);
        Ok(())
    }

    fn sample(
        &mut self,
        rig: &mut Rig<'_>,
        cell: &ReservationCell,
        policy: ReservationPolicy,
    ) -> Result<ReservationSample, BenchError> {
        self.ground.arrange(cell, policy)?;
        let containers = self.ground.containers()?;
        let neighbours = match policy {
            ReservationPolicy::Alone => Vec::new(),
            _ => start_neighbours(containers, cell)?,
        };
        let (_server, mut target) = self.start_target(rig, containers, cell, policy)?;
        pass(self.ground.as_mut(), rig, SETTLE)?;
        let lendings = self.ground.lendings();
        let containers = self.ground.containers()?;
        let promised = reserved_amount(cell, policy)?;
        let watched = self.watch.as_mut();
        let watched = watched.map(|w| w.begin(containers, cell, promised));
        let watched = watched.transpose()?;
        let before = resource_use(containers, cell);
        target.go()?;
        while !target.has_line(Duration::from_millis(20))? {
            pass(self.ground.as_mut(), rig, Duration::ZERO)?;
        }
        let after = resource_use(self.ground.containers()?, cell);
        let entitled = match (&mut self.watch, &watched) {
            (Some(watch), Some(begun)) => watch.end(begun)?,
            _ => None,
        };
        let report = read_report(&mut target, cell.target)?;
        for neighbour in neighbours {
            neighbour.end()?;
        }
        let cpu_s = after.1 - before.1;
        let passed = after.0.since(&before.0);
        Ok(ReservationSample {
            schema: SCHEMA,
            time: now(),
            cell: cell.id.clone(),
            policy,
            round: 0,
            position: 0,
            elapsed_s: report.elapsed_s,
            cpu_s,
            cpu_got: cpu_s / (report.elapsed_s * cell.reserved_cpus),
            latency: report.latency,
            host_utilisation: 1.0 - passed.idle / passed.total().max(1.0),
            neighbour_cpu_s: after.2 - before.2,
            lendings: self.ground.lendings().saturating_sub(lendings),
            entitled,
            checksum: report.checksum,
            phases: self.phases.get(&cell.target).copied(),
        })
    }

    /// Starts the worker that reports the result and, for memcached, the server.
    fn start_target(
        &self,
        rig: &Rig<'_>,
        containers: &Containers,
        cell: &ReservationCell,
        policy: ReservationPolicy,
    ) -> Result<(Option<Worker>, Worker), BenchError> {
        let seconds = self.options.seconds();
        let more = policy == ReservationPolicy::ScaledThreads;
        let scale = if more { SCALE } else { 1.0 };
        let threads = (f64::from(cell.threads) * scale).ceil() as u32;
        let place = containers.target.place();
        match cell.target {
            Target::Wakeups => {
                let args = format!(
                    "waker --period-us {WAKE_PERIOD_US} --work-us {WAKE_WORK_US} \
                     --seconds {seconds} --any-cpu 1 --limit {LIMIT_S}"
                );
                Ok((None, Worker::start(&place, &args)?))
            }
            Target::Memcached => {
                let port = free_port()?;
                let args = format!(
                    "memcached --threads {threads} --port {port} --any-cpu 1 --limit {LIMIT_S}"
                );
                let mut server = Worker::start(&place, &args)?;
                server.go()?;
                // The client stands for another host: it must not wait for a CPU here.
                let outside = Place {
                    cpu: Some(rig.peer_cpu),
                    ..Place::default()
                };
                let args = format!(
                    "memcached-client --port {port} --connections {CONNECTIONS} \
                     --rate {REQUESTS_PER_S} --seconds {seconds} --realtime 1 --limit {LIMIT_S}"
                );
                Ok((Some(server), Worker::start(&outside, &args)?))
            }
            Target::Batch | Target::BatchMemory | Target::Xz => {
                let phases = self.phases.get(&cell.target).copied().unwrap_or(1);
                let args = batch(cell, threads, phases);
                Ok((None, Worker::start(&place, &args)?))
            }
        }
    }
}

/// Waits at least `time`, while it serves the reservations and the signals.
fn pass(ground: &mut dyn Ground, rig: &mut Rig<'_>, time: Duration) -> Result<(), BenchError> {
    let start = Instant::now();
    loop {
        ground.step();
        rig.check()?;
        let left = time.saturating_sub(start.elapsed());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(STEP));
    }
}

/// Starts one worker in each neighbour.
fn start_neighbours(
    containers: &Containers,
    cell: &ReservationCell,
) -> Result<Vec<Worker>, BenchError> {
    let memory = u32::from(cell.neighbours == Neighbours::Memory);
    let threads = cell.neighbour_threads;
    let args =
        format!("neighbour --threads {threads} --memory {memory} --any-cpu 1 --limit {LIMIT_S}");
    let neighbours = containers.neighbours(cell).iter();
    let workers = neighbours.map(|neighbour| {
        let mut worker = Worker::start(&neighbour.place(), &args)?;
        worker.go()?;
        Ok(worker)
    });
    workers.collect()
}

/// Use of the host, CPU seconds of the target, CPU seconds of the neighbours.
fn resource_use(containers: &Containers, cell: &ReservationCell) -> (CpuStat, f64, f64) {
    let neighbours = containers.neighbours(cell).iter();
    (
        stat(),
        containers.target.cpu_s(),
        neighbours.map(Member::cpu_s).sum(),
    )
}

/// Finds a free port of the loopback device.
fn free_port() -> Result<u16, BenchError> {
    std::net::TcpListener::bind(("127.0.0.1", 0))
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .map_err(BenchError::host("find a free port on", "127.0.0.1"))
}

fn batch(cell: &ReservationCell, threads: u32, phases: u64) -> String {
    let units = (UNITS_PER_CPU * cell.reserved_cpus) as u64;
    if cell.target == Target::Xz {
        return format!(
            "compress --threads {threads} --phases {phases} --any-cpu 1 --limit {LIMIT_S}"
        );
    }
    let memory = u32::from(cell.target == Target::BatchMemory);
    format!(
        "phases --threads {threads} --phases {phases} --units {units} --memory {memory} \
         --any-cpu 1 --limit {LIMIT_S}"
    )
}

fn read_report(worker: &mut Worker, target: Target) -> Result<TargetReport, BenchError> {
    if target.is_interactive() {
        let report: WakerReport = worker.answer()?;
        return Ok(TargetReport {
            elapsed_s: report.elapsed_s,
            latency: Some(report.latency),
            checksum: None,
        });
    }
    let report: VictimReport = worker.answer()?;
    Ok(TargetReport {
        elapsed_s: report.elapsed_s,
        latency: None,
        checksum: Some(report.checksum),
    })
}

/// Sum over all CPUs of the host.
fn stat() -> CpuStat {
    let all = host_facts::online_cpus().into_iter();
    all.filter_map(cpustat::read)
        .fold(CpuStat::default(), |sum, one| CpuStat {
            idle: sum.idle + one.idle,
            busy: sum.busy + one.busy,
            softirq: sum.softirq + one.softirq,
            steal: sum.steal + one.steal,
        })
}
