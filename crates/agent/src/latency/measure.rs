//! Thread that measures latency: it reads the kernel's rings and sums up. The control loop hands
//! containers in, takes the sums out, and never waits for it.

use super::StartError;
use super::histogram::Buckets;
use crate::config::LatencyConfig;
use cofferdam_latency::{
    Class, Counts, Direction, Filter, LatencySizes, MeasureError, Meter, Reader, Sample, Stage,
    measurable,
};
use cofferdam_types::{Container, NetnsId};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time between two readings of the rings.
const READ_INTERVAL: Duration = Duration::from_millis(20);
/// Time between two updates of the containers and the view.
const UPDATE_INTERVAL: Duration = Duration::from_millis(500);

/// Sums of one container, direction and protocol.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FlowTotals {
    pub total: Buckets,
    pub added: Buckets,
    /// Time in each [`Stage`], nanoseconds.
    pub stages_ns: [u64; Stage::ALL.len()],
}

/// Measurements of one container.
#[derive(Clone, Debug)]
pub(crate) struct MeasuredContainer {
    pub container: Arc<Container>,
    pub counts: Counts,
    pub flows: BTreeMap<(Direction, Class), FlowTotals>,
}

/// Published measurements: sums since each container was first measured.
#[derive(Clone, Debug, Default)]
pub(crate) struct LatencyView {
    pub containers: Vec<MeasuredContainer>,
    /// Containers that are not measured because there are too many.
    pub not_measured: u64,
    pub reports_lost: u64,
    pub reports_rejected: u64,
    pub memory_bytes: u64,
}

struct SharedMeasurements {
    stop: AtomicBool,
    wanted: Mutex<Vec<Arc<Container>>>,
    view: Mutex<Arc<LatencyView>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Running measurement thread. Dropping it ends the thread and unloads the programs.
pub(super) struct Measuring {
    shared: Arc<SharedMeasurements>,
    thread: Option<JoinHandle<()>>,
}

impl Measuring {
    /// Loads the programs and starts the thread.
    pub fn start(config: &LatencyConfig) -> Result<Measuring, StartError> {
        let sizes = LatencySizes {
            containers: config.containers.max(1),
            ..LatencySizes::default()
        };
        let meter = Meter::load(sizes, config.start)?;
        let reader = meter.reader()?;
        let shared = Arc::new(SharedMeasurements {
            stop: AtomicBool::new(false),
            wanted: Mutex::default(),
            view: Mutex::default(),
        });
        let worker = Worker {
            most: config.containers as usize,
            meter,
            reader,
            measured: BTreeMap::new(),
            not_measured: 0,
        };
        let theirs = shared.clone();
        let thread = std::thread::Builder::new()
            .name("cofferdam-latency".into())
            .spawn(move || worker.run(&theirs))
            .map_err(StartError::Thread)?;
        Ok(Measuring {
            shared,
            thread: Some(thread),
        })
    }

    pub fn follow(&self, containers: &[Arc<Container>]) {
        *locked(&self.shared.wanted) = containers.to_vec();
    }

    pub fn view(&self) -> Arc<LatencyView> {
        locked(&self.shared.view).clone()
    }

    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for Measuring {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // The result does not matter: the thread has ended or panicked.
            let _result = thread.join();
        }
    }
}

struct Worker {
    most: usize,
    meter: Meter,
    reader: Reader,
    measured: BTreeMap<NetnsId, MeasuredContainer>,
    not_measured: u64,
}

impl Worker {
    fn run(mut self, shared: &SharedMeasurements) {
        let mut due = Instant::now();
        while !shared.stop.load(Ordering::Relaxed) {
            let measured = &mut self.measured;
            self.reader.take(|sample| add(measured, &sample));
            if Instant::now() >= due {
                due = Instant::now() + UPDATE_INTERVAL;
                if let Err(why) = self.update(shared) {
                    tracing::error!("latency is no longer measured: {why}");
                    return;
                }
            }
            std::thread::sleep(READ_INTERVAL);
        }
    }

    fn update(&mut self, shared: &SharedMeasurements) -> Result<(), MeasureError> {
        self.meter.maintain()?;
        let wanted = locked(&shared.wanted).clone();
        self.follow(&wanted)?;
        for (netns, measured) in &mut self.measured {
            measured.counts = self.meter.counts(*netns)?;
        }
        let totals = self.reader.totals();
        *locked(&shared.view) = Arc::new(LatencyView {
            containers: self.measured.values().cloned().collect(),
            not_measured: self.not_measured,
            reports_lost: totals.lost,
            reports_rejected: totals.rejected,
            memory_bytes: self.meter.memory_bytes(),
        });
        Ok(())
    }

    /// Measures one container per network namespace, the first. The others of a pod share its path.
    fn follow(&mut self, containers: &[Arc<Container>]) -> Result<(), MeasureError> {
        let mut present: BTreeMap<NetnsId, &Arc<Container>> = BTreeMap::new();
        for container in containers {
            if let Ok(netns) = measurable(container) {
                present.entry(netns).or_insert(container);
            }
        }
        let has_ended = |n: &&NetnsId| !present.contains_key(n);
        let ended: Vec<NetnsId> = self.measured.keys().filter(has_ended).copied().collect();
        for netns in ended {
            self.meter.off(netns);
            self.measured.remove(&netns);
        }
        let count = present.len();
        for (netns, container) in present {
            if let Some(measured) = self.measured.get_mut(&netns) {
                measured.container = container.clone();
            } else if self.measured.len() < self.most {
                self.meter.on(netns, &Filter::default())?;
                let measured = MeasuredContainer {
                    container: container.clone(),
                    counts: Counts::default(),
                    flows: BTreeMap::new(),
                };
                self.measured.insert(netns, measured);
            }
        }
        self.not_measured = (count - self.measured.len()) as u64;
        Ok(())
    }
}

fn add(measured: &mut BTreeMap<NetnsId, MeasuredContainer>, sample: &Sample) {
    let report = &sample.report;
    let Some(measured) = measured.get_mut(&report.netns) else {
        return;
    };
    let key = (report.direction, report.class());
    let flow = measured.flows.entry(key).or_default();
    let packets = u64::from(report.segments.max(1));
    flow.total.add(sample.stages.total_ns, packets);
    if let Some(added_ns) = sample.stages.added_ns {
        flow.added.add(added_ns, packets);
    }
    for (stage, ns) in &sample.stages.parts_ns {
        flow.stages_ns[*stage as usize] += u64::from(*ns) * packets;
    }
}
