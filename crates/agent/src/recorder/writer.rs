//! Thread that writes frames to the history. After a failure it pauses, then opens the store again.

use super::{Counts, FrameCut, Settings, Store};
use cofferdam_history::{AppendError, Frame, OpenError, set_aside, sum_of_losses};
use cofferdam_records::accounting::AccountingRecord;
use cofferdam_records::diagnosis::DiagnosisRecord;
use cofferdam_types::{ContainerLedger, Interval};
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

/// Pause between a failure and the next attempt.
const RETRY_PAUSE: Duration = Duration::from_secs(10);
/// Number of frames after which the size is read again.
const USAGE_FRAMES: u64 = 10;

pub(super) struct Writer {
    settings: Settings,
    published: Arc<Mutex<Store>>,
    counts: Arc<Counts>,
    store: Option<cofferdam_history::Store>,
    retry_at: Option<Instant>,
    /// Frames since the size was last read.
    frames_since_usage: u64,
}

impl Writer {
    pub fn new(settings: Settings, published: Arc<Mutex<Store>>, counts: Arc<Counts>) -> Writer {
        Writer {
            settings,
            published,
            counts,
            store: None,
            retry_at: None,
            frames_since_usage: 0,
        }
    }

    /// Writes frames until the control loop drops the channel. Frames that arrive before the next
    /// attempt after a failure are dropped, and counted as such.
    pub fn run(mut self, cuts: &Receiver<FrameCut>) {
        self.open();
        while let Ok(cut) = cuts.recv() {
            let waits = self.retry_at.is_some_and(|at| Instant::now() < at);
            if self.store.is_none() && !waits {
                self.open();
            }
            let written = !waits && self.write(&cut);
            let count = if written {
                &self.counts.frames
            } else {
                &self.counts.dropped
            };
            count.fetch_add(1, Ordering::Relaxed);
            self.frames_since_usage += u64::from(written);
            if self.frames_since_usage >= USAGE_FRAMES {
                self.read_usage();
            }
        }
    }

    fn open(&mut self) {
        let (path, limits) = (self.settings.path.clone(), self.settings.limits);
        let mut opened = cofferdam_history::Store::open(&path, limits);
        if let Err(OpenError::Damaged { why, .. }) = &opened {
            set_damaged_aside(&path, why);
            opened = cofferdam_history::Store::open(&path, limits);
        }
        match opened {
            Ok(store) => {
                tracing::info!("history in {}", path.display());
                self.store = Some(store);
                self.read_usage();
                // Read the size again after the next frame: an empty store has no begin.
                self.frames_since_usage = USAGE_FRAMES - 1;
            }
            Err(why) => self.publish_error(&why.to_string()),
        }
    }

    /// Writes a frame and returns whether it succeeded. If another program has removed or damaged
    /// the store's files, the frame goes into a new store at once.
    fn write(&mut self, cut: &FrameCut) -> bool {
        let Ok(frame) = frame(cut) else {
            // The frame is dated before 1970, or too far ahead to be stored.
            self.publish_error("the system's clock shows no time that can be kept: set it");
            return false;
        };
        let mut appended = self.append(&frame);
        if let Some(Err(why)) = &appended
            && why.needs_new_store()
        {
            self.store = None;
            if let AppendError::Damaged { why, .. } = why {
                set_damaged_aside(&self.settings.path, why);
            }
            self.publish_interruption(&why.to_string());
            self.open();
            appended = self.append(&frame);
        }
        match appended {
            // The store is not open, and the reason is published already.
            None => false,
            Some(Ok(())) => {
                self.clear_error();
                true
            }
            Some(Err(why)) => {
                if why.needs_new_store() {
                    self.store = None;
                }
                self.publish_error(&why.to_string());
                false
            }
        }
    }

    fn append(&mut self, frame: &Frame) -> Option<Result<(), AppendError>> {
        self.store.as_mut().map(|store| store.append(frame))
    }

    fn read_usage(&mut self) {
        self.frames_since_usage = 0;
        let Some(Ok(usage)) = self.store.as_ref().map(cofferdam_history::Store::usage) else {
            return;
        };
        let mut published = self
            .published
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        (published.bytes, published.since) = (usage.bytes, usage.since);
    }

    fn clear_error(&mut self) {
        self.retry_at = None;
        let mut published = self
            .published
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if published.error.take().is_some() {
            tracing::info!("history: written again");
        }
    }

    /// Publishes for a while that frames may be missing, although recording continues.
    fn publish_interruption(&mut self, why: &str) {
        tracing::warn!("{why}: earlier frames may be missing, recording continues");
        let mut published = self
            .published
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        published.interruption = Some((why.to_owned(), Instant::now()));
    }

    fn publish_error(&mut self, why: &str) {
        self.retry_at = Some(Instant::now() + RETRY_PAUSE);
        let mut published = self
            .published
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if published.error.as_deref() != Some(why) {
            tracing::warn!("no history is kept: {why}");
        }
        published.error = Some(why.to_owned());
    }
}

fn set_damaged_aside(path: &Path, why: &str) {
    match set_aside(path) {
        Ok(to) => tracing::error!(
            "history {} is damaged ({why}): kept as {}, a new one begins",
            path.display(),
            to.display()
        ),
        Err(e) => tracing::error!("history {} cannot be set aside: {e}", path.display()),
    }
}

/// Builds the frame between the two readings.
fn frame(cut: &FrameCut) -> Result<Frame, cofferdam_history::BadTime> {
    let mut interval = cut.later.since(&cut.earlier);
    add_ended(&mut interval, cut);
    // Times before 1970 cannot be stored.
    interval.time = interval.time.max(SystemTime::UNIX_EPOCH);
    let mut record = AccountingRecord::new(&interval);
    let losses = cut.losses.iter().filter_map(|view| {
        let interval = view.interval.as_ref()?;
        Some(DiagnosisRecord::new(interval, interval.worst_first()))
    });
    record.diagnosis = sum_of_losses(losses);
    let conditions = cut.conditions.iter();
    let conditions = conditions.map(|c| c.record(cut.at, interval.time));
    Frame::new(record, conditions.collect())
}

/// Adds the last counts of containers that had ended at the later reading.
fn add_ended(interval: &mut Interval, cut: &FrameCut) {
    for last in &cut.ended {
        let same = |c: &&ContainerLedger| c.container.cgroup == last.container.cgroup;
        let before = cut.earlier.containers.iter().find(same);
        interval.containers.push(match before {
            Some(before) => last.since(before),
            None => last.clone(),
        });
    }
}
