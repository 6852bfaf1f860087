//! Thread that reads the agent's status and ledger: every 2 s while clients ask the gateway, every
//! 10 s otherwise.

use super::documents::{DocumentKind, Documents, Readings};
use super::{UNAVAILABLE, route::JSON};
use cofferdam_agent::Watch;
use cofferdam_exporter::Answer;
use cofferdam_records::status::StatusReport;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Interval between two readings while a client asks.
const BUSY: Duration = Duration::from_secs(2);
/// Interval between two readings while none does.
const IDLE: Duration = Duration::from_secs(10);
/// Time after a request during which the client counts as asking.
const CLIENT_ACTIVE: Duration = Duration::from_secs(30);
/// Pause until the next reading while there is no document yet or no agent answers.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// Latest documents, or the reason why there are none.
#[derive(Debug)]
struct Latest {
    documents: Result<Documents, String>,
    metrics: Result<SocketAddr, String>,
    asked: Option<Instant>,
    ended: bool,
}

#[derive(Debug)]
struct SamplerState {
    latest: Mutex<Latest>,
    wake: Condvar,
}

/// The thread with its documents.
#[derive(Debug)]
pub struct Sampler {
    shared: Arc<SamplerState>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Sampler {
    pub fn start(socket: PathBuf) -> io::Result<Sampler> {
        let none = "the agent has not been asked yet: try again in a second".to_owned();
        let shared = Arc::new(SamplerState {
            latest: Mutex::new(Latest {
                documents: Err(none.clone()),
                metrics: Err(none),
                asked: None,
                ended: false,
            }),
            wake: Condvar::new(),
        });
        let own = shared.clone();
        let thread = std::thread::Builder::new()
            .name("sampler".to_owned())
            .spawn(move || sample(&own, socket))?;
        Ok(Sampler {
            shared,
            thread: Some(thread),
        })
    }

    /// Answer with a document for a client.
    pub fn document(&self, kind: DocumentKind) -> Answer<'static> {
        let mut latest = locked(&self.shared.latest);
        let was_idle = latest.asked.is_none_or(|at| at.elapsed() > CLIENT_ACTIVE);
        if kind.is_watched() {
            latest.asked = Some(Instant::now());
            if was_idle {
                self.shared.wake.notify_all();
            }
        }
        match &latest.documents {
            Ok(documents) => Answer {
                status: "200 OK",
                content_type: JSON,
                body: documents.get(kind).to_string().into(),
            },
            Err(why) => Answer::text(UNAVAILABLE, format!("{why}\n")),
        }
    }

    /// Answer that says whether there are documents. Only clients with the token get the reason.
    pub fn ready(&self) -> Answer<'static> {
        match locked(&self.shared.latest).documents {
            Ok(_) => Answer::text("200 OK", "ok\n"),
            Err(_) => Answer::text(UNAVAILABLE, "the agent does not answer\n"),
        }
    }

    /// Address of the agent's metrics.
    pub fn metrics_address(&self) -> Result<SocketAddr, String> {
        locked(&self.shared.latest).metrics.clone()
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        locked(&self.shared.latest).ended = true;
        self.shared.wake.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn locked(latest: &Mutex<Latest>) -> MutexGuard<'_, Latest> {
    latest.lock().unwrap_or_else(PoisonError::into_inner)
}

fn sample(shared: &SamplerState, socket: PathBuf) {
    let mut watch = Watch::new(socket);
    let mut readings = Readings::default();
    loop {
        let asks = |latest: &Latest| latest.asked.is_some_and(|at| at.elapsed() <= CLIENT_ACTIVE);
        let read = match asks(&locked(&shared.latest)) {
            true => watch.read(),
            // While no client watches, the agent need not measure everything.
            false => watch.glance(),
        };
        // Another reading follows soon, because there is no interval yet, or no agent.
        let (documents, metrics, soon) = match read {
            Ok((status, ledger)) => {
                let metrics = metrics_address(&status);
                let documents = ledger.map(|ledger| readings.take(ledger, status));
                let first = documents.is_none();
                (documents, metrics, first)
            }
            Err(why) => {
                readings = Readings::default();
                let why = why.to_string();
                (Some(Err(why.clone())), Err(why), true)
            }
        };
        let mut latest = locked(&shared.latest);
        latest.metrics = metrics;
        if let Some(documents) = documents {
            latest.documents = documents;
        }
        let asked = asks(&latest);
        let rest = match (soon, asked) {
            (true, _) => RETRY_PAUSE,
            (false, true) => BUSY,
            (false, false) => IDLE,
        };
        let until = Instant::now() + rest;
        let idle = !asked;
        // The first request after a long time gets the stored document, the next one a new
        // document.
        while !latest.ended
            && Instant::now() < until
            && !(idle && latest.asked.is_some_and(|at| at.elapsed() < CLIENT_ACTIVE))
        {
            let left = until.saturating_duration_since(Instant::now());
            let waited = shared.wake.wait_timeout(latest, left);
            latest = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        if latest.ended {
            return;
        }
    }
}

/// Address of the agent's metrics.
fn metrics_address(status: &StatusReport) -> Result<SocketAddr, String> {
    match status.agent.metrics_address.as_deref().map(str::parse) {
        Some(Ok(address)) => Ok(address),
        Some(Err(_)) => Err("the agent names no address of its metrics".to_owned()),
        None => Err("the agent serves no metrics ([metrics] address = \"off\")".to_owned()),
    }
}
