//! Viewer of the agent's page: sends the same requests as a browser with the page open, at the same
//! rate.

use crate::error::BenchError;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Time between two requests for the charts' series, as of the page for its last 15 minutes.
const SERIES_EVERY: Duration = Duration::from_secs(5);
/// Time that the charts show.
const CHART_SPAN: Duration = Duration::from_secs(900);
/// Points of a chart.
const CHART_POINTS: u32 = 300;
/// Time between two checks of the end flag.
const FLAG_CHECK_PAUSE: Duration = Duration::from_millis(200);
/// Time limit of an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Viewer that runs until it is dropped.
pub(super) struct Viewer {
    ending: Arc<AtomicBool>,
    frames: Arc<AtomicU64>,
    thread: Option<JoinHandle<std::io::Result<()>>>,
}

impl Viewer {
    /// Opens the page that the agent serves on the socket `page`.
    pub fn open(page: &Path) -> Result<Viewer, BenchError> {
        let stream = send_request(page, "/api/live").map_err(failed)?;
        stream
            .set_read_timeout(Some(FLAG_CHECK_PAUSE))
            .map_err(failed)?;
        let (ending, frames) = (Arc::<AtomicBool>::default(), Arc::<AtomicU64>::default());
        let (end, counter, page) = (ending.clone(), frames.clone(), page.to_owned());
        let thread = std::thread::Builder::new().name("viewer".to_owned());
        let thread = thread.spawn(move || run_viewer(stream, &page, &end, &counter));
        Ok(Viewer {
            ending,
            frames,
            thread: Some(thread.map_err(failed)?),
        })
    }

    /// Stops the viewer. Returns the number of received frames.
    pub fn close(mut self) -> Result<u64, BenchError> {
        self.ending.store(true, Ordering::Relaxed);
        let thread = self.thread.take().map(JoinHandle::join);
        match thread {
            Some(Ok(Err(why))) => Err(failed(why)),
            _ => Ok(self.frames.load(Ordering::Relaxed)),
        }
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Relaxed);
    }
}

fn run_viewer(
    mut stream: UnixStream,
    page: &Path,
    end: &AtomicBool,
    frames: &AtomicU64,
) -> std::io::Result<()> {
    let mut bytes = vec![0; 64 << 10];
    let mut due = Instant::now();
    while !end.load(Ordering::Relaxed) {
        match stream.read(&mut bytes) {
            Ok(0) => return Err(std::io::Error::other("the page has ended the stream")),
            Ok(n) => {
                let frame_starts = bytes[..n].windows(13).filter(|w| w == b"event: frame\n");
                frames.fetch_add(frame_starts.count() as u64, Ordering::Relaxed);
            }
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(e) => return Err(e),
        }
        if Instant::now() >= due {
            due = Instant::now() + SERIES_EVERY;
            let now = SystemTime::now().duration_since(UNIX_EPOCH);
            let to = now.unwrap_or_default().as_millis();
            let from = to.saturating_sub(CHART_SPAN.as_millis());
            for path in [
                "/api/extent".to_owned(),
                format!("/api/series?from={from}&to={to}&points={CHART_POINTS}"),
            ] {
                let mut answer = Vec::new();
                send_request(page, &path)?.read_to_end(&mut answer)?;
            }
        }
    }
    Ok(())
}

fn send_request(page: &Path, path: &str) -> std::io::Result<UnixStream> {
    let mut stream = UnixStream::connect(page)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    )?;
    Ok(stream)
}

fn failed(why: std::io::Error) -> BenchError {
    BenchError::Worker {
        worker: "agent".to_owned(),
        reason: format!("its page cannot be read: {why}"),
    }
}
