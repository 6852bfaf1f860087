//! Thread that reads: it alone waits for the agent. It stores each reading for later visitors, and
//! builds one document for all visitors.

use crate::feed::Feed;
use crate::frame::Frame;
use crate::moment::NewestReadings;
use crate::ring::Ring;
use bytes::Bytes;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::watch;

/// Time between two readings while there is a visitor.
pub const INTERVAL: Duration = Duration::from_secs(1);

/// State that the threads of a page share.
#[derive(Debug)]
pub(crate) struct PageState {
    pub host: String,
    pub recent: Mutex<NewestReadings>,
    pub ring: Mutex<Ring>,
    viewers: AtomicUsize,
    stop: AtomicBool,
    woken: Mutex<bool>,
    wake: Condvar,
}

/// Message of the stream, ready to be written.
pub(crate) type Message = Option<Bytes>;

/// Visitor, counted while this exists.
#[derive(Debug)]
pub(crate) struct Viewer(Arc<PageState>);

pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PageState {
    pub fn new(host: String) -> PageState {
        PageState {
            host,
            recent: Mutex::default(),
            ring: Mutex::default(),
            viewers: AtomicUsize::new(0),
            stop: AtomicBool::new(false),
            woken: Mutex::new(false),
            wake: Condvar::new(),
        }
    }

    /// Counts a visitor. The first one starts the reading at once.
    pub fn look(self: &Arc<PageState>) -> Viewer {
        self.viewers.fetch_add(1, Ordering::Relaxed);
        self.wake();
        Viewer(self.clone())
    }

    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        self.wake();
    }

    fn wake(&self) {
        *locked(&self.woken) = true;
        self.wake.notify_one();
    }

    /// Waits until `due`, or until woken.
    fn rest(&self, due: Instant) {
        let mut woken = locked(&self.woken);
        while !*woken {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.wake.wait_timeout(woken, left);
            woken = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        *woken = false;
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        self.0.viewers.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Reads until stopped.
pub(crate) fn run(shared: &PageState, mut feed: Box<dyn Feed>, live: &watch::Sender<Message>) {
    let mut read: Option<Instant> = None;
    let mut published = false;
    while !shared.stop.load(Ordering::Relaxed) {
        let is_viewed = shared.viewers.load(Ordering::Relaxed) > 0;
        let interval = match is_viewed {
            true => INTERVAL,
            false => feed.idle_interval().max(INTERVAL),
        };
        let now = Instant::now();
        let due = read.map_or(now, |at| at + interval);
        if now >= due {
            read = Some(now);
            take(shared, &mut *feed, is_viewed);
            published = false;
        }
        if is_viewed && !published {
            live.send_replace(message(shared));
            published = true;
        }
        if !is_viewed && published {
            // The message is not stored without a visitor. The next visitor gets a new one.
            live.send_replace(None);
            published = false;
        }
        shared.rest(read.map_or(now, |at| at + interval));
    }
}

fn take(shared: &PageState, feed: &mut dyn Feed, is_viewed: bool) {
    match feed.read(is_viewed) {
        Ok(Some(reading)) => {
            locked(&shared.ring).push(&reading, SystemTime::now());
            locked(&shared.recent).push(reading);
        }
        Ok(None) => {}
        Err(why) => locked(&shared.recent).fail(why.to_string()),
    }
}

/// Newest reading as a message of the stream, or the reason why there is none.
fn message(shared: &PageState) -> Message {
    let moment = locked(&shared.recent).moment();
    let (event, document) = match moment {
        Some(moment) => ("frame", document(&Frame::new(&moment, &shared.host))?),
        None => {
            let recent = locked(&shared.recent);
            let why = recent.error().unwrap_or("the first reading is being taken");
            ("waiting", serde_json::to_string(why).ok()?)
        }
    };
    Some(Bytes::from(format!("event: {event}\ndata: {document}\n\n")))
}

/// Frame as JSON without line ends, as a stream of events needs it.
fn document(frame: &Frame<'_>) -> Option<String> {
    match serde_json::to_string(frame) {
        Ok(text) => Some(text),
        Err(why) => {
            tracing::error!("cannot write the page's document: {why}");
            None
        }
    }
}
