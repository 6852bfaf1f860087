//! Sources of readings. Commands use the trait [`Source`], so that tests need no kernel.

use crate::doctor;
use crate::exit::Failure;
use crate::interrupt::Interrupt;
use cofferdam_accounting::{Accountant, Options, ReadError, RunningLedger, StartError};
use cofferdam_agent::{Client, ClientError};
use cofferdam_types::{Container, Interval, Selector, Snapshot};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Accounting that can be read.
pub trait Source {
    /// Waits until `until`, or until `wake` is readable; true when `wake` ended it.
    fn follow(&mut self, until: Instant, wake: BorrowedFd<'_>) -> Result<bool, ReadError>;

    /// Cumulative counts since the start.
    fn snapshot(&mut self) -> Result<Snapshot, ReadError>;

    /// Takes the ledger over when the process that kept it has ended. Returns true if it did; then
    /// the counts restart.
    fn take_over(&mut self) -> Result<bool, Failure> {
        Ok(false)
    }
}

impl Source for Accountant {
    fn follow(&mut self, until: Instant, wake: BorrowedFd<'_>) -> Result<bool, ReadError> {
        Accountant::follow(self, until, Some(wake))
    }

    fn snapshot(&mut self) -> Result<Snapshot, ReadError> {
        Accountant::snapshot(self)
    }
}

/// The running agent as a source.
#[derive(Debug)]
pub struct Remote(Client);

impl Source for Remote {
    fn follow(&mut self, until: Instant, wake: BorrowedFd<'_>) -> Result<bool, ReadError> {
        loop {
            let left = until.saturating_duration_since(Instant::now());
            // Rounded up, so that the last millisecond is slept and not spun.
            let milliseconds = i32::try_from(left.as_micros().div_ceil(1000)).unwrap_or(i32::MAX);
            let timeout = PollTimeout::try_from(milliseconds).unwrap_or(PollTimeout::MAX);
            let mut fds = [PollFd::new(wake, PollFlags::POLLIN)];
            match poll(&mut fds, timeout) {
                Ok(0) if Instant::now() >= until => return Ok(false),
                Ok(0) | Err(Errno::EINTR) => {}
                Ok(_) => return Ok(true),
                Err(errno) => return Err(ReadError(format!("cannot wait: {errno}"))),
            }
        }
    }

    fn snapshot(&mut self) -> Result<Snapshot, ReadError> {
        self.0.snapshot().map_err(|e| ReadError(e.to_string()))
    }
}

/// Source of a command's readings.
pub enum Either {
    /// The running agent.
    Agent(Remote),
    /// This process itself.
    Own(Box<Accountant>),
    /// Another command that keeps the ledger now. When it ends, this one takes over, for these
    /// containers.
    Shared(Box<RunningLedger>, Vec<Selector>),
}

impl Source for Either {
    fn follow(&mut self, until: Instant, wake: BorrowedFd<'_>) -> Result<bool, ReadError> {
        match self {
            Either::Agent(source) => source.follow(until, wake),
            Either::Own(source) => Source::follow(source.as_mut(), until, wake),
            Either::Shared(source, _) => source.follow(until, wake),
        }
    }

    fn snapshot(&mut self) -> Result<Snapshot, ReadError> {
        match self {
            Either::Agent(source) => source.snapshot(),
            Either::Own(source) => Source::snapshot(source.as_mut()),
            Either::Shared(source, _) => source.snapshot(),
        }
    }

    fn take_over(&mut self) -> Result<bool, Failure> {
        match self {
            Either::Shared(source, selectors) if source.is_over() => {
                *self = own_or_shared(selectors)?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }
}

/// Opens the source of this host: the agent that listens on `socket`, or an accounting that another
/// command runs, or a new one.
///
/// Cgroups that `selectors` name are containers for the new one, in the host's network namespace
/// too.
pub fn start(socket: &Path, selectors: &[Selector]) -> Result<Either, Failure> {
    match Client::connect(socket) {
        Ok(client) => return Ok(Either::Agent(Remote(client))),
        // An agent that is not there or refuses us is like none.
        Err(ClientError::NotRunning(_) | ClientError::Denied(_)) => {}
        Err(error) => return Err(error.into()),
    }
    own_or_shared(selectors)
}

/// Longest time that another command takes to load its programs, or to end.
const PATIENCE: Duration = Duration::from_secs(30);
/// Pause between two tries.
const PAUSE: Duration = Duration::from_millis(50);

/// Starts the accounting, or opens that of another command: only one command keeps the ledger, the
/// others read it.
fn own_or_shared(selectors: &[Selector]) -> Result<Either, Failure> {
    let until = Instant::now() + PATIENCE;
    loop {
        let error = match Accountant::start(Options::default()) {
            Ok(mut accountant) => {
                accountant.name(selectors)?;
                return Ok(Either::Own(Box::new(accountant)));
            }
            Err(error @ StartError::AlreadyRunning { .. }) => error,
            Err(StartError::Unsupported(text)) => return Err(doctor::unsupported(text)),
            Err(other) => return Err(other.into()),
        };
        if let Some(shared) = RunningLedger::open()? {
            return Ok(Either::Shared(Box::new(shared), selectors.to_vec()));
        }
        if Instant::now() >= until {
            return Err(error.into());
        }
        std::thread::sleep(PAUSE);
    }
}

/// Length of the interval after a takeover.
const AFTER_TAKING_OVER: Duration = Duration::from_millis(100);

/// Turns readings into intervals.
#[derive(Debug)]
pub struct Meter<S> {
    source: S,
    last: Snapshot,
    due: Instant,
}

impl<S: Source> Meter<S> {
    /// Takes the first reading.
    pub fn new(mut source: S) -> Result<Meter<S>, Failure> {
        let last = source.snapshot()?;
        Ok(Meter {
            source,
            last,
            due: Instant::now(),
        })
    }

    /// Reading with which the next interval begins.
    pub fn last(&self) -> &Snapshot {
        &self.last
    }

    /// Containers of the last reading.
    pub fn containers(&self) -> Vec<Arc<Container>> {
        self.last
            .containers
            .iter()
            .map(|c| c.container.clone())
            .collect()
    }

    /// Waits for the end of an interval that is `length` long, and reads it.
    ///
    /// The ends have equal distances: the time that reading and printing take does not add up.
    /// Returns `None` when a signal came; [`Meter::cut`] then yields the part until now.
    pub fn next(
        &mut self,
        length: Duration,
        interrupt: &Interrupt,
    ) -> Result<Option<Interval>, Failure> {
        self.due = (self.due + length).max(Instant::now());
        if interrupt.raised() || self.source.follow(self.due, interrupt.fd())? {
            return Ok(None);
        }
        self.cut().map(Some)
    }

    /// Waits until `until` or `wake`; true when `wake` ended it.
    pub fn follow(&mut self, until: Instant, wake: BorrowedFd<'_>) -> Result<bool, Failure> {
        Ok(self.source.follow(until, wake)?)
    }

    /// Ends the interval now. If the process that kept the ledger has ended meanwhile, the interval
    /// is a short one after the takeover: the gap is not estimated.
    pub fn cut(&mut self) -> Result<Interval, Failure> {
        if self.source.take_over()? {
            self.last = self.source.snapshot()?;
            std::thread::sleep(AFTER_TAKING_OVER);
        }
        let now = self.source.snapshot()?;
        let interval = now.since(&self.last);
        self.last = now;
        Ok(interval)
    }
}
