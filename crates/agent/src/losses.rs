//! Diagnosis next to the ledger: CPU time that containers were entitled to but did not get.
//!
//! A program at each context switch is costly. So switches are counted in windows while no
//! container loses CPU time to others and no client reads. A window is an estimate for the time
//! since the previous one. A window with a loss starts exact counting.

use crate::attention::{QUIET, WATCHED};
use crate::config::DiagnosisConfig;
use cofferdam_diagnosis::windows::{self, WINDOW};
use cofferdam_diagnosis::{Diagnosis, DiagnosisOptions, DiagnosisReading};
use cofferdam_records::diagnosis::DiagnosisRecord;
use cofferdam_records::status::SUFFERS_CPUS;
use cofferdam_types::{
    AccountingMode, CgroupId, Container, CpuAmount, CpuLoss, Degradation, ScheduleInterval,
};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time between two readings, over which promises are compared; a shorter one shows less.
const READING_INTERVAL: Duration = Duration::from_secs(1);
/// Loss in a window that starts exact counting, CPUs: half of what makes a condition.
const LOSES_CPUS: f64 = SUFFERS_CPUS / 2.0;

/// Diagnosis of losses. The agent sees this trait, so that its tests need no kernel.
pub(crate) trait Diagnose {
    /// Reads the interval since the last call, or since counting began. `None` at the first call.
    fn read(
        &mut self,
        containers: &[Arc<Container>],
        reserved: BTreeMap<CgroupId, CpuAmount>,
    ) -> Result<Option<ScheduleInterval>, String>;

    /// Stops counting until [`Diagnose::resume`].
    fn rest(&mut self) -> Result<(), String>;

    /// Resumes counting.
    fn resume(&mut self, containers: &[Arc<Container>]) -> Result<(), String>;
}

/// Starts a diagnosis, or returns the reason why it cannot.
pub(crate) type OpenDiagnosis = Box<dyn FnMut() -> Result<Box<dyn Diagnose>, String>>;

/// Diagnosis of this host.
struct HostDiagnosis {
    diagnosis: Diagnosis,
    last: Option<DiagnosisReading>,
}

impl Diagnose for HostDiagnosis {
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

    fn rest(&mut self) -> Result<(), String> {
        self.diagnosis.switch(false).map_err(|e| e.to_string())
    }

    fn resume(&mut self, containers: &[Arc<Container>]) -> Result<(), String> {
        let begin = self.diagnosis.begin(containers);
        self.last = Some(begin.map_err(|e| e.to_string())?);
        Ok(())
    }
}

/// Loads the diagnosis of this host.
pub(crate) fn open() -> Result<Box<dyn Diagnose>, String> {
    match Diagnosis::start(DiagnosisOptions::default()) {
        Ok(diagnosis) => Ok(Box::new(HostDiagnosis {
            diagnosis,
            last: None,
        })),
        Err(why) => Err(why.to_string()),
    }
}

/// Published losses.
#[derive(Clone, Debug, Default)]
pub(crate) struct LossView {
    /// Last interval.
    pub interval: Option<ScheduleInterval>,
    /// Sums since the diagnosis began, of the containers that exist.
    pub totals: HashMap<CgroupId, CpuLoss>,
}

impl LossView {
    /// Last interval as a record.
    pub fn record(&self) -> Option<DiagnosisRecord> {
        let interval = self.interval.as_ref()?;
        Some(DiagnosisRecord::new(interval, interval.worst_first()))
    }
}

pub(crate) struct Losses {
    open: OpenDiagnosis,
    running: Option<Box<dyn Diagnose>>,
    mode: AccountingMode,
    pub degraded: Option<Degradation>,
    /// Time of the next reading, or of the begin of a window.
    due: Instant,
    /// Whether switches are counted now, and whether in a window.
    counts: bool,
    in_window: bool,
    /// Time until which everything is counted.
    exact_until: Instant,
    /// End of the time that the view covers.
    covered_until: Instant,
    pub view: Arc<LossView>,
}

impl Losses {
    pub fn new(open: OpenDiagnosis) -> Losses {
        let now = Instant::now();
        Losses {
            open,
            running: None,
            mode: AccountingMode::Exact,
            degraded: None,
            due: now,
            counts: false,
            in_window: false,
            exact_until: now,
            covered_until: now,
            view: Arc::default(),
        }
    }

    /// Starts or stops the diagnosis.
    pub fn switch(&mut self, config: DiagnosisConfig) {
        let now = Instant::now();
        self.mode = config.mode;
        // Apply a new configuration at once.
        self.due = now;
        if config.enabled == self.running.is_some() {
            return;
        }
        self.running = None;
        self.degraded = None;
        self.view = Arc::default();
        if config.enabled {
            match (self.open)() {
                Ok(running) => {
                    self.running = Some(running);
                    (self.counts, self.in_window) = (true, false);
                    (self.covered_until, self.exact_until) = (now, now + QUIET);
                }
                Err(why) => self.fail("diagnosis_unavailable", &why),
            }
        }
    }

    /// Time at which [`Losses::step`] has work; `None` while the diagnosis is off.
    pub fn due(&self) -> Option<Instant> {
        self.running.is_some().then_some(self.due)
    }

    /// Counts everything for a while, because a client reads the losses.
    pub fn look_closely(&mut self, now: Instant) {
        self.exact_until = self.exact_until.max(now + WATCHED);
        if !self.counts {
            self.due = now;
        }
    }

    /// Reads the losses, or begins a window. Returns whether the view has changed.
    pub fn step(
        &mut self,
        containers: &[Arc<Container>],
        reserved: BTreeMap<CgroupId, CpuAmount>,
        now: Instant,
    ) -> bool {
        self.due = now + READING_INTERVAL;
        if !self.counts {
            return self.resume(containers, now);
        }
        let Some(running) = &mut self.running else {
            return false;
        };
        let interval = match running.read(containers, reserved) {
            Ok(Some(interval)) => interval,
            Ok(None) => {
                self.covered_until = now;
                return false;
            }
            Err(why) => {
                self.fail("diagnosis_unreadable", &why);
                return true;
            }
        };
        self.degraded = None;
        let lost = has_large_loss(&interval);
        if lost {
            self.exact_until = self.exact_until.max(now + QUIET);
        }
        let passed = now.saturating_duration_since(self.covered_until);
        self.add_interval(match self.in_window && !lost {
            true => interval.extrapolate(passed),
            false => interval,
        });
        self.covered_until = now;
        self.in_window = false;
        if !self.is_exact(now) {
            self.rest(now);
        }
        true
    }

    fn is_exact(&self, now: Instant) -> bool {
        now < self.exact_until || self.mode == AccountingMode::Exact
    }

    /// Counts from now on, in a window or permanently. Returns whether that failed, which changes
    /// the view.
    fn resume(&mut self, containers: &[Arc<Container>], now: Instant) -> bool {
        let Some(running) = &mut self.running else {
            return false;
        };
        if let Err(why) = running.resume(containers) {
            self.fail("diagnosis_unreadable", &why);
            return true;
        }
        self.counts = true;
        self.in_window = !self.is_exact(now);
        match self.in_window {
            true => self.due = now + WINDOW,
            // Losses since the last window are unknown.
            false => self.covered_until = now,
        }
        false
    }

    /// Counts nothing until the next window.
    fn rest(&mut self, now: Instant) {
        let Some(running) = &mut self.running else {
            return;
        };
        match running.rest() {
            Ok(()) => {
                self.counts = false;
                self.due = now + windows::pause(fastrand::f64());
            }
            Err(why) => self.fail("diagnosis_unreadable", &why),
        }
    }

    fn add_interval(&mut self, interval: ScheduleInterval) {
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
        self.degraded = Some(Degradation {
            name: name.to_owned(),
            text,
        });
    }
}

/// Whether a container lost more time than [`LOSES_CPUS`] to others.
fn has_large_loss(interval: &ScheduleInterval) -> bool {
    let most = LOSES_CPUS * interval.length.as_nanos() as f64;
    let mut losses = interval.containers.iter().map(|c| c.loss.taken_ns());
    losses.any(|ns| ns as f64 > most)
}

#[cfg(test)]
mod tests;
