//! Where readings come from, and the containers that went between two of them.

use cofferdam_accounting::{Accountant, ReadError};
use cofferdam_types::{CgroupId, Container, ContainerLedger, Snapshot};
use std::collections::{HashSet, VecDeque};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Something that keeps a ledger. The agent sees this, so that its tests need no kernel.
pub trait Ledger {
    /// Waits until `until`, or until `wake` is readable.
    fn follow(&mut self, until: Instant, wake: BorrowedFd<'_>) -> Result<(), ReadError>;

    /// Cumulative counts since the start, with containers gone since the last reading.
    fn snapshot(&mut self) -> Result<Snapshot, ReadError>;

    /// The containers known now.
    fn containers(&self) -> Vec<Arc<Container>>;
}

impl Ledger for Accountant {
    fn follow(&mut self, until: Instant, wake: BorrowedFd<'_>) -> Result<(), ReadError> {
        Accountant::follow(self, until, Some(wake)).map(|_| ())
    }

    fn snapshot(&mut self) -> Result<Snapshot, ReadError> {
        Accountant::snapshot(self)
    }

    fn containers(&self) -> Vec<Arc<Container>> {
        Accountant::containers(self)
    }
}

/// Containers that are gone, kept for the last counts.
const MOST_KEPT: usize = 4096;

/// Readings that several readers share: each learns of every container that went since its own
/// last reading.
#[derive(Debug)]
pub(crate) struct Readings<L> {
    ledger: L,
    last: Option<Arc<Snapshot>>,
    taken: Instant,
    /// With the uptime of the reading that had them last.
    gone: VecDeque<(Duration, ContainerLedger)>,
}

impl<L: Ledger> Readings<L> {
    pub fn new(ledger: L) -> Readings<L> {
        Readings {
            ledger,
            last: None,
            taken: Instant::now(),
            gone: VecDeque::new(),
        }
    }

    pub fn ledger(&mut self) -> &mut L {
        &mut self.ledger
    }

    pub fn containers(&self) -> Vec<Arc<Container>> {
        self.ledger.containers()
    }

    /// A reading that is at most `age` old; only containers that live.
    pub fn read(&mut self, age: Duration) -> Result<Arc<Snapshot>, ReadError> {
        if let Some(last) = &self.last
            && self.taken.elapsed() < age
        {
            return Ok(last.clone());
        }
        let mut snapshot = self.ledger.snapshot()?;
        let living: HashSet<CgroupId> = self.containers().iter().map(|c| c.cgroup).collect();
        let uptime = snapshot.uptime;
        let mut kept = Vec::with_capacity(snapshot.containers.len());
        for entry in snapshot.containers.drain(..) {
            if living.contains(&entry.container.cgroup) {
                kept.push(entry);
            } else {
                self.gone.push_back((uptime, entry));
            }
        }
        snapshot.containers = kept;
        while self.gone.len() > MOST_KEPT {
            self.gone.pop_front();
        }
        let snapshot = Arc::new(snapshot);
        self.taken = Instant::now();
        self.last = Some(snapshot.clone());
        Ok(snapshot)
    }

    /// The containers that went after the reading at `after`; none without one.
    pub fn gone_since(&self, after: Option<Duration>) -> Vec<ContainerLedger> {
        let Some(after) = after else {
            return Vec::new();
        };
        let since = self.gone.iter().rev().take_while(|(when, _)| *when > after);
        since.map(|(_, entry)| entry.clone()).collect()
    }
}
