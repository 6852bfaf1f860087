//! Control loop: follow the host, read the ledger, decide, act, publish. It owns everything that
//! acts on the host.

mod attend;
mod degradation_log;
mod requests;
mod runtime;
mod show;

use crate::assign::{Assigner, Pods};
use crate::attention::{Attention, Signs};
use crate::conditions::Conditions;
use crate::config::{Config, LoadedConfig, Source};
use crate::effects::{Effects, ObserveOnly, RevertResult};
use crate::events::{Events, offender};
use crate::latency::Latency;
use crate::ledger::{Ledger, Readings};
use crate::losses::{Losses, OpenDiagnosis};
use crate::notify::{Notifier, own_unit};
use crate::nri::Nri;
use crate::otlp::Otlp;
use crate::page::LivePage;
use crate::recent_readings::RecentReadings;
use crate::recorder::Recorder;
use crate::rules::Rule;
use crate::server::{Command, Notice};
use crate::view::{Cost, View};
use crate::wake::{Sleeper, Waker};
use cofferdam_accounting::ReadError;
use cofferdam_affinity::Urgent;
use cofferdam_records::status::{ConfigurationRecord, RuleRecord};
use cofferdam_types::{
    AccountingMode, Container, Degradation, EnforcementStatus, Interval, Snapshot,
};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

/// Interval at which the process measures its own cost.
const COST_INTERVAL: Duration = Duration::from_secs(1);
/// Oldest CPU use of containers that a step accepts. Reading it costs a system call per container.
const USAGE_AGE: Duration = Duration::from_secs(1);
/// Oldest CPU use that a step accepts while a container pays for others: CPU use also shows which
/// tasks wait, and on which CPU.
const USAGE_AGE_BUSY: Duration = Duration::from_millis(100);
/// Interval at which the state in force is published. Changes are published at once.
const PUBLISH_INTERVAL: Duration = Duration::from_millis(200);
/// Time for which readings may fail in a row before the agent gives up.
const GIVE_UP: Duration = Duration::from_secs(10);

/// Signals from outside that end the loop or make it reload.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    pub reload: Arc<AtomicBool>,
    pub interrupt: Arc<AtomicBool>,
    pub terminate: Arc<AtomicBool>,
}

/// Cause of the agent's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndCause {
    /// SIGTERM, or a request over the socket: the agent has done what it had to.
    Stopped,
    /// SIGINT.
    Interrupted,
}

/// Time until the next attempt after an enforcement that could not start.
const RETRY_DELAY: Duration = Duration::from_secs(10);

/// Opens the [`Effects`] for a configuration, or returns the reason why there are none.
pub(crate) type OpenEffects = Box<dyn FnMut(&Config) -> Result<Box<dyn Effects>, Degradation>>;

/// Ends of the queues that the control loop owns.
#[derive(Debug)]
pub(crate) struct Channels {
    pub commands: Receiver<Command>,
    pub sleeper: Sleeper,
    pub notices: Sender<Notice>,
    pub wake_server: Waker,
    pub view: Arc<Mutex<Arc<View>>>,
}

pub(crate) struct Control<L> {
    readings: Readings<L>,
    open: OpenEffects,
    effects: Option<Box<dyn Effects>>,
    /// Time of the next attempt, if nothing could be enforced.
    retry_at: Option<Instant>,
    assigner: Assigner,
    losses: Losses,
    conditions: Conditions,
    recent: Arc<RecentReadings>,
    events: Events,
    latency: Latency,
    otlp: Otlp,
    page: LivePage,
    recorder: Recorder,
    nri: Nri,
    /// Promised CPUs of containers that do not run yet, by the runtime's container id.
    promised: HashMap<String, String>,
    /// Whether promises were made or withdrawn that the host does not follow yet.
    has_open_promises: bool,
    config: Config,
    source: Source,
    configuration: ConfigurationRecord,
    signals: Signals,
    notifier: Notifier,
    started: Instant,
    unit: Option<Arc<str>>,
    last: Arc<Snapshot>,
    due: Instant,
    /// Time at which the last step began.
    stepped: Option<Instant>,
    last_step: Duration,
    steps: u64,
    failed_readings: u64,
    failing_since: Option<Instant>,
    cost: Cost,
    cost_read: Option<Instant>,
    rules: Arc<Vec<RuleRecord>>,
    paths: Arc<HashMap<cofferdam_types::CgroupId, String>>,
    enforcement: Arc<EnforcementStatus>,
    /// Time at which `enforcement` was last updated.
    published_at: Option<Instant>,
    /// Containers whose classes are in force.
    followed: Option<Arc<[Arc<Container>]>>,
    /// Whether a container pays for others: enforcement must follow closely.
    busy: bool,
    attention: Attention,
    signs: Signs,
    /// Accounting mode that was last ordered from the ledger.
    ordered: AccountingMode,
    /// Last window that was examined.
    window: Option<Arc<Interval>>,
    degradations: degradation_log::DegradationLog,
    /// Rules without a container, and whether they were logged.
    unmatched: degradation_log::DegradationLog,
    restart_needed: bool,
    revert_failures: Vec<String>,
    stop: bool,
}

impl<L: Ledger> Control<L> {
    /// Takes the first reading and puts `loaded` in force.
    pub fn start(
        ledger: L,
        (open, open_diagnosis): (OpenEffects, OpenDiagnosis),
        assigner: Assigner,
        (source, loaded): (Source, LoadedConfig),
        signals: Signals,
    ) -> Result<Control<L>, ReadError> {
        let mut readings = Readings::new(ledger);
        let last = readings.read(Duration::ZERO)?;
        let mut control = Control {
            readings,
            open,
            effects: None,
            retry_at: None,
            assigner,
            losses: Losses::new(open_diagnosis),
            conditions: Conditions::default(),
            recent: Arc::default(),
            events: Events::default(),
            latency: Latency::default(),
            otlp: Otlp::default(),
            page: LivePage::default(),
            recorder: Recorder::default(),
            nri: Nri::default(),
            promised: HashMap::new(),
            has_open_promises: false,
            configuration: ConfigurationRecord {
                path: source.path.display().to_string(),
                from_file: loaded.from_file,
                loaded: now(),
                loads: 1,
                refusals: 0,
                refused: None,
                warnings: warnings(&source, &loaded),
            },
            attention: Attention::new(loaded.config.accounting, Instant::now()),
            config: loaded.config,
            source,
            signals,
            notifier: Notifier::default(),
            started: crate::view::process_start(),
            unit: own_unit(),
            last,
            due: Instant::now(),
            stepped: None,
            last_step: Duration::ZERO,
            steps: 0,
            failed_readings: 0,
            failing_since: None,
            cost: Cost::default(),
            cost_read: None,
            rules: Arc::default(),
            paths: Arc::default(),
            enforcement: Arc::default(),
            published_at: None,
            followed: None,
            busy: false,
            signs: Signs::default(),
            ordered: AccountingMode::Exact,
            window: None,
            degradations: degradation_log::DegradationLog::default(),
            unmatched: degradation_log::DegradationLog::default(),
            restart_needed: false,
            revert_failures: Vec::new(),
            stop: false,
        };
        control.assigner.replace(control.config.rules.clone());
        for warning in &control.configuration.warnings {
            tracing::warn!("{warning}");
        }
        control.switch_accounting();
        control.losses.switch(control.config.diagnosis);
        control.latency.switch(&control.config.latency);
        control.otlp.switch(&control.config.otlp);
        control.recorder.switch(&control.config);
        control.nri.switch(&control.config.nri);
        control.step();
        Ok(control)
    }

    /// Reports signs of life and the end to this service manager.
    pub fn notify(&mut self, notifier: Notifier) {
        self.notifier = notifier;
    }

    /// Runs until stopped, then reverts everything.
    pub fn run(mut self, channels: &Channels) -> (Result<EndCause, ReadError>, RevertResult) {
        let history = self.config.history.file();
        self.page.switch(
            &self.config.web,
            &self.config.socket,
            history,
            &channels.view,
        );
        let ended = loop {
            self.publish(channels);
            match self.take_turn(channels) {
                Ok(None) => {}
                Ok(Some(ended)) => break Ok(ended),
                Err(error) => break Err(error),
            }
        };
        // From here on systemd waits for TimeoutStopSec and expects no watchdog message.
        self.notifier.send("STOPPING=1");
        self.recorder.end();
        let reverted = self.effects.take().map(Effects::revert).unwrap_or_default();
        self.leave_runtime(channels.sleeper.fd());
        (ended, reverted)
    }

    /// Serves requests and takes steps until there is something to publish, or until the end.
    fn take_turn(&mut self, channels: &Channels) -> Result<Option<EndCause>, ReadError> {
        loop {
            let until = self.nri.due().map_or(self.due, |due| due.min(self.due));
            let attends = self.attends_at(Instant::now());
            let until = attends.map_or(until, |at| at.min(until));
            let wake = self.nri.wake(channels.sleeper.fd());
            // A task that waits here for a CPU delays everyone. Threads of other work must start
            // after this has ended: they would inherit the priority.
            let urgent = Urgent::begin();
            if let Err(error) = self.readings.ledger().follow(until, wake) {
                self.note_failed_reading(error)?;
                std::thread::sleep(Duration::from_millis(100));
            }
            channels.sleeper.clear();
            // The runtime comes first: it waits for its answers.
            let mut show = self.serve_runtime(channels.sleeper.fd());
            drop(urgent);
            self.notifier.send_sign_of_life(Instant::now());
            if self.signals.interrupt.load(Ordering::Relaxed) {
                return Ok(Some(EndCause::Interrupted));
            }
            if self.signals.terminate.load(Ordering::Relaxed) || self.stop {
                return Ok(Some(EndCause::Stopped));
            }
            if self.signals.reload.swap(false, Ordering::Relaxed) {
                let _ = self.reload(channels);
                show = true;
            }
            show |= self.serve(channels);
            if let Err(error) = self.attend() {
                self.note_failed_reading(error)?;
            }
            self.diagnose();
            if Instant::now() >= self.due && !self.rests() {
                self.step();
                if let Some(since) = self.failing_since
                    && since.elapsed() > GIVE_UP
                {
                    let why = format!("it has failed for {} s", GIVE_UP.as_secs());
                    return Err(ReadError(why));
                }
                show = true;
            }
            if show {
                return Ok(None);
            }
        }
    }

    /// Takes one control step: reads the ledger, assigns classes, enforces.
    fn step(&mut self) {
        let begin = Instant::now();
        self.stepped = Some(begin);
        let frame = self.recorder.is_due();
        let urgent = Urgent::begin();
        let reading = match frame {
            true => self.readings.read(Duration::ZERO),
            false => self.readings.read_quickly(self.usage_age()),
        };
        drop(urgent);
        match reading {
            Ok(snapshot) => {
                if self.failing_since.take().is_some() {
                    tracing::info!("the accounting can be read again");
                }
                self.act(&snapshot);
                self.record(&snapshot, frame);
            }
            Err(error) => {
                // The error was logged; `turn` gives up if it lasts.
                let _ = self.note_failed_reading(error);
            }
        }
        self.steps += 1;
        self.last_step = begin.elapsed();
        if self.cost_read.is_none_or(|t| t.elapsed() >= COST_INTERVAL) {
            self.cost = Cost::now();
            self.cost_read = Some(begin);
        }
        let period = self.period();
        self.due += period;
        if self.due < Instant::now() {
            // The loop is late. Missed steps are skipped.
            self.due = Instant::now() + period;
        }
    }

    /// Oldest CPU use of containers that the next step accepts.
    fn usage_age(&self) -> Duration {
        match &self.effects {
            Some(effects) if effects.needs_usage() => Duration::ZERO,
            _ if self.busy => USAGE_AGE_BUSY,
            _ => USAGE_AGE,
        }
    }

    /// Adds the reading to the history.
    fn record(&mut self, snapshot: &Arc<Snapshot>, frame: bool) {
        let conditions = &self.conditions;
        let (readings, losses) = (&self.readings, &self.losses.view);
        self.recorder
            .follow(snapshot, readings, losses, (frame, || conditions.now()));
    }

    fn act(&mut self, snapshot: &Arc<Snapshot>) {
        let mut interval: Interval = snapshot.since(&self.last);
        let ended = self.readings.ended_since(Some(self.last.uptime));
        interval
            .containers
            .extend(ended.into_iter().map(|mut entry| {
                let same = |c: &&cofferdam_types::ContainerLedger| {
                    c.container.cgroup == entry.container.cgroup
                };
                if let Some(old) = self.last.containers.iter().find(same) {
                    entry = entry.since(old);
                }
                entry
            }));
        let now = Instant::now();
        let judges = self.judges(&interval);
        match judges {
            true => self.conditions.record_payments(&interval, now),
            // While the accounting is estimated, earlier payments are forgotten.
            false => {
                (self.conditions).record_payments(&attend::nothing(&interval, interval.length), now)
            }
        }
        self.name_containers();
        let containers = self.readings.containers();
        let changed = self.follow_rules(&containers);
        self.apply_promises();
        if let Some(effects) = &mut self.effects {
            let _urgent = Urgent::begin();
            match judges {
                true => effects.step(&interval),
                // Reservations are maintained even without a judgement.
                false => effects.step(&attend::nothing(&interval, Duration::ZERO)),
            }
            self.busy = effects.needs_close_steps();
        }
        if changed {
            let all = containers.iter().filter(|c| !c.is_of_host());
            let measured: Vec<Arc<Container>> = match self.config.latency.histograms {
                true => all.cloned().collect(),
                false => self.assigner.measured_containers(),
            };
            self.latency.follow(&measured);
        }
        self.diagnose();
        if changed
            || self
                .published_at
                .is_none_or(|at| at.elapsed() >= PUBLISH_INTERVAL)
        {
            self.log_degradations();
            self.log_unmatched_rules();
            let conditions = self.conditions.now();
            let offender = |victim| offender(&interval, victim);
            for event in self.events.update(&conditions, offender, now) {
                event.log();
            }
        }
        if judges {
            self.note_reasons(&interval);
        }
        self.last = snapshot.clone();
        let (losses, status) = (&self.losses.view, &self.enforcement);
        if let Some(recent) = self.recent.with_reading(snapshot, losses, status) {
            self.recent = Arc::new(recent);
        }
    }

    /// Makes the ledger count the cgroups that rules name as containers. Repeated from time to
    /// time: see [`cofferdam_host::Inventory::name`].
    fn name_containers(&mut self) {
        if self.assigner.is_due() {
            let named = self.assigner.selectors();
            if let Err(e) = self.readings.ledger().name(&named) {
                tracing::warn!("cgroups that rules name cannot be followed: {e}");
            }
        }
    }

    /// Applies the classes to the containers. Returns whether anything changed, or may have.
    fn follow_rules(&mut self, containers: &Arc<[Arc<Container>]>) -> bool {
        let same = |followed: &Arc<[Arc<Container>]>| Arc::ptr_eq(followed, containers);
        let is_followed = self.followed.as_ref().is_some_and(same);
        let again = self.retry_at.is_some_and(|t| Instant::now() >= t);
        if is_followed && !again && !self.assigner.is_due() {
            return false;
        }
        self.followed = Some(containers.clone());
        let pods = Pods {
            roster: &self.nri.roster,
            may_ask: &self.config.nri.may_ask,
        };
        let (before, changed) = (self.rules.len(), self.assigner.follow(containers, pods));
        let counts = self.assigner.counts();
        let same = before == counts.len()
            && self
                .rules
                .iter()
                .zip(&counts)
                .all(|(r, n)| r.containers == *n);
        if changed || !same {
            self.rules = Arc::new(self.rule_records(&counts));
        }
        let named = containers.iter().filter(|c| !c.is_of_host());
        if self.paths.len() != named.clone().count()
            || named.clone().any(|c| !self.paths.contains_key(&c.cgroup))
        {
            self.paths = Arc::new(self.assigner.cgroup_paths());
        }
        let changes_host =
            self.assigner.rules().any(Rule::changes_host) || self.assigner.changes_host();
        // Open lazily: an agent without such a rule touches nothing.
        let begin = self.effects.is_none() && changes_host;
        if begin || again {
            self.open_effects();
        }
        if let Some(effects) = &mut self.effects
            && (changed || begin || again)
        {
            effects.set(self.assigner.wanted());
        }
        true
    }

    fn open_effects(&mut self) {
        match (self.open)(&self.config) {
            Ok(effects) => {
                self.effects = Some(effects);
                self.retry_at = None;
            }
            Err(why) => {
                self.effects = Some(Box::new(ObserveOnly::new(why)));
                self.retry_at = Some(Instant::now() + RETRY_DELAY);
            }
        }
    }

    /// Records a change of an earlier agent that could not be reverted.
    pub fn record_unreverted(&mut self, failure: Option<String>) {
        self.revert_failures.extend(failure);
    }

    fn note_failed_reading(&mut self, error: ReadError) -> Result<(), ReadError> {
        self.failed_readings += 1;
        let since = *self.failing_since.get_or_insert_with(|| {
            tracing::error!("{error}");
            Instant::now()
        });
        if since.elapsed() > GIVE_UP {
            return Err(error);
        }
        Ok(())
    }
}

fn warnings(source: &Source, loaded: &LoadedConfig) -> Vec<String> {
    let line = |p: &crate::config::Problem| format!("{}:{p}", source.path.display());
    loaded.warnings.iter().map(line).collect()
}

fn now() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}
