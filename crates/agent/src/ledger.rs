//! Source of readings, and the containers that ended between two of them.

use cofferdam_accounting::{Accountant, ReadError, WindowOptions};
use cofferdam_host::Introduction;
use cofferdam_types::{
    AccountingMode, CgroupId, Container, ContainerLedger, Interval, Selector, Snapshot,
};
use std::collections::{HashSet, VecDeque};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Source of the ledger. The agent sees this trait, so that its tests need no kernel.
pub trait Ledger {
    /// Waits until `until`, or until `wake` is readable.
    fn follow(&mut self, until: Instant, wake: BorrowedFd<'_>) -> Result<(), ReadError>;

    /// Reads the cumulative counts since the start, with the containers that ended since the last
    /// reading.
    fn snapshot(&mut self) -> Result<Snapshot, ReadError>;

    /// Reads like [`Ledger::snapshot`], but cheaper: CPU use of containers may be as old as
    /// `usage_age`.
    fn quick_snapshot(&mut self, _usage_age: Duration) -> Result<Snapshot, ReadError> {
        self.snapshot()
    }

    /// Time that each CPU has spent on packets since the start, nanoseconds; much cheaper than a
    /// reading. Empty if unknown.
    fn network_ns(&self) -> Result<Vec<u64>, ReadError> {
        Ok(Vec::new())
    }

    /// Currently tracked containers.
    fn containers(&self) -> Vec<Arc<Container>>;

    /// Counts cgroups that `selectors` name as containers, whatever their network namespace.
    fn name(&mut self, _selectors: &[Selector]) -> Result<(), ReadError> {
        Ok(())
    }

    /// Adds runtime records of containers.
    fn introduce(&mut self, _containers: Vec<Introduction>) -> Result<(), ReadError> {
        Ok(())
    }

    /// Forgets a container that the runtime no longer has.
    fn forget_introduced(&mut self, _id: &str) {}

    /// Sets whether names are read from the files of runtimes.
    fn read_runtime_files(&mut self, _read: bool) -> Result<(), ReadError> {
        Ok(())
    }

    /// Number that grows whenever [`Ledger::containers`] changes.
    fn generation(&self) -> u64;

    /// Enables sampling in these windows.
    fn sample(&mut self, _windows: WindowOptions) -> Result<(), ReadError> {
        Ok(())
    }

    /// Switches to exact accounting, or to windows only, soon.
    fn set_exact(&mut self, _exact: bool) -> Result<(), ReadError> {
        Ok(())
    }

    /// Switches to exact accounting, and waits at most `at_most` for it.
    fn become_exact(&mut self, _at_most: Duration) -> Result<(), ReadError> {
        Ok(())
    }

    /// Current accounting mode.
    fn mode(&self) -> AccountingMode {
        AccountingMode::Exact
    }

    /// Last window, as it was measured.
    fn window(&self) -> Option<Arc<Interval>> {
        None
    }

    /// Starts the next window now.
    fn look_now(&self) {}
}

impl Ledger for Accountant {
    fn follow(&mut self, until: Instant, wake: BorrowedFd<'_>) -> Result<(), ReadError> {
        Accountant::follow(self, until, Some(wake)).map(|_| ())
    }

    fn snapshot(&mut self) -> Result<Snapshot, ReadError> {
        Accountant::snapshot(self)
    }

    fn quick_snapshot(&mut self, usage_age: Duration) -> Result<Snapshot, ReadError> {
        Accountant::quick_snapshot(self, usage_age)
    }

    fn network_ns(&self) -> Result<Vec<u64>, ReadError> {
        Accountant::network_ns(self)
    }

    fn containers(&self) -> Vec<Arc<Container>> {
        Accountant::containers(self)
    }

    fn name(&mut self, selectors: &[Selector]) -> Result<(), ReadError> {
        Accountant::name(self, selectors)
    }

    fn introduce(&mut self, containers: Vec<Introduction>) -> Result<(), ReadError> {
        Accountant::introduce(self, containers)
    }

    fn forget_introduced(&mut self, id: &str) {
        Accountant::forget_introduced(self, id);
    }

    fn read_runtime_files(&mut self, read: bool) -> Result<(), ReadError> {
        Accountant::read_runtime_files(self, read)
    }

    fn generation(&self) -> u64 {
        Accountant::generation(self)
    }

    fn sample(&mut self, windows: WindowOptions) -> Result<(), ReadError> {
        Accountant::sample(self, windows)
    }

    fn set_exact(&mut self, exact: bool) -> Result<(), ReadError> {
        Accountant::set_exact(self, exact)
    }

    fn become_exact(&mut self, at_most: Duration) -> Result<(), ReadError> {
        Accountant::become_exact(self, at_most).map(|_| ())
    }

    fn mode(&self) -> AccountingMode {
        Accountant::mode(self)
    }

    fn window(&self) -> Option<Arc<Interval>> {
        Accountant::window(self)
    }

    fn look_now(&self) {
        Accountant::look_now(self);
    }
}

/// Share of a CPU spent on packets below which a reading is not worth its cost: the enforcement
/// acts on containers that take more.
const CALM: f64 = 0.01;
/// Limit on the number of ended containers whose last counts are stored.
const MOST_ENDED: usize = 4096;

/// Readings that several readers share. Each learns of every container that ended since its own
/// last reading.
#[derive(Debug)]
pub(crate) struct Readings<L> {
    ledger: L,
    last: Option<Arc<Snapshot>>,
    /// Time of the last reading, if that was a complete one.
    taken: Option<Instant>,
    /// Containers at a generation.
    tracked: Option<(u64, Arc<[Arc<Container>]>)>,
    /// Time and counts of the last call of [`Readings::are_calm`].
    calm_check: Option<(Instant, Vec<u64>)>,
    /// Last counts of ended containers, with the uptime of the reading that had them last.
    ended: VecDeque<(Duration, ContainerLedger)>,
}

impl<L: Ledger> Readings<L> {
    pub fn new(ledger: L) -> Readings<L> {
        Readings {
            ledger,
            last: None,
            taken: None,
            tracked: None,
            calm_check: None,
            ended: VecDeque::new(),
        }
    }

    pub fn ledger(&mut self) -> &mut L {
        &mut self.ledger
    }

    /// Current accounting mode.
    pub fn mode(&self) -> AccountingMode {
        self.ledger.mode()
    }

    /// Marks the last reading as outdated.
    pub fn expire(&mut self) {
        self.taken = None;
    }

    /// Currently tracked containers. The same allocation as last time unless one came, ended or
    /// changed.
    pub fn containers(&mut self) -> Arc<[Arc<Container>]> {
        let generation = self.ledger.generation();
        if let Some((of, tracked)) = &self.tracked
            && *of == generation
        {
            return tracked.clone();
        }
        let tracked: Arc<[Arc<Container>]> = self.ledger.containers().into();
        self.tracked = Some((generation, tracked.clone()));
        tracked
    }

    /// Whether a reading can wait: since the last call no CPU has spent a hundredth of its time on
    /// packets, and no container has come, ended or changed.
    pub fn are_calm(&mut self) -> Result<bool, ReadError> {
        let (at, now) = (Instant::now(), self.ledger.network_ns()?);
        let generation = self.ledger.generation();
        let same = self
            .tracked
            .as_ref()
            .is_some_and(|(of, _)| *of == generation);
        let before = self.calm_check.replace((at, now.clone()));
        let Some((earlier, before)) = before.filter(|(_, b)| b.len() == now.len()) else {
            return Ok(false);
        };
        let most = at.duration_since(earlier).as_nanos() as f64 * CALM;
        let mut cpus = now.iter().zip(&before);
        let calm = cpus.all(|(now, before)| (now.saturating_sub(*before) as f64) < most);
        Ok(calm && same && !now.is_empty())
    }

    /// Returns a complete reading that is at most `age` old, with live containers only.
    pub fn read(&mut self, age: Duration) -> Result<Arc<Snapshot>, ReadError> {
        if let Some(last) = &self.last
            && self.taken.is_some_and(|at| at.elapsed() < age)
        {
            return Ok(last.clone());
        }
        let snapshot = self.ledger.snapshot()?;
        self.taken = Some(Instant::now());
        Ok(self.keep_living(snapshot))
    }

    /// Takes a reading for the control loop. CPU use of containers may be as old as `usage_age`.
    pub fn read_quickly(&mut self, usage_age: Duration) -> Result<Arc<Snapshot>, ReadError> {
        let snapshot = self.ledger.quick_snapshot(usage_age)?;
        self.taken = None;
        Ok(self.keep_living(snapshot))
    }

    fn keep_living(&mut self, mut snapshot: Snapshot) -> Arc<Snapshot> {
        let uptime = snapshot.uptime;
        let tracked = self.containers();
        let all_live = snapshot.containers.len() == tracked.len()
            && snapshot
                .containers
                .iter()
                .zip(tracked.iter())
                .all(|(entry, tracked)| entry.container.cgroup == tracked.cgroup);
        if !all_live {
            let living: HashSet<CgroupId> = tracked.iter().map(|c| c.cgroup).collect();
            let lives = |entry: &ContainerLedger| living.contains(&entry.container.cgroup);
            let (live, ended) = snapshot.containers.into_iter().partition(lives);
            snapshot.containers = live;
            let ended: Vec<ContainerLedger> = ended;
            self.ended
                .extend(ended.into_iter().map(|entry| (uptime, entry)));
        }
        while self.ended.len() > MOST_ENDED {
            self.ended.pop_front();
        }
        let snapshot = Arc::new(snapshot);
        self.last = Some(snapshot.clone());
        snapshot
    }

    /// Containers that ended after the reading at `after`; none without one.
    pub fn ended_since(&self, after: Option<Duration>) -> Vec<ContainerLedger> {
        let Some(after) = after else {
            return Vec::new();
        };
        let since = self
            .ended
            .iter()
            .rev()
            .take_while(|(when, _)| *when > after);
        since.map(|(_, entry)| entry.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;
    use std::time::SystemTime;

    #[derive(Default)]
    struct Quiet {
        network_ns: Vec<u64>,
        generation: u64,
    }

    impl Ledger for Quiet {
        fn follow(&mut self, _: Instant, _: BorrowedFd<'_>) -> Result<(), ReadError> {
            Ok(())
        }

        fn snapshot(&mut self) -> Result<Snapshot, ReadError> {
            Ok(Snapshot {
                time: SystemTime::UNIX_EPOCH,
                uptime: Duration::ZERO,
                cpus: Vec::new(),
                containers: Vec::new(),
                unattributed_ns: BTreeMap::new(),
                health: cofferdam_types::Health::default(),
                sampling: None,
            })
        }

        fn network_ns(&self) -> Result<Vec<u64>, ReadError> {
            Ok(self.network_ns.clone())
        }

        fn containers(&self) -> Vec<Arc<Container>> {
            Vec::new()
        }

        fn generation(&self) -> u64 {
            self.generation
        }
    }

    /// Promise 5.
    #[test]
    fn a_reading_waits_only_while_the_host_is_calm() {
        let mut readings = Readings::new(Quiet::default());
        readings.containers();
        assert!(!readings.are_calm().unwrap(), "what is spent is not known");
        readings.ledger().network_ns = vec![7, 9];
        assert!(!readings.are_calm().unwrap(), "there was no look before");
        assert!(readings.are_calm().unwrap());
        // More than the whole time since the last call, on one CPU.
        readings.ledger().network_ns[1] += 3_600_000_000_000;
        assert!(!readings.are_calm().unwrap());
        assert!(readings.are_calm().unwrap());
        readings.ledger().generation += 1;
        assert!(!readings.are_calm().unwrap(), "a container has come");
        readings.containers();
        assert!(readings.are_calm().unwrap());
    }
}
