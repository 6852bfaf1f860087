//! The thread that reads the sample.

use crate::parse::{Flow, packet};
use crate::rate;
use crate::shared::Shared;
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

/// Time between two looks at the socket. Packets wait in its buffer, so the thread need not wake
/// for each.
const LOOK: Duration = Duration::from_millis(50);
/// Time to the first look: until then N is a guess.
const FIRST_LOOK: Duration = Duration::from_millis(10);
/// Time between two settings of N.
const SETTLE: Duration = Duration::from_millis(400);
/// Most system calls of one look; the next look reads the rest.
const CALLS: usize = 64;

/// Reason why flows cannot be seen.
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
pub enum Whose {
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
    seen: Arc<Seen>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Seen {
    ending: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
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
    /// `whose`. The counts cover the time since the start, or with `window` the last one to two
    /// windows.
    ///
    /// # Errors
    /// [`CaptureError`] if the namespace cannot be entered or a socket cannot be opened.
    pub fn start(
        netns: &File,
        whose: &Whose,
        window: Option<Duration>,
    ) -> Result<Capture, CaptureError> {
        let (socket, shared) = in_namespace(netns, || -> io::Result<_> {
            let shared = match whose {
                Whose::Namespace => None,
                Whose::Cgroups(cgroups) => Some(Shared::open(cgroups.clone())?),
            };
            Ok((PacketSocket::open()?, shared))
        })??;
        socket.keep(rate::FIRST)?;
        let seen = Arc::new(Seen {
            ending: AtomicBool::new(false),
            state: Mutex::new(State {
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
        let theirs = Arc::clone(&seen);
        let thread = std::thread::Builder::new().name("cofferdam-flows".into());
        let thread = thread.spawn(move || {
            if let Err(error) = run(socket, shared, &theirs) {
                theirs.state().failed = Some(error.to_string());
            }
        })?;
        Ok(Capture {
            seen,
            thread: Some(thread),
        })
    }

    /// Returns the counts up to now.
    pub fn reading(&self) -> Reading {
        let state = self.seen.state();
        let mut table = state
            .before
            .as_ref()
            .map_or_else(Table::default, |b| b.1.clone());
        table.merge(&state.now);
        let begun = state
            .before
            .as_ref()
            .map_or(state.begun, |(begun, _)| *begun);
        Reading {
            length: begun.elapsed(),
            flows: table.sorted(),
            total: table.total,
            other: table.other,
            sampled: table.sampled,
            lost: state.lost,
            one_in: state.one_in,
            cpu: state.cpu,
            failed: state.failed.clone(),
        }
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.seen.ending.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // The thread has printed its panic.
            let _ended = thread.join();
        }
    }
}

impl Seen {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Starts a new window after a look, if the present one is over.
    fn turn(&mut self, lost: u64) {
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

fn run(mut socket: PacketSocket, mut shared: Option<Shared>, seen: &Seen) -> io::Result<()> {
    let mut one_in = rate::FIRST;
    let mut period = Period::begin();
    let (mut pause, mut settle) = (FIRST_LOOK, FIRST_LOOK);
    while !seen.ending.load(Ordering::Acquire) {
        std::thread::park_timeout(pause);
        let lost = socket.lost()?;
        period.lost += lost;
        if let Some(shared) = &mut shared {
            let before = cpu_time();
            shared.turn()?;
            period.cpu_apart += cpu_time().saturating_sub(before);
        }
        period.sampled += drain(&mut socket, shared.as_ref(), seen, one_in)?;
        seen.state().turn(lost);
        if period.begun.elapsed() < settle {
            continue;
        }
        let next = period.next(one_in);
        if next != one_in {
            // Nothing is captured in between, so that the packets of the old N are counted with it.
            socket.keep_none()?;
            drain(&mut socket, shared.as_ref(), seen, one_in)?;
            socket.keep(next)?;
            one_in = next;
            seen.state().one_in = next;
        }
        period = Period::begin();
        (pause, settle) = (LOOK, SETTLE);
    }
    Ok(())
}

/// Counts the waiting packets; returns their number, whether they are the container's or not.
fn drain(
    socket: &mut PacketSocket,
    shared: Option<&Shared>,
    seen: &Seen,
    one_in: u32,
) -> io::Result<u64> {
    let mut state = seen.state();
    let mut sampled = 0;
    socket.read(CALLS, |captured| {
        sampled += 1;
        let packet = packet(captured.bytes, captured.length, captured.ethernet);
        if shared.is_none_or(|s| s.is_ours(&packet, captured.device)) {
            state.now.count(&packet, captured.length, one_in);
        }
    })?;
    Ok(sampled)
}

/// Returns the CPU time of this thread.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}
