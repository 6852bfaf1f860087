//! Recorder of the history: about once a second a frame goes to a thread that writes it, so that a
//! slow disk never delays the control loop.

mod writer;

use crate::conditions::Condition;
use crate::config::Config;
use crate::ledger::{Ledger, Readings};
use crate::losses::LossView;
use crate::server::find_group;
use cofferdam_history::{Access, Limits};
use cofferdam_records::status::HistoryRecord;
use cofferdam_types::{ContainerLedger, Degradation, Snapshot};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

/// Shortest length of a frame: steps come a little early or late.
const FRAME: Duration = Duration::from_millis(950);
/// Capacity of the queue in front of the disk, frames; a reading of 100 containers takes 100 KiB.
const QUEUE: usize = 16;
/// Limit on the intervals of the diagnosis in one frame. Only a slow disk makes a frame that long.
const MOST_LOSSES: usize = 64;
/// Time for which an interruption of the history by another program is reported.
const SHOW_INTERRUPTION: Duration = Duration::from_secs(600);
/// Longest wait at the end for the frames in the queue.
const END: Duration = Duration::from_secs(2);

/// Two readings, and the events between them.
#[derive(Debug)]
struct FrameCut {
    earlier: Arc<Snapshot>,
    later: Arc<Snapshot>,
    ended: Vec<ContainerLedger>,
    losses: Vec<Arc<LossView>>,
    conditions: Vec<Condition>,
    at: Instant,
}

/// Place and limits of the history.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Settings {
    path: PathBuf,
    limits: Limits,
}

/// Counts since the agent started.
#[derive(Debug, Default)]
struct Counts {
    frames: AtomicU64,
    dropped: AtomicU64,
    delayed: AtomicU64,
}

/// State of the store, as the writer reports it.
#[derive(Clone, Debug, Default)]
struct Store {
    bytes: u64,
    since: Option<SystemTime>,
    error: Option<String>,
    /// Action of another program that may have cost frames, and the time when it was noticed.
    interruption: Option<(String, Instant)>,
}

#[derive(Debug)]
struct Running {
    settings: Settings,
    queue: SyncSender<FrameCut>,
    thread: JoinHandle<()>,
    store: Arc<Mutex<Store>>,
}

/// Recorder: cuts frames and hands them to the writer.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    running: Option<Running>,
    /// Reading at which the next frame begins.
    begin: Option<(Arc<Snapshot>, Instant)>,
    /// Intervals of the diagnosis for the next frame.
    losses: Vec<Arc<LossView>>,
    /// Last interval of the diagnosis, in a frame or not.
    seen: Option<Arc<LossView>>,
    counts: Arc<Counts>,
    /// Reason why no thread could be started.
    failure: Option<String>,
}

/// Published state of the history.
#[derive(Clone, Debug, Default)]
pub(crate) struct HistoryView {
    /// Path; `None` if no history is kept.
    pub path: Option<PathBuf>,
    pub limit_bytes: u64,
    pub bytes: u64,
    pub since: Option<SystemTime>,
    pub frames: u64,
    pub dropped: u64,
    pub delayed: u64,
    pub error: Option<String>,
    /// Cause of missing frames, although recording continues.
    pub interruption: Option<String>,
}

impl Recorder {
    /// Records the history as `config` says from now on.
    pub fn switch(&mut self, config: &Config) {
        let settings = config.history.file().map(|path| Settings {
            path,
            limits: Limits {
                bytes: config.history.limit_bytes,
                access: access(config),
            },
        });
        let same = self.running.as_ref().map(|r| &r.settings) == settings.as_ref();
        if same && self.failure.is_none() {
            return;
        }
        // The old thread ends by itself: the disk may be slow.
        self.running = None;
        self.failure = None;
        (self.begin, self.losses) = (None, Vec::new());
        let Some(settings) = settings else { return };
        let (queue, cuts) = sync_channel(QUEUE);
        let store = Arc::default();
        let writer = writer::Writer::new(settings.clone(), Arc::clone(&store), self.counts.clone());
        let thread = std::thread::Builder::new().name("cofferdam-history".into());
        match thread.spawn(move || writer.run(&cuts)) {
            Ok(thread) => {
                self.running = Some(Running {
                    settings,
                    queue,
                    thread,
                    store,
                });
            }
            Err(why) => self.failure = Some(format!("no thread can be started: {why}")),
        }
    }

    /// Whether the next reading ends a frame: it must be a complete one.
    pub fn is_due(&self) -> bool {
        let on = self.running.is_some();
        on && (self.begin.as_ref()).is_none_or(|(_, at)| at.elapsed() >= FRAME)
    }

    /// Adds the findings of the diagnosis and, if a frame is `due`, queues the frame.
    pub fn follow<L: Ledger>(
        &mut self,
        snapshot: &Arc<Snapshot>,
        readings: &Readings<L>,
        losses: &Arc<LossView>,
        (due, conditions): (bool, impl FnOnce() -> Vec<Condition>),
    ) {
        let Some(running) = &self.running else { return };
        let is_seen = self.seen.as_ref().is_some_and(|l| Arc::ptr_eq(l, losses));
        if losses.interval.is_some() && !is_seen {
            if self.losses.len() == MOST_LOSSES {
                self.losses.remove(0);
            }
            self.losses.push(losses.clone());
            self.seen = Some(losses.clone());
        }
        if !due {
            return;
        }
        let now = Instant::now();
        let Some((begin, _)) = &self.begin else {
            self.begin = Some((snapshot.clone(), now));
            return;
        };
        let cut = FrameCut {
            earlier: begin.clone(),
            later: snapshot.clone(),
            ended: readings.ended_since(Some(begin.uptime)),
            losses: self.losses.clone(),
            conditions: conditions(),
            at: now,
        };
        match running.queue.try_send(cut) {
            Ok(()) => {
                self.begin = Some((snapshot.clone(), now));
                self.losses.clear();
            }
            // The next frame begins where this one would have: nothing is lost.
            Err(TrySendError::Full(_)) => {
                self.counts.delayed.fetch_add(1, Ordering::Relaxed);
            }
            Err(TrySendError::Disconnected(_)) => {
                self.failure = Some("its thread had panicked; the log says why".to_owned());
                self.running = None;
            }
        }
    }

    /// Current state of the history.
    pub fn view(&self) -> HistoryView {
        let count = |n: &AtomicU64| n.load(Ordering::Relaxed);
        let mut view = HistoryView {
            frames: count(&self.counts.frames),
            dropped: count(&self.counts.dropped),
            delayed: count(&self.counts.delayed),
            error: self.failure.clone(),
            ..HistoryView::default()
        };
        if let Some(running) = &self.running {
            let store = running.store.lock().unwrap_or_else(PoisonError::into_inner);
            view.path = Some(running.settings.path.clone());
            view.limit_bytes = running.settings.limits.bytes;
            view.bytes = store.bytes;
            view.since = store.since;
            view.error = store.error.clone();
            view.interruption = (store.interruption.as_ref())
                .filter(|(_, noticed)| noticed.elapsed() < SHOW_INTERRUPTION)
                .map(|(why, _)| why.clone());
        }
        view
    }

    /// Ends the recorder. Frames in the queue are written, if that does not take long.
    pub fn end(&mut self) {
        let Some(Running { queue, thread, .. }) = self.running.take() else {
            return;
        };
        drop(queue);
        let begin = Instant::now();
        while !thread.is_finished() && begin.elapsed() < END {
            std::thread::sleep(Duration::from_millis(5));
        }
        if !thread.is_finished() {
            tracing::warn!("history: the disk is too slow, the last frames are not written");
        }
    }
}

/// Access rights of the history: those of the status.
fn access(config: &Config) -> Access {
    let group = config.socket.group.as_deref();
    // A configuration with an unknown group is not put in force.
    let found = group.and_then(|name| find_group(name).ok());
    found.map_or(Access::Owner, |gid| Access::Group(gid.as_raw()))
}

impl HistoryView {
    /// Builds the record; `None` if no history is kept.
    pub fn record(&self) -> Option<HistoryRecord> {
        let path = self.path.as_ref()?;
        Some(HistoryRecord {
            path: path.display().to_string(),
            since: self.since.map(cofferdam_records::time),
            bytes: self.bytes,
            limit_bytes: self.limit_bytes,
            frames: self.frames,
            frames_dropped: self.dropped,
            frames_delayed: self.delayed,
            error: self.error.clone().or_else(|| self.interruption.clone()),
        })
    }

    /// Degradation if there is no history, or if part of it may be missing.
    pub fn degraded(&self) -> Option<Degradation> {
        let (name, text) = match (&self.error, &self.interruption) {
            (Some(why), _) => (
                "history_unavailable",
                format!("nothing is kept, the agent continues without: {why}"),
            ),
            (None, Some(why)) => (
                "history_interrupted",
                format!("recording continues, but earlier frames may be missing: {why}"),
            ),
            (None, None) => return None,
        };
        Some(Degradation {
            name: name.to_owned(),
            text,
        })
    }
}
