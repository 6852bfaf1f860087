//! The diagnosis next to the ledger: CPU time that containers were entitled to but did not get.

use cofferdam_diagnosis::{Diagnosis, Options, Reading};
use cofferdam_records::diagnosis::DiagnosisRecord;
use cofferdam_types::{CgroupId, Container, CpuAmount, CpuLoss, Degraded, ScheduleInterval};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time between two readings, over which promises are compared; a shorter one shows less.
const BETWEEN: Duration = Duration::from_secs(1);

/// Something that diagnoses. The agent sees this, so that its tests need no kernel.
pub(crate) trait Diagnose {
    /// What happened since the last call; `None` at the first.
    fn read(
        &mut self,
        containers: &[Arc<Container>],
        reserved: BTreeMap<CgroupId, CpuAmount>,
    ) -> Result<Option<ScheduleInterval>, String>;
}

/// Starts it, or says why it cannot.
pub(crate) type OpenDiagnosis = Box<dyn FnMut() -> Result<Box<dyn Diagnose>, String>>;

/// The diagnosis of this host.
struct Running {
    diagnosis: Diagnosis,
    last: Option<Reading>,
}

impl Diagnose for Running {
    fn read(
        &mut self,
        containers: &[Arc<Container>],
        reserved: BTreeMap<CgroupId, CpuAmount>,
    ) -> Result<Option<ScheduleInterval>, String> {
        self.diagnosis.set_reserved(reserved);
        let now = self.diagnosis.snapshot(containers);
        let now = now.map_err(|e| e.to_string())?;
        let interval = self.last.as_ref().map(|last| now.since(last));
        self.last = Some(now);
        Ok(interval)
    }
}

/// Loads the diagnosis of this host.
pub(crate) fn open() -> Result<Box<dyn Diagnose>, String> {
    match Diagnosis::start(Options::default()) {
        Ok(diagnosis) => Ok(Box::new(Running {
            diagnosis,
            last: None,
        })),
        Err(why) => Err(why.to_string()),
    }
}

/// What is shown of it.
#[derive(Clone, Debug, Default)]
pub(crate) struct LossView {
    /// The last interval.
    pub interval: Option<ScheduleInterval>,
    /// Sums since the diagnosis began, of the containers that are there.
    pub totals: HashMap<CgroupId, CpuLoss>,
}

impl LossView {
    /// The last interval as a record.
    pub fn record(&self) -> Option<DiagnosisRecord> {
        let interval = self.interval.as_ref()?;
        Some(DiagnosisRecord::new(interval, interval.worst_first()))
    }
}

pub(crate) struct Losses {
    open: OpenDiagnosis,
    running: Option<Box<dyn Diagnose>>,
    pub degraded: Option<Degraded>,
    read: Option<Instant>,
    pub view: Arc<LossView>,
}

impl Losses {
    pub fn new(open: OpenDiagnosis) -> Losses {
        Losses {
            open,
            running: None,
            degraded: None,
            read: None,
            view: Arc::default(),
        }
    }

    /// Begins or ends it.
    pub fn switch(&mut self, on: bool) {
        if on == self.running.is_some() {
            return;
        }
        self.running = None;
        self.degraded = None;
        self.read = None;
        self.view = Arc::default();
        if on {
            match (self.open)() {
                Ok(running) => self.running = Some(running),
                Err(why) => self.fail("diagnosis_unavailable", &why),
            }
        }
    }

    /// True when it is time for a reading.
    pub fn is_due(&self) -> bool {
        self.running.is_some() && self.read.is_none_or(|t| t.elapsed() >= BETWEEN)
    }

    pub fn step(&mut self, containers: &[Arc<Container>], reserved: BTreeMap<CgroupId, CpuAmount>) {
        let Some(running) = &mut self.running else {
            return;
        };
        self.read = Some(Instant::now());
        match running.read(containers, reserved) {
            Ok(None) => {}
            Ok(Some(interval)) => {
                self.degraded = None;
                self.take(interval);
            }
            Err(why) => self.fail("diagnosis_unreadable", &why),
        }
    }

    fn take(&mut self, interval: ScheduleInterval) {
        let mut totals = HashMap::with_capacity(interval.containers.len());
        for one in &interval.containers {
            let id = one.container.cgroup;
            let old = self.view.totals.get(&id).copied().unwrap_or_default();
            let (sum, add) = (old, one.loss);
            let sum = CpuLoss {
                entitled_ns: sum.entitled_ns + add.entitled_ns,
                got_ns: sum.got_ns + add.got_ns,
                forced_sharing_ns: sum.forced_sharing_ns + add.forced_sharing_ns,
                phantom_ns: sum.phantom_ns + add.phantom_ns,
                throttled_ns: sum.throttled_ns + add.throttled_ns,
                lack_ns: sum.lack_ns + add.lack_ns,
            };
            totals.insert(id, sum);
        }
        self.view = Arc::new(LossView {
            interval: Some(interval),
            totals,
        });
    }

    fn fail(&mut self, name: &str, why: &str) {
        let text = format!("lost CPU time is not diagnosed: {why}");
        if self.degraded.as_ref().is_none_or(|d| d.text != text) {
            tracing::warn!("{text}");
        }
        self.degraded = Some(Degraded {
            name: name.to_owned(),
            text,
        });
    }
}
