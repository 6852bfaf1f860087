//! The thread that reads the sample.

use crate::parse::{Flow, packet};
use crate::rate;
use crate::shared::SharedNamespace;
use crate::socket::PacketSocket;
use crate::table::{Count, Table};
use cofferdam_host::in_namespace;
use cofferdam_types::CgroupId;
use nix::time::{ClockId, clock_gettime};
use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time between two reads of the socket. Packets wait in its buffer, so the thread need not wake
/// for each.
const READ_INTERVAL: Duration = Duration::from_millis(50);
/// Time to the first read: until then N is a guess.
const FIRST_READ: Duration = Duration::from_millis(10);
/// Time between two settings of N.
const PERIOD: Duration = Duration::from_millis(400);
/// Most system calls of one read; the next read takes the rest.
const CALLS: usize = 64;

/// Reason why flows cannot be sampled.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError {
    /// The right is missing.
    #[error(
        "seeing the packets of a container needs root (CAP_NET_RAW in its network namespace and \
         CAP_SYS_ADMIN to enter it): run it with sudo"
    )]
    Denied,
    /// The namespace or the socket failed.
    #[error("cannot sample the packets of this network namespace: {0}")]
    Failed(io::Error),
}

impl From<io::Error> for CaptureError {
    fn from(error: io::Error) -> CaptureError {
        match error.kind() {
            io::ErrorKind::PermissionDenied => CaptureError::Denied,
            _ => CaptureError::Failed(error),
        }
    }
}

/// Owner of the packets to count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PacketOwner {
    /// Everything that the network namespace receives.
    Namespace,
    /// Packets to the TCP and UDP sockets of these cgroups, in a namespace that others share.
    Cgroups(HashSet<CgroupId>),
}

/// Counts of a sample.
#[derive(Clone, Debug)]
pub struct Reading {
    /// Time that the counts cover.
    pub length: Duration,
    /// Flows, most packets first.
    pub flows: Vec<(Flow, Count)>,
    /// All packets.
    pub total: Count,
    /// Packets that are not IP.
    pub other: Count,
    /// Packets in the sample.
    pub sampled: u64,
    /// Packets of the sample that were lost because the buffer was full.
    pub lost: u64,
    /// One packet in this many is in the sample now.
    pub one_in: u32,
    /// CPU time that the reading thread has used since the capture started.
    pub cpu: Duration,
    /// Reason for an early end.
    pub failed: Option<String>,
}

/// Running sample. Dropping it ends the sample and closes its socket.
#[derive(Debug)]
pub struct Capture {
    sample: Arc<SharedSample>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct SharedSample {
    ending: AtomicBool,
    sample: Mutex<Sample>,
}

#[derive(Debug)]
struct Sample {
    window: Option<Duration>,
    begun: Instant,
    now: Table,
    /// The window before this one, with its begin.
    before: Option<(Instant, Table)>,
    one_in: u32,
    lost: u64,
    cpu: Duration,
    failed: Option<String>,
}

impl Capture {
    /// Samples the packets that the network namespace `netns` receives, and counts those of
    /// `owner`. The counts cover the time since the start, or with `window` the last one to two
    /// windows.
    ///
    /// # Errors
    /// [`CaptureError`] if the namespace cannot be entered or a socket cannot be opened.
    pub fn start(
        netns: &File,
        owner: &PacketOwner,
        window: Option<Duration>,
    ) -> Result<Capture, CaptureError> {
        let (socket, shared) = in_namespace(netns, || -> io::Result<_> {
            let shared = match owner {
                PacketOwner::Namespace => None,
                PacketOwner::Cgroups(cgroups) => Some(SharedNamespace::open(cgroups.clone())?),
            };
            Ok((PacketSocket::open()?, shared))
        })??;
        socket.sample_one_in(rate::FIRST)?;
        let sample = Arc::new(SharedSample {
            ending: AtomicBool::new(false),
            sample: Mutex::new(Sample {
                window,
                begun: Instant::now(),
                now: Table::default(),
                before: None,
                one_in: rate::FIRST,
                lost: 0,
                cpu: Duration::ZERO,
                failed: None,
            }),
        });
        let thread_sample = Arc::clone(&sample);
        let thread = std::thread::Builder::new().name("cofferdam-flows".into());
        let thread = thread.spawn(move || {
            if let Err(error) = run(socket, shared, &thread_sample) {
                thread_sample.lock().failed = Some(error.to_string());
            }
        })?;
        Ok(Capture {
            sample,
            thread: Some(thread),
        })
    }

    /// Returns the counts up to now.
    pub fn reading(&self) -> Reading {
        let sample = self.sample.lock();
        let mut table = sample
            .before
            .as_ref()
            .map_or_else(Table::default, |b| b.1.clone());
        table.merge(&sample.now);
        let begun = sample
            .before
            .as_ref()
            .map_or(sample.begun, |(begun, _)| *begun);
        Reading {
            length: begun.elapsed(),
            flows: table.sorted(),
            total: table.total,
            other: table.other,
            sampled: table.sampled,
            lost: sample.lost,
            one_in: sample.one_in,
            cpu: sample.cpu,
            failed: sample.failed.clone(),
        }
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.sample.ending.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // The thread has printed its panic.
            let _ended = thread.join();
        }
    }
}

impl SharedSample {
    fn lock(&self) -> std::sync::MutexGuard<'_, Sample> {
        self.sample.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sample {
    /// Starts a new window after a look, if the present one is over.
    fn start_due_window(&mut self, lost: u64) {
        self.lost += lost;
        self.cpu = cpu_time();
        if self
            .window
            .is_some_and(|window| self.begun.elapsed() >= window)
        {
            let now = std::mem::take(&mut self.now);
            self.before = Some((self.begun, now));
            self.begun = Instant::now();
        }
    }
}

/// Cost of the present N.
struct Period {
    begun: Instant,
    /// CPU time of the thread at the begin of the period, and CPU time since then for work that
    /// does not depend on N.
    cpu_before: Duration,
    cpu_apart: Duration,
    sampled: u64,
    lost: u64,
}

impl Period {
    fn begin() -> Period {
        Period {
            begun: Instant::now(),
            cpu_before: cpu_time(),
            cpu_apart: Duration::ZERO,
            sampled: 0,
            lost: 0,
        }
    }

    fn next(&self, one_in: u32) -> u32 {
        let used = cpu_time().saturating_sub(self.cpu_before + self.cpu_apart);
        rate::next(one_in, self.sampled, self.lost, used, self.begun.elapsed())
    }
}

fn run(
    mut socket: PacketSocket,
    mut shared: Option<SharedNamespace>,
    sample: &SharedSample,
) -> io::Result<()> {
    let mut one_in = rate::FIRST;
    let mut period = Period::begin();
    let (mut pause, mut period_length) = (FIRST_READ, FIRST_READ);
    while !sample.ending.load(Ordering::Acquire) {
        std::thread::park_timeout(pause);
        let lost = socket.lost()?;
        period.lost += lost;
        if let Some(shared) = &mut shared {
            let before = cpu_time();
            shared.query_if_due()?;
            period.cpu_apart += cpu_time().saturating_sub(before);
        }
        period.sampled += drain(&mut socket, shared.as_ref(), sample, one_in)?;
        sample.lock().start_due_window(lost);
        if period.begun.elapsed() < period_length {
            continue;
        }
        let next = period.next(one_in);
        if next != one_in {
            // Nothing is captured in between, so that the packets of the old N are counted with it.
            socket.sample_none()?;
            drain(&mut socket, shared.as_ref(), sample, one_in)?;
            socket.sample_one_in(next)?;
            one_in = next;
            sample.lock().one_in = next;
        }
        period = Period::begin();
        (pause, period_length) = (READ_INTERVAL, PERIOD);
    }
    Ok(())
}

/// Counts the waiting packets; returns their number, whether they are the container's or not.
fn drain(
    socket: &mut PacketSocket,
    shared: Option<&SharedNamespace>,
    sample: &SharedSample,
    one_in: u32,
) -> io::Result<u64> {
    let mut sample = sample.lock();
    let mut sampled = 0;
    socket.read(CALLS, |captured| {
        sampled += 1;
        let packet = packet(captured.bytes, captured.length, captured.ethernet);
        if shared.is_none_or(|s| s.is_ours(&packet, captured.device)) {
            sample.now.count(&packet, captured.length, one_in);
        }
    })?;
    Ok(sampled)
}

/// Returns the CPU time of this thread.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}
