//! The control loop: follow, read, decide, act, show. It owns everything that acts on the host.

use crate::assign::Assigner;
use crate::config::{Config, ConfigError, Loaded, Source};
use crate::effects::{Effects, ObserveOnly, Undone};
use crate::latency::Latency;
use crate::ledger::{Ledger, Readings};
use crate::losses::{Losses, OpenDiagnosis};
use crate::rules::changes_host;
use crate::server::{Command, Notice};
use crate::view::{Cost, View};
use crate::wake::{Sleeper, Waker};
use crate::wire::{
    Changed, ConfigurationRecord, PolicyRecord, Refusal, RefusalCode, Reloaded, Request,
    RuleRecord, SetRule, Stopping, ok_line, refusal_line,
};
use cofferdam_accounting::ReadError;
use cofferdam_types::{ContainerStatus, Degraded, EnforcementStatus, Interval, Snapshot};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// Time between two steps while no rule changes the host.
const OBSERVING: Duration = Duration::from_secs(1);
/// While nobody causes network CPU to speak of, steps are so many times as far apart.
const QUIET: u32 = 5;
/// From this part of a CPU on, network work is something to speak of.
const BUSY: f64 = 0.01;
/// Youngest reading that a client's request makes: more often costs more than it tells.
const FRESH: Duration = Duration::from_millis(10);
/// Requests served between two looks at the clock.
const AT_ONCE: usize = 16;
/// How often the process looks at what it uses itself.
const LOOK_AT_COST: Duration = Duration::from_secs(1);
/// Readings may fail so long in a row before the agent gives up.
const GIVE_UP: Duration = Duration::from_secs(10);

/// What ends the loop, or changes it, from outside.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    pub reload: Arc<AtomicBool>,
    pub interrupt: Arc<AtomicBool>,
    pub terminate: Arc<AtomicBool>,
}

/// How the agent ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// By SIGTERM or by the socket: what was to be done is done.
    Stopped,
    /// By SIGINT.
    Interrupted,
}

/// After an enforcement that could not begin, so long until the next try.
const TRY_AGAIN: Duration = Duration::from_secs(10);

/// Makes the [`Effects`] for a configuration, or says why there are none.
pub(crate) type Open = Box<dyn FnMut(&Config) -> Result<Box<dyn Effects>, Degraded>>;

/// The ends of the queues that the control loop holds.
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
    open: Open,
    effects: Option<Box<dyn Effects>>,
    /// Nothing could be enforced: when that is tried again.
    try_again: Option<Instant>,
    assigner: Assigner,
    losses: Losses,
    latency: Latency,
    config: Config,
    source: Source,
    configuration: ConfigurationRecord,
    signals: Signals,
    started: Instant,
    last: Arc<Snapshot>,
    due: Instant,
    last_step: Duration,
    steps: u64,
    failed_readings: u64,
    failing_since: Option<Instant>,
    cost: Cost,
    cost_read: Option<Instant>,
    rules: Arc<Vec<RuleRecord>>,
    paths: Arc<std::collections::HashMap<cofferdam_types::CgroupId, String>>,
    enforcement: EnforcementStatus,
    /// There is network work, or debt, that enforcement must follow closely.
    busy: bool,
    told: BTreeSet<String>,
    restart_needed: bool,
    undo_failures: Vec<String>,
    stop: bool,
}

impl<L: Ledger> Control<L> {
    /// Takes the first reading and puts `loaded` in force.
    pub fn start(
        ledger: L,
        (open, open_diagnosis): (Open, OpenDiagnosis),
        assigner: Assigner,
        (source, loaded): (Source, Loaded),
        signals: Signals,
    ) -> Result<Control<L>, ReadError> {
        let mut readings = Readings::new(ledger);
        let last = readings.read(Duration::ZERO)?;
        let mut control = Control {
            readings,
            open,
            effects: None,
            try_again: None,
            assigner,
            losses: Losses::new(open_diagnosis),
            latency: Latency::default(),
            configuration: ConfigurationRecord {
                path: source.path.display().to_string(),
                from_file: loaded.from_file,
                loaded: now(),
                loads: 1,
                refusals: 0,
                refused: None,
                warnings: warnings(&source, &loaded),
            },
            config: loaded.config,
            source,
            signals,
            started: Instant::now(),
            last,
            due: Instant::now(),
            last_step: Duration::ZERO,
            steps: 0,
            failed_readings: 0,
            failing_since: None,
            cost: Cost::default(),
            cost_read: None,
            rules: Arc::default(),
            paths: Arc::default(),
            enforcement: EnforcementStatus::default(),
            busy: false,
            told: BTreeSet::new(),
            restart_needed: false,
            undo_failures: Vec::new(),
            stop: false,
        };
        control.assigner.replace(control.config.rules.clone());
        for warning in &control.configuration.warnings {
            tracing::warn!("{warning}");
        }
        control.losses.switch(control.config.diagnosis);
        control.latency.switch(&control.config.latency);
        control.step();
        Ok(control)
    }

    /// Runs until stopped; then takes everything back.
    pub fn run(mut self, channels: &Channels) -> (Result<Ended, ReadError>, Undone) {
        let ended = loop {
            self.publish(channels);
            match self.turn(channels) {
                Ok(None) => {}
                Ok(Some(ended)) => break Ok(ended),
                Err(error) => break Err(error),
            }
        };
        let undone = self.effects.take().map(Effects::undo).unwrap_or_default();
        (ended, undone)
    }

    /// Until something is to be shown, or the end.
    fn turn(&mut self, channels: &Channels) -> Result<Option<Ended>, ReadError> {
        loop {
            if let Err(error) = self
                .readings
                .ledger()
                .follow(self.due, channels.sleeper.fd())
            {
                self.failed(error)?;
                std::thread::sleep(Duration::from_millis(100));
            }
            channels.sleeper.rest();
            if self.signals.interrupt.load(Ordering::Relaxed) {
                return Ok(Some(Ended::Interrupted));
            }
            if self.signals.terminate.load(Ordering::Relaxed) || self.stop {
                return Ok(Some(Ended::Stopped));
            }
            let mut show = false;
            if self.signals.reload.swap(false, Ordering::Relaxed) {
                let _ = self.reload(channels);
                show = true;
            }
            show |= self.serve(channels);
            if Instant::now() >= self.due {
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

    /// One control step: a reading, the classes, the enforcement.
    fn step(&mut self) {
        let begin = Instant::now();
        match self.readings.read(Duration::ZERO) {
            Ok(snapshot) => {
                if self.failing_since.take().is_some() {
                    tracing::info!("the accounting can be read again");
                }
                self.act(&snapshot);
            }
            Err(error) => {
                // Told once; `turn` gives up when it goes on.
                let _ = self.failed(error);
            }
        }
        self.steps += 1;
        self.last_step = begin.elapsed();
        if self.cost_read.is_none_or(|t| t.elapsed() >= LOOK_AT_COST) {
            self.cost = Cost::now();
            self.cost_read = Some(begin);
        }
        let period = self.period();
        self.due += period;
        if self.due < Instant::now() {
            // Late: steps that were missed are not made up for.
            self.due = Instant::now() + period;
        }
    }

    fn act(&mut self, snapshot: &Arc<Snapshot>) {
        let mut interval: Interval = snapshot.since(&self.last);
        let gone = self.readings.gone_since(Some(self.last.uptime));
        interval
            .containers
            .extend(gone.into_iter().map(|mut entry| {
                let same = |c: &&cofferdam_types::ContainerLedger| {
                    c.container.cgroup == entry.container.cgroup
                };
                if let Some(old) = self.last.containers.iter().find(same) {
                    entry.ledger = entry.ledger - old.ledger;
                }
                entry
            }));
        self.follow_rules();
        if let Some(effects) = &mut self.effects {
            effects.step(&interval);
        }
        self.latency.follow(&self.readings.containers());
        if self.losses.is_due() {
            let containers = self.readings.containers();
            self.losses.step(&containers, self.assigner.reserved());
        }
        self.tell_changes();
        self.busy = is_busy(&interval, &self.enforcement);
        self.last = snapshot.clone();
    }

    fn follow_rules(&mut self) {
        let containers = self.readings.containers();
        let (before, changed) = (self.rules.len(), self.assigner.follow(&containers));
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
        if self.paths.len() != containers.len()
            || containers
                .iter()
                .any(|c| !self.paths.contains_key(&c.cgroup))
        {
            self.paths = Arc::new(self.assigner.paths());
        }
        let asked = self.assigner.rules().any(|r| changes_host(&r.policy));
        // Only now: an agent without such a rule touches nothing.
        let begin = self.effects.is_none() && asked;
        let again = self.try_again.is_some_and(|t| Instant::now() >= t);
        if begin || again {
            self.open_effects();
        }
        if let Some(effects) = &mut self.effects
            && (changed || begin || again)
        {
            effects.set(self.assigner.wanted());
        }
    }

    fn open_effects(&mut self) {
        match (self.open)(&self.config) {
            Ok(effects) => {
                self.effects = Some(effects);
                self.try_again = None;
            }
            Err(why) => {
                self.effects = Some(Box::new(ObserveOnly::new(why)));
                self.try_again = Some(Instant::now() + TRY_AGAIN);
            }
        }
    }

    /// What an earlier agent left and that is still there.
    pub fn not_taken_back(&mut self, failure: Option<String>) {
        self.undo_failures.extend(failure);
    }

    fn rule_records(&self, counts: &[u64]) -> Vec<RuleRecord> {
        let rules = self.assigner.rules().zip(counts);
        rules
            .map(|(rule, containers)| RuleRecord {
                line: (rule.line > 0).then_some(rule.line as u64),
                matches: rule.matcher.to_string(),
                policy: PolicyRecord::new(&rule.policy),
                containers: *containers,
            })
            .collect()
    }

    /// Logs what has become degraded, and what is so no more.
    fn tell_changes(&mut self) {
        let status = match &self.effects {
            Some(effects) => effects.status(),
            None => EnforcementStatus::default(),
        };
        let mut now: BTreeSet<String> = status.degraded.iter().map(|d| d.text.clone()).collect();
        for container in &status.containers {
            let of = |d: &Degraded| format!("container {}: {}", container.name, d.text);
            now.extend(container.degraded.iter().map(of));
        }
        for text in now.difference(&self.told) {
            tracing::warn!("degraded: {text}");
        }
        for text in self.told.difference(&now) {
            tracing::info!("no longer degraded: {text}");
        }
        self.told = now;
        self.enforcement = status;
    }

    fn period(&self) -> Duration {
        let control = self.config.enforcement.control_period;
        match &self.effects {
            Some(_) if self.busy => control,
            Some(_) => (control * QUIET).min(OBSERVING).max(control),
            None => OBSERVING,
        }
    }

    fn failed(&mut self, error: ReadError) -> Result<(), ReadError> {
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

    /// Serves what clients wait for. True when something changed that must be shown.
    fn serve(&mut self, channels: &Channels) -> bool {
        let mut show = false;
        for _ in 0..AT_ONCE {
            let Ok(command) = channels.commands.try_recv() else {
                return show;
            };
            let client = command.client;
            let notice = match command.request {
                Request::Snapshot { gone_after } => match self.readings.read(FRESH) {
                    Ok(snapshot) => Notice::Reading {
                        client,
                        gone: self.readings.gone_since(gone_after),
                        snapshot,
                    },
                    Err(error) => answer(client, Err::<(), _>(error.to_string())),
                },
                request => {
                    show = true;
                    let notice = self.change(client, request, channels);
                    // Whoever asks for the status next must find the change in it.
                    self.publish(channels);
                    notice
                }
            };
            // The server outlives this loop.
            let _ = channels.notices.send(notice);
            channels.wake_server.wake();
        }
        // More may be waiting: come back at once.
        channels.sleeper.wake_again();
        show
    }

    fn change(&mut self, client: u64, request: Request, channels: &Channels) -> Notice {
        match request {
            Request::Reload => answer(client, self.reload(channels)),
            Request::Stop => {
                tracing::info!("asked to stop over the socket");
                self.stop = true;
                answer(client, Ok(Stopping { stopping: true }))
            }
            Request::Set(rule) => {
                let SetRule(rule) = *rule;
                let text = rule.matcher.to_string();
                if !self.assigner.set(rule) {
                    let most = crate::assign::MOST_SET;
                    let why = format!("{most} rules are set already: clear one, or use the file");
                    return answer(client, Err::<Changed, _>(why));
                }
                tracing::info!("rule for '{text}' set over the socket");
                self.step();
                let set = self.rules.first().map_or(0, |r| r.containers);
                answer(client, Ok(Changed { containers: set }))
            }
            Request::Clear { matches } => {
                if !self.assigner.clear(&matches) {
                    let why = format!("no rule for '{matches}' was set over the socket");
                    return answer(client, Err::<Changed, _>(why));
                }
                tracing::info!("rule for '{matches}' cleared over the socket");
                self.step();
                answer(client, Ok(Changed { containers: 0 }))
            }
            // Answered by the server itself, or by `serve`.
            Request::Status | Request::Snapshot { .. } => {
                answer(client, Err::<(), _>("not a change".to_owned()))
            }
        }
    }

    /// Puts the configuration in force as it is now, whole; or keeps the old one and says why.
    fn reload(&mut self, channels: &Channels) -> Result<Reloaded, String> {
        let checked = self.source.load().and_then(|loaded| {
            let group = loaded.config.socket.group.as_deref();
            match group.map(crate::server::find_group).transpose() {
                Ok(_) => Ok(loaded),
                Err(e) => Err(ConfigError::Read {
                    path: self.source.path.clone(),
                    why: e.to_string(),
                }),
            }
        });
        let loaded = match checked {
            Ok(loaded) => loaded,
            Err(error) => {
                let text = error.to_string();
                tracing::error!("configuration refused, the old one stays in force: {text}");
                self.configuration.refusals += 1;
                self.configuration.refused = Some(text.clone());
                return Err(format!("{text}; the old configuration stays in force"));
            }
        };
        let old = std::mem::replace(&mut self.config, loaded.config.clone());
        self.configuration.from_file = loaded.from_file;
        self.configuration.loaded = now();
        self.configuration.loads += 1;
        self.configuration.refused = None;
        self.configuration.warnings = warnings(&self.source, &loaded);
        for warning in &self.configuration.warnings {
            tracing::warn!("{warning}");
        }
        self.apply(&old, channels);
        tracing::info!("configuration in force: {} rules", self.config.rules.len());
        Ok(Reloaded {
            rules: self.config.rules.len() as u64,
            warnings: self.configuration.warnings.clone(),
        })
    }

    fn apply(&mut self, old: &Config, channels: &Channels) {
        let new = &self.config;
        self.restart_needed |= new.socket.path != old.socket.path;
        if new.socket.group != old.socket.group {
            let _ = channels
                .notices
                .send(Notice::Group(new.socket.group.clone()));
        }
        // Also when it is the same: the port may be free by now.
        let _ = channels.notices.send(Notice::Metrics(new.metrics.address));
        channels.wake_server.wake();
        let asked = new.rules.iter().any(|r| changes_host(&r.policy));
        let options = new.enforcement.debt_bound != old.enforcement.debt_bound
            || new.reservation != old.reservation;
        // Also when it is the same: what was missing may be there by now.
        self.losses.switch(new.diagnosis);
        self.latency.switch(&new.latency);
        if (options || !asked)
            && let Some(effects) = self.effects.take()
        {
            // Other options begin anew; without a rule that needs it nothing stays changed.
            let undone = effects.undo();
            undone.log("enforcement ends");
            self.undo_failures = undone.failures;
            self.try_again = None;
        }
        self.assigner.replace(self.config.rules.clone());
        self.step();
    }

    fn publish(&self, channels: &Channels) {
        let view = Arc::new(self.view());
        *channels.view.lock().unwrap_or_else(PoisonError::into_inner) = view;
    }

    /// What is shown now.
    pub fn view(&self) -> View {
        let mut degraded = Vec::new();
        let mut add = |name: &str, text: String| {
            degraded.push(Degraded {
                name: name.to_owned(),
                text,
            });
        };
        if let Some(why) = &self.configuration.refused {
            add(
                "configuration_refused",
                format!("the old configuration stays in force: {why}"),
            );
        }
        if self.restart_needed {
            add(
                "restart_needed",
                "another [socket] path is in force only after a restart: \
                 systemctl restart cofferdam"
                    .to_owned(),
            );
        }
        if self.failing_since.is_some() {
            add(
                "accounting_unreadable",
                "the accounting cannot be read; the log says why".to_owned(),
            );
        }
        for failure in &self.undo_failures {
            add("not_taken_back", failure.clone());
        }
        degraded.extend(self.losses.degraded.clone());
        degraded.extend(self.latency.degraded());
        View {
            snapshot: self.last.clone(),
            enforcement: self.enforcement.clone(),
            losses: self.losses.view.clone(),
            latency: self.latency.view(),
            rules: self.rules.clone(),
            paths: self.paths.clone(),
            configuration: Arc::new(self.configuration.clone()),
            degraded,
            started: self.started,
            control_period: self.period(),
            last_step: self.last_step,
            steps: self.steps,
            failed_readings: self.failed_readings,
            cost: self.cost,
            exported: self.config.metrics.containers,
        }
    }
}

fn is_busy(interval: &Interval, enforcement: &EnforcementStatus) -> bool {
    let length_ns = interval.length.as_nanos() as f64;
    let debt = |c: &ContainerStatus| c.network.as_ref().is_some_and(|n| n.debt_ns > 0);
    enforcement.containers.iter().any(debt)
        || interval.cpus.iter().any(|(_, cpu)| {
            let ns = cpu.network_softirq_ns + cpu.napi_thread_ns + cpu.drain_ns;
            ns as f64 > length_ns * BUSY
        })
}

fn answer<T: serde::Serialize>(client: u64, result: Result<T, String>) -> Notice {
    let line = match result {
        Ok(value) => ok_line(&value),
        Err(text) => refusal_line(&Refusal::new(RefusalCode::Failed, text)),
    };
    Notice::Answer { client, line }
}

fn warnings(source: &Source, loaded: &Loaded) -> Vec<String> {
    let line = |p: &crate::config::Problem| format!("{}:{p}", source.path.display());
    loaded.warnings.iter().map(line).collect()
}

fn now() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}
