//! Where intervals come from. Commands see this trait, so that tests need no kernel.

use crate::doctor;
use crate::exit::Failure;
use crate::interrupt::Interrupt;
use cofferdam_accounting::{Accountant, Beside, Options, ReadError, StartError};
use cofferdam_agent::{Client, ClientError};
use cofferdam_types::{Container, Interval, Selector, Snapshot};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Something that keeps a ledger.
pub trait Source {
    /// Waits until `until`, or until `wake` is readable; true when `wake` ended it.
    fn follow(&mut self, until: Instant, wake: BorrowedFd<'_>) -> Result<bool, ReadError>;

    /// Cumulative counts since the start.
    fn snapshot(&mut self) -> Result<Snapshot, ReadError>;

    /// Takes the ledger over when the process that kept it has ended; true when it did, and the
    /// counts begin anew.
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

/// The running agent, as a source.
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

/// Where a command's readings come from.
pub enum Either {
    /// The running agent.
    Agent(Remote),
    /// This process itself.
    Own(Box<Accountant>),
    /// Another command that keeps the ledger now. When that ends, this one keeps it, for these
    /// containers.
    Beside(Box<Beside>, Vec<Selector>),
}

impl Source for Either {
    fn follow(&mut self, until: Instant, wake: BorrowedFd<'_>) -> Result<bool, ReadError> {
        match self {
            Either::Agent(source) => source.follow(until, wake),
            Either::Own(source) => Source::follow(source.as_mut(), until, wake),
            Either::Beside(source, _) => source.follow(until, wake),
        }
    }

    fn snapshot(&mut self) -> Result<Snapshot, ReadError> {
        match self {
            Either::Agent(source) => source.snapshot(),
            Either::Own(source) => Source::snapshot(source.as_mut()),
            Either::Beside(source, _) => source.snapshot(),
        }
    }

    fn take_over(&mut self) -> Result<bool, Failure> {
        match self {
            Either::Beside(source, selectors) if source.is_over() => {
                *self = own_or_beside(selectors)?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }
}

/// The running agent where one listens on `socket`; else the accounting of this host, which this
/// command starts where none runs; or one line that says why it cannot run. Cgroups that
/// `selectors` name are containers then, in the host's network namespace too.
pub fn start(socket: &Path, selectors: &[Selector]) -> Result<Either, Failure> {
    match Client::connect(socket) {
        Ok(client) => return Ok(Either::Agent(Remote(client))),
        // Without an agent to ask, the answer is that of a host without an agent.
        Err(ClientError::NotRunning(_) | ClientError::Denied(_)) => {}
        Err(error) => return Err(error.into()),
    }
    own_or_beside(selectors)
}

/// How long another command may take to load its programs, or to end.
const PATIENCE: Duration = Duration::from_secs(30);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(50);

/// Of several commands one keeps the ledger; the others read it.
fn own_or_beside(selectors: &[Selector]) -> Result<Either, Failure> {
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
        if let Some(beside) = Beside::open()? {
            return Ok(Either::Beside(Box::new(beside), selectors.to_vec()));
        }
        if Instant::now() >= until {
            return Err(error.into());
        }
        std::thread::sleep(PAUSE);
    }
}

/// Length of the interval after taking over.
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

    /// The reading that the next interval begins with.
    pub fn last(&self) -> &Snapshot {
        &self.last
    }

    /// The containers of that reading.
    pub fn containers(&self) -> Vec<Arc<Container>> {
        self.last
            .containers
            .iter()
            .map(|c| c.container.clone())
            .collect()
    }

    /// Waits for the end of an interval that is `length` long, and reads it. Ends are kept at
    /// equal distances: time that reading and printing take is not added up. `None` when a
    /// signal came; [`Meter::cut`] then gives the part until now.
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

    /// Ends the interval now. When the process that kept the ledger has ended meanwhile, the interval
    /// is a short one after that, by its own length: nothing is made up for the gap.
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
