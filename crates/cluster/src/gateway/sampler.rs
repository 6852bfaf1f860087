//! The thread that asks the agent. While nobody asks the gateway it asks seldom.

use super::documents::{Documents, Readings, Which};
use super::{UNAVAILABLE, route::JSON};
use cofferdam_agent::Watch;
use cofferdam_exporter::Answer;
use cofferdam_records::status::StatusReport;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Between two readings while somebody asks.
const BUSY: Duration = Duration::from_secs(2);
/// Between two readings while nobody does.
const IDLE: Duration = Duration::from_secs(10);
/// Somebody asks who has asked within this time.
const ASKS: Duration = Duration::from_secs(30);
/// The first interval after the agent's start, and between two attempts to reach it.
const FIRST: Duration = Duration::from_millis(500);

/// The newest documents, or why there are none.
#[derive(Debug)]
struct Kept {
    documents: Result<Documents, String>,
    metrics: Result<SocketAddr, String>,
    asked: Option<Instant>,
    ended: bool,
}

#[derive(Debug)]
struct Shared {
    kept: Mutex<Kept>,
    wake: Condvar,
}

/// The thread, and what it keeps.
#[derive(Debug)]
pub struct Sampler {
    shared: Arc<Shared>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Sampler {
    pub fn start(socket: PathBuf) -> io::Result<Sampler> {
        let none = "the agent has not been asked yet: try again in a second".to_owned();
        let shared = Arc::new(Shared {
            kept: Mutex::new(Kept {
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

    /// A document for a client.
    pub fn document(&self, which: Which) -> Answer<'static> {
        let mut kept = locked(&self.shared.kept);
        let was_idle = kept.asked.is_none_or(|at| at.elapsed() > ASKS);
        if which.is_watched() {
            kept.asked = Some(Instant::now());
            if was_idle {
                self.shared.wake.notify_all();
            }
        }
        match &kept.documents {
            Ok(documents) => Answer {
                status: "200 OK",
                content_type: JSON,
                body: documents.get(which).to_string().into(),
            },
            Err(why) => Answer::text(UNAVAILABLE, format!("{why}\n")),
        }
    }

    /// Whether there are documents; why not is only for those with the token.
    pub fn ready(&self) -> Answer<'static> {
        match locked(&self.shared.kept).documents {
            Ok(_) => Answer::text("200 OK", "ok\n"),
            Err(_) => Answer::text(UNAVAILABLE, "the agent does not answer\n"),
        }
    }

    /// Where the agent serves its metrics.
    pub fn metrics_address(&self) -> Result<SocketAddr, String> {
        locked(&self.shared.kept).metrics.clone()
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        locked(&self.shared.kept).ended = true;
        self.shared.wake.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn locked(kept: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

fn sample(shared: &Shared, socket: PathBuf) {
    let mut watch = Watch::new(socket);
    let mut readings = Readings::default();
    loop {
        let asks = |kept: &Kept| kept.asked.is_some_and(|at| at.elapsed() <= ASKS);
        let read = match asks(&locked(&shared.kept)) {
            true => watch.read(),
            // The agent need not count everything for nobody.
            false => watch.glance(),
        };
        // Soon again: there is no interval yet, or no agent.
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
        let mut kept = locked(&shared.kept);
        kept.metrics = metrics;
        if let Some(documents) = documents {
            kept.documents = documents;
        }
        let asked = asks(&kept);
        let rest = match (soon, asked) {
            (true, _) => FIRST,
            (false, true) => BUSY,
            (false, false) => IDLE,
        };
        let until = Instant::now() + rest;
        let idle = !asked;
        // A first question after a long time is answered with what is kept, the next with what is new.
        while !kept.ended
            && Instant::now() < until
            && !(idle && kept.asked.is_some_and(|at| at.elapsed() < ASKS))
        {
            let left = until.saturating_duration_since(Instant::now());
            let waited = shared.wake.wait_timeout(kept, left);
            kept = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        if kept.ended {
            return;
        }
    }
}

/// Where the agent serves its metrics.
fn metrics_address(status: &StatusReport) -> Result<SocketAddr, String> {
    match status.agent.metrics_address.as_deref().map(str::parse) {
        Some(Ok(address)) => Ok(address),
        Some(Err(_)) => Err("the agent names no address of its metrics".to_owned()),
        None => Err("the agent serves no metrics ([metrics] address = \"off\")".to_owned()),
    }
}
