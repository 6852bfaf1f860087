//! Line protocol between driver and worker, the counters, and the ends of a worker.

use super::{Args, Failure};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Longest life of a worker without `--limit`.
const DEFAULT_LIMIT: Duration = Duration::from_secs(120);

/// Counters of a worker at one moment. Depending on its kind they count datagrams or write calls
/// sent (offered), or datagrams or read calls received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reading {
    /// Time since the worker's start command, nanoseconds.
    pub t_ns: u64,
    /// Datagrams (UDP) or calls (TCP).
    pub packets: u64,
    /// Payload bytes.
    pub bytes: u64,
}

impl Reading {
    /// Rates between two readings.
    pub fn since(&self, earlier: &Reading) -> crate::data::Rate {
        let seconds = self.t_ns.saturating_sub(earlier.t_ns).max(1) as f64 / 1e9;
        crate::data::Rate {
            packets_per_s: self.packets.saturating_sub(earlier.packets) as f64 / seconds,
            bytes_per_s: self.bytes.saturating_sub(earlier.bytes) as f64 / seconds,
        }
    }
}

#[derive(Default)]
struct SharedCounters {
    packets: AtomicU64,
    bytes: AtomicU64,
    stop: Arc<AtomicBool>,
}

impl SharedCounters {
    fn reading(&self, since: Instant) -> Reading {
        Reading {
            t_ns: u64::try_from(since.elapsed().as_nanos()).unwrap_or(u64::MAX),
            packets: self.packets.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
        }
    }
}

/// Counter of a worker, for another thread or for code behind protection keys.
#[derive(Clone)]
pub(crate) struct Counter(Arc<SharedCounters>);

impl Counter {
    /// Adds to the counters, as [`Control::count`] does.
    pub fn count(&self, packets: u64, bytes: u64) {
        self.0.packets.fetch_add(packets, Ordering::Relaxed);
        self.0.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// The worker's side of the protocol.
pub(crate) struct Control {
    shared: Arc<SharedCounters>,
    started: Instant,
    limit: Duration,
    duration: Option<Duration>,
}

impl Control {
    /// Counter for other threads.
    pub fn counter(&self) -> Counter {
        Counter(self.shared.clone())
    }

    /// Sets the ends of this process: the parent's death, SIGTERM and the time limit.
    pub fn new(args: &mut Args) -> Result<Control, Failure> {
        nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL)
            .map_err(|e| format!("cannot ask to die with the parent: {e}"))?;
        let parent: Option<i32> = args.take("parent")?;
        if parent.is_some_and(|pid| nix::unistd::getppid().as_raw() != pid) {
            return Err("the driver has died".to_owned());
        }
        let limit = args
            .take::<f64>("limit")?
            .map_or(DEFAULT_LIMIT, Duration::from_secs_f64);
        let duration = args.take::<f64>("duration")?.map(Duration::from_secs_f64);
        // SIGALRM's default action ends a worker that hangs in a system call. The loops check the
        // limit themselves and end in order.
        let hard_limit_s = u32::try_from(limit.as_secs()).unwrap_or(u32::MAX - 5) + 5;
        nix::unistd::alarm::set(hard_limit_s);
        let shared = Arc::new(SharedCounters::default());
        signal_hook::flag::register(signal_hook::consts::SIGTERM, shared.stop.clone())
            .map_err(|e| format!("cannot handle SIGTERM: {e}"))?;
        Ok(Control {
            shared,
            started: Instant::now(),
            limit,
            duration,
        })
    }

    /// Prints `ready`, waits for `go`, then serves `read` and `end` from a thread.
    pub fn start(&mut self) -> Result<(), Failure> {
        say("ready")?;
        let mut line = String::new();
        let got = std::io::stdin().lock().read_line(&mut line);
        match got.map(|_| line.trim()) {
            Ok("go") => {}
            Ok(other) => return Err(format!("expected 'go', got '{other}'")),
            Err(e) => return Err(format!("cannot read from the driver: {e}")),
        }
        self.started = Instant::now();
        let (shared, started) = (self.shared.clone(), self.started);
        std::thread::Builder::new()
            .name("control".to_owned())
            .spawn(move || {
                for line in std::io::stdin().lock().lines().map_while(Result::ok) {
                    match line.trim() {
                        "read" if say_json(&shared.reading(started)).is_ok() => {}
                        "end" => shared.stop.store(true, Ordering::Relaxed),
                        _ => break,
                    }
                }
            })
            .map_err(|e| format!("cannot start the control thread: {e}"))?;
        Ok(())
    }

    /// Adds to the counters.
    pub fn count(&self, packets: u64, bytes: u64) {
        self.shared.packets.fetch_add(packets, Ordering::Relaxed);
        self.shared.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Whether the worker must end.
    pub fn done(&self) -> bool {
        let elapsed = self.started.elapsed();
        self.shared.stop.load(Ordering::Relaxed)
            || elapsed > self.limit
            || self.duration.is_some_and(|d| elapsed > d)
    }

    /// Time since `go`.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Prints the last reading.
    pub fn report(&self) -> Result<(), Failure> {
        say_json(&self.shared.reading(self.started))
    }
}

/// Prints one line.
pub(crate) fn say(line: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")
        .and_then(|()| out.flush())
        .map_err(|e| format!("cannot write to the driver: {e}"))
}

/// Prints one JSON object on a line.
pub(crate) fn say_json<T: Serialize>(value: &T) -> Result<(), Failure> {
    say(&serde_json::to_string(value).map_err(|e| e.to_string())?)
}
