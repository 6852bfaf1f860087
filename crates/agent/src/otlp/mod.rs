//! Push of the metrics to an OpenTelemetry collector: OTLP over HTTP, off unless an endpoint is
//! configured.
//!
//! A thread of its own builds and sends the request, so that no collector can delay the control
//! loop. A failed request is not repeated: all counts are cumulative, and the next one has them
//! too.

mod send;
#[cfg(test)]
mod tests;

pub(crate) use send::{Endpoint, EndpointError};

use crate::metrics::otlp::{Moment, Streams, request};
use crate::view::View;
use cofferdam_types::Degradation;
use send::Sender;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// `[otlp]`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OtlpConfig {
    /// Collector to which the metrics are sent.
    pub endpoint: Endpoint,
    /// Time between two requests.
    pub interval: Duration,
}

/// Cumulative counts of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PushCounts {
    /// Requests that the collector accepted.
    pub requests: u64,
    /// Requests that it refused, or that were skipped because it was still busy with the last one.
    pub failures: u64,
}

/// Control loop's side of the push.
#[derive(Debug, Default)]
pub(crate) struct Otlp {
    config: Option<OtlpConfig>,
    worker: Option<Worker>,
    due: Option<Instant>,
    /// Counts of workers that have ended.
    before: PushCounts,
    /// Outlasts the workers: after a reload the collector stores the same streams.
    streams: Arc<Mutex<Streams>>,
    unavailable: Option<String>,
}

#[derive(Debug)]
struct Worker {
    views: SyncSender<(Arc<View>, Moment)>,
    state: Arc<Mutex<PushState>>,
}

#[derive(Debug, Default)]
struct PushState {
    sent: PushCounts,
    /// Cause of the last failure.
    failed: Option<String>,
}

impl Otlp {
    /// Starts, stops or redirects the push as configured.
    pub fn switch(&mut self, config: &Option<OtlpConfig>) {
        if *config == self.config && self.unavailable.is_none() {
            return;
        }
        self.before = self.counts();
        self.worker = None;
        self.unavailable = None;
        self.config.clone_from(config);
        let Some(config) = config else {
            return;
        };
        self.due = Some(Instant::now());
        match Worker::start(config, self.streams.clone()) {
            Ok(worker) => self.worker = Some(worker),
            Err(why) => {
                let text = format!("metrics are not sent: cannot start a thread: {why}");
                tracing::warn!("{text}");
                self.unavailable = Some(text);
            }
        }
    }

    /// Whether a request is due at `now`.
    pub fn is_due(&self, now: Instant) -> bool {
        self.worker.is_some() && self.due.is_some_and(|due| now >= due)
    }

    /// Queues `view` for sending, and nothing more until the interval is over.
    pub fn send(&mut self, view: Arc<View>, now: Instant) {
        let (Some(config), Some(worker)) = (&self.config, &self.worker) else {
            return;
        };
        // Late requests are skipped.
        let next = self.due.unwrap_or(now) + config.interval;
        self.due = Some(next.max(now));
        let dated = (view, Moment::now());
        if let Err(TrySendError::Full(_)) = worker.views.try_send(dated) {
            let mut state = worker.state();
            state.fail(format!(
                "{} has not answered the last request",
                config.endpoint
            ));
        }
    }

    /// Counts of all requests.
    pub fn counts(&self) -> PushCounts {
        let now = self.worker.as_ref().map(|worker| worker.state().sent);
        let now = now.unwrap_or_default();
        PushCounts {
            requests: self.before.requests + now.requests,
            failures: self.before.failures + now.failures,
        }
    }

    /// Degradation if the push does not work.
    pub fn degraded(&self) -> Option<Degradation> {
        let failed = self.worker.as_ref().and_then(|w| w.state().failed.clone());
        let text = self.unavailable.clone().or(failed)?;
        Some(Degradation {
            name: "otlp_unavailable".to_owned(),
            text,
        })
    }
}

impl Worker {
    fn start(config: &OtlpConfig, streams: Arc<Mutex<Streams>>) -> std::io::Result<Worker> {
        // One view may wait while another is sent.
        let (views, incoming) = sync_channel(1);
        let state = Arc::new(Mutex::new(PushState::default()));
        let sender = Sender::new(config.endpoint.clone());
        let shared = state.clone();
        std::thread::Builder::new()
            .name("cofferdam-otlp".into())
            .spawn(move || send_views(&sender, &incoming, &shared, &streams))?;
        Ok(Worker { views, state })
    }

    fn state(&self) -> MutexGuard<'_, PushState> {
        lock(&self.state)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl PushState {
    /// Counts a failed request, and logs it unless the previous one failed too.
    fn fail(&mut self, why: String) {
        self.sent.failures += 1;
        let text = format!("metrics are not sent: {why}; the next try has all counts");
        if self.failed.is_none() {
            tracing::warn!("{text}");
        }
        self.failed = Some(text);
    }
}

/// Sends views until the control loop drops the channel.
fn send_views(
    sender: &Sender,
    views: &Receiver<(Arc<View>, Moment)>,
    state: &Mutex<PushState>,
    streams: &Mutex<Streams>,
) {
    // The call fails only for a buffer that is too short.
    let host = nix::unistd::gethostname().unwrap_or_default();
    let host = host.to_string_lossy();
    while let Ok((view, moment)) = views.recv() {
        // The worker of a new configuration may have sent a newer view already.
        let Some(request) = request(&view, &host, &mut lock(streams), moment) else {
            continue;
        };
        drop(view);
        let outcome = sender.send(&request);
        let mut state = lock(state);
        match outcome {
            Ok(()) => {
                state.sent.requests += 1;
                if state.failed.take().is_some() {
                    tracing::info!("metrics are sent again");
                }
            }
            Err(why) => state.fail(why.to_string()),
        }
    }
}
