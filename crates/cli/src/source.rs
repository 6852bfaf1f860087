//! Where intervals come from. Commands see this trait, so that tests need no kernel.

use crate::doctor;
use crate::exit::Failure;
use crate::interrupt::Interrupt;
use cofferdam_accounting::StartError;
use cofferdam_accounting::{Accountant, Options, ReadError};
use cofferdam_types::{Container, Interval, Snapshot};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Something that keeps a ledger.
pub trait Source {
    /// Waits until `until`, or until `wake` is readable; true when `wake` ended it.
    fn follow(&mut self, until: Instant, wake: BorrowedFd<'_>) -> Result<bool, ReadError>;

    /// Cumulative counts since the start.
    fn snapshot(&mut self) -> Result<Snapshot, ReadError>;
}

impl Source for Accountant {
    fn follow(&mut self, until: Instant, wake: BorrowedFd<'_>) -> Result<bool, ReadError> {
        Accountant::follow(self, until, Some(wake))
    }

    fn snapshot(&mut self) -> Result<Snapshot, ReadError> {
        Accountant::snapshot(self)
    }
}

/// Starts the accounting of this host, or says in one line why it cannot run.
pub fn start() -> Result<Accountant, Failure> {
    Accountant::start(Options::default()).map_err(|error| match error {
        // The doctor's words, where it sees the cause: one host, one answer.
        StartError::Unsupported(text) => match cofferdam_host::doctor::accounting_blocker() {
            Some(check) => Failure::Unsupported(doctor::blocker_line(&check)),
            None => Failure::Unsupported(text),
        },
        other => other.into(),
    })
}

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

    /// Ends the interval now.
    pub fn cut(&mut self) -> Result<Interval, Failure> {
        let now = self.source.snapshot()?;
        let interval = now.since(&self.last);
        self.last = now;
        Ok(interval)
    }
}
