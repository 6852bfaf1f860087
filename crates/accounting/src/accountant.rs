//! The running accounting: programs, containers, and the readings that join them.

use crate::hidden_softirqs::HiddenSoftirqs;
use crate::hosts::HostCgroups;
use crate::hotplug::OnlineCpus;
use crate::identities::Identities;
use crate::reading::{Reading, note_senders, read_pairs};
use crate::sampled::MarkerOwner;
use crate::{ReadError, StartError};
use cofferdam_bpf::{AccountingPrograms, EmptyProgram, ProgramCost, RuntimeStatistics, Sizes};
use cofferdam_host::irq_time_accounting;
use cofferdam_host::{HostFs, Introduction, Inventory, MOST_HOST_CGROUPS};
use cofferdam_paths::{HostLock, RUN_FOLDER};
use cofferdam_types::{
    AccountingMode, CgroupId, Container, ContainerChange, ContainerLedger, Health, KernelEvent,
    Reason, Selector, Snapshot,
};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::mem;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Options of the accounting. It takes all its memory at the start.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Maximum number of containers at the same time; default 2048.
    pub slots: u32,
    /// Makes the kernel measure its own cost per BPF program run (adds about 25 ns a run).
    pub measure_programs: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            slots: 2048,
            measure_programs: false,
        }
    }
}

/// The running accounting. Dropping it detaches every program and leaves nothing behind.
pub struct Accountant {
    // The markers are dropped before the rest of the programs.
    pub(crate) marker_owner: MarkerOwner,
    pub(crate) programs: AccountingPrograms,
    pub(crate) inventory: Inventory,
    pub(crate) identities: Identities,
    hosts: HostCgroups,
    /// Containers that went away since the last snapshot, with their last counts.
    removed: Vec<ContainerLedger>,
    pub(crate) started: Instant,
    /// Whether the scheduler itself deducts interrupt time from the interrupted task.
    pub(crate) returned: bool,
    pub(crate) hidden_softirqs: HiddenSoftirqs,
    health: Health,
    online_cpus: OnlineCpus,
    /// Number of container changes so far.
    generation: u64,
    /// Time of the last reading of all containers' CPU use.
    pub(crate) usage_read: Option<Instant>,
    /// Time of the last query for skipped runs.
    missed_asked: Option<Instant>,
    statistics: Option<(RuntimeStatistics, EmptyProgram)>,
    _instance: HostLock,
}

/// Shortest time between two queries for skipped runs. A little less than a second, so that a
/// reading each second queries each time.
const MISSED_AT_MOST_EVERY: Duration = Duration::from_millis(900);

/// Waits until `until`, or until `wake` is readable. Returns whether `wake` ended it.
pub(crate) fn wait(until: Instant, wake: BorrowedFd<'_>) -> Result<bool, ReadError> {
    loop {
        let mut fds = [PollFd::new(wake, PollFlags::POLLIN)];
        match poll(&mut fds, timeout(until)) {
            Ok(0) if Instant::now() >= until => return Ok(false),
            Ok(0) | Err(Errno::EINTR) => {}
            Ok(_) => return Ok(true),
            Err(errno) => return Err(ReadError(format!("cannot wait: {errno}"))),
        }
    }
}

/// Rounds up, so that the last millisecond is slept and not spun.
fn timeout(until: Instant) -> PollTimeout {
    let left = until.saturating_duration_since(Instant::now());
    let milliseconds = i32::try_from(left.as_micros().div_ceil(1000)).unwrap_or(i32::MAX);
    PollTimeout::try_from(milliseconds).unwrap_or(PollTimeout::MAX)
}

impl Accountant {
    /// Loads and attaches the programs and finds the containers that exist.
    ///
    /// # Errors
    /// [`StartError::Unsupported`] if this host lacks something (the error names it and the
    /// remedy); [`StartError::AlreadyRunning`] if another instance is running.
    pub fn start(options: Options) -> Result<Accountant, StartError> {
        let instance = HostLock::take(Path::new(RUN_FOLDER), "accounting.lock")?;
        let failed = |e: &dyn std::fmt::Display| StartError::Failed(e.to_string());
        let statistics = if options.measure_programs {
            let enabled = RuntimeStatistics::enable().map_err(|e| failed(&e))?;
            Some((enabled, EmptyProgram::start().map_err(|e| failed(&e))?))
        } else {
            None
        };
        // The programs come first: whatever appears during the scan of the host is then an event.
        let hosts = MOST_HOST_CGROUPS as u32;
        let sizes = Sizes::for_containers(options.slots).and_hosts(hosts);
        let (programs, markers) = AccountingPrograms::load(
            sizes,
            cofferdam_host::host_netns(&HostFs::host()).map_err(|e| failed(&e))?,
        )?;
        let inventory = Inventory::scan().map_err(|e| failed(&e))?;
        let mut accountant = Accountant {
            marker_owner: MarkerOwner::Always(markers),
            programs,
            inventory,
            identities: Identities::new(options.slots, hosts),
            hosts: HostCgroups::new(Instant::now()),
            removed: Vec::new(),
            started: Instant::now(),
            returned: irq_time_accounting(&HostFs::host()) == Some(true),
            hidden_softirqs: HiddenSoftirqs::new(0),
            health: Health::default(),
            online_cpus: OnlineCpus::now(),
            generation: 0,
            usage_read: None,
            missed_asked: None,
            statistics,
            _instance: instance,
        };
        let found: Vec<_> = accountant
            .inventory
            .containers()
            .cloned()
            .map(ContainerChange::Added)
            .collect();
        accountant.take_changes(found).map_err(|e| failed(&e))?;
        accountant.take_events().map_err(|e| failed(&e))?;
        let softirqs = accountant.softirqs().map_err(|e| failed(&e))?;
        accountant.hidden_softirqs = HiddenSoftirqs::new(softirqs);
        Ok(accountant)
    }

    /// Follows containers that come and go. Returns at `until`, when `wake` is readable, or when
    /// the sampling accounting has something new to read: a window has ended, or everything is
    /// counted from now on. Returns true if `wake` ended it.
    pub fn follow(
        &mut self,
        until: Instant,
        wake: Option<BorrowedFd<'_>>,
    ) -> Result<bool, ReadError> {
        loop {
            let timeout = timeout(until);
            let (events, links, woken, notices) = {
                let mut fds = vec![
                    PollFd::new(self.programs.event_fd(), PollFlags::POLLIN),
                    PollFd::new(self.inventory.link_fd(), PollFlags::POLLIN),
                ];
                let at = |fds: &[PollFd<'_>], fd: Option<_>| fd.map(|_: &BorrowedFd<'_>| fds.len());
                let wake_at = at(&fds, wake.as_ref());
                fds.extend(wake.map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
                let windows = self.marker_owner.fd();
                let windows_at = at(&fds, windows.as_ref());
                fds.extend(windows.map(|fd| PollFd::new(fd, PollFlags::POLLIN)));
                match poll(&mut fds, timeout) {
                    Ok(_) | Err(Errno::EINTR) => {}
                    Err(errno) => {
                        return Err(ReadError(format!("cannot wait for events: {errno}")));
                    }
                }
                let ready = |i: usize| fds.get(i).and_then(|fd| fd.any()).unwrap_or(false);
                let is = |at: Option<usize>| at.is_some_and(ready);
                (ready(0), ready(1), is(wake_at), is(windows_at))
            };
            if events {
                self.take_events()?;
            }
            if links {
                let changes = self.inventory.handle_links();
                self.take_changes(changes)?;
            }
            let news = notices && self.take_notices()?;
            if woken {
                return Ok(true);
            }
            if news || Instant::now() >= until {
                return Ok(false);
            }
        }
    }

    /// Reads everything: cumulative counts since the start.
    pub fn snapshot(&mut self) -> Result<Snapshot, ReadError> {
        let mut snapshot = self.quick_snapshot(Duration::ZERO)?;
        let rows = self.identities.cgroups_of_rows();
        let pairs = self.marker_owner.pairs(read_pairs(&self.programs)?);
        note_senders(pairs, &rows, &mut snapshot.containers);
        Ok(snapshot)
    }

    /// Reads as [`Accountant::snapshot`] does, but cheaply, for a loop that reads many times a
    /// second. The CPU use of all containers is read only if it is older than `usage_age`, and
    /// [`ContainerLedger::received_from`] stays empty. Network work is always current.
    pub fn quick_snapshot(&mut self, usage_age: Duration) -> Result<Snapshot, ReadError> {
        self.take_events()?;
        let changes = self.inventory.handle_links();
        self.take_changes(changes)?;
        // Before the reading, so that it has their last counts.
        let quiet = self.hosts.take_quiet();
        if !quiet.is_empty() {
            let changes = self.inventory.forget_hosts(&quiet);
            self.take_changes(changes)?;
        }
        self.health.cpu_hotplugs += u64::from(self.online_cpus.changed());
        self.take_notices()?;
        let reading = self.reading()?;
        let softirqs = reading.cpus().map(|cpu| cpu.softirqs).sum();
        let mut containers = mem::take(&mut self.removed);
        // Between windows CPU use stays as it was at the end of the last window, like all else.
        let usage = self.mode() == AccountingMode::Exact
            && self.usage_read.is_none_or(|at| at.elapsed() >= usage_age);
        if usage {
            self.read_usage();
        }
        for slot in self.identities.slots_mut() {
            containers.push(reading.slot(slot, self.returned));
        }
        self.look_at_hosts(&reading, &containers)?;
        self.health.segments_rejected = reading.cpus().map(|cpu| cpu.segments_rejected).sum();
        self.health.softirqs_unseen = self.hidden_softirqs.count(softirqs);
        self.count_missed_markers()?;
        self.health.containers_without_slot = self.identities.without_slot();
        self.health.events_lost = self.programs.events_lost();
        let mut snapshot = reading.snapshot(self.started, containers, self.health);
        self.date(&mut snapshot);
        Ok(snapshot)
    }

    /// Reads the CPU use of all containers. Each costs a system call in which the kernel adds up
    /// its cgroups.
    pub(crate) fn read_usage(&mut self) {
        self.usage_read = Some(Instant::now());
        for slot in self.identities.slots_mut() {
            match self.inventory.cpu_usage_ns(&slot.container) {
                Ok(ns) => slot.cpu_usage_last_ns = ns,
                Err(_) => self.health.cpu_usage_unreadable += 1,
            }
        }
    }

    /// Returns the counts: the programs' own, or the estimate from windows.
    pub(crate) fn reading(&self) -> Result<Reading, ReadError> {
        match self.marker_owner.estimate() {
            Some(estimate) if estimate.mode() == AccountingMode::Sampled => {
                Ok(estimate.covered_counts())
            }
            Some(estimate) => Ok(estimate.current_counts(&self.raw()?)),
            None => self.raw(),
        }
    }

    /// Reads the programs' own counts.
    pub(crate) fn raw(&self) -> Result<Reading, ReadError> {
        Reading::take(&self.programs, self.identities.rows_used())
    }

    /// Returns the time that each CPU has spent on packets since the start, nanoseconds, whatever
    /// its cause. Costs one map look-up per CPU, whereas [`Accountant::snapshot`] needs several per
    /// container and CPU.
    pub fn network_ns(&self) -> Result<Vec<u64>, ReadError> {
        if self.mode() == AccountingMode::Sampled {
            let estimate = self.marker_owner.estimate();
            let times = estimate
                .map(|e| e.covered_counts().times())
                .unwrap_or_default();
            return Ok(times.into_iter().map(|(_, t)| t.network_ns()).collect());
        }
        let readings = (0..self.programs.cpus()).map(|cpu| self.programs.cpu_reading(cpu));
        let times = readings.map(|r| r.map(|r| r.time.network_ns()));
        times
            .collect::<Result<_, _>>()
            .map_err(|e| ReadError(e.to_string()))
    }

    /// Returns a number that grows whenever a container comes, goes or changes.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the tracked containers and cgroups of the host, by cgroup id.
    pub fn containers(&self) -> Vec<Arc<Container>> {
        let all = self.inventory.containers();
        let mut all: Vec<_> = all.chain(self.inventory.host_cgroups()).cloned().collect();
        all.sort_unstable_by_key(|container| container.cgroup);
        all
    }

    /// Counts cgroups that `selectors` name as containers, in the host's network namespace too; see
    /// [`Inventory::name`].
    ///
    /// # Errors
    /// When the programs cannot be reached.
    pub fn name(&mut self, selectors: &[Selector]) -> Result<(), ReadError> {
        let changes = self.inventory.name(selectors);
        self.take_changes(changes)
    }

    /// Takes over what the runtime reports of containers; see [`Inventory::introduce`].
    ///
    /// # Errors
    /// When the programs cannot be reached.
    pub fn introduce(&mut self, containers: Vec<Introduction>) -> Result<(), ReadError> {
        let changes = self.inventory.introduce(containers);
        self.take_changes(changes)
    }

    /// Forgets a container that the runtime no longer has.
    pub fn forget_introduced(&mut self, id: &str) {
        self.inventory.forget_introduced(id);
    }

    /// Sets whether names are read from the files of runtimes; see
    /// [`Inventory::read_runtime_files`].
    ///
    /// # Errors
    /// When the programs cannot be reached.
    pub fn read_runtime_files(&mut self, read: bool) -> Result<(), ReadError> {
        let changes = self.inventory.read_runtime_files(read);
        self.take_changes(changes)
    }

    /// Returns the cost of each program since the start.
    pub fn program_costs(&self) -> Result<Vec<ProgramCost>, ReadError> {
        self.programs
            .program_costs()
            .map_err(|e| ReadError(e.to_string()))
    }

    /// Returns the cost of a program that does nothing, by the same statistics: their own cost,
    /// which is part of every other figure of [`Accountant::program_costs`]. `None` unless
    /// [`Options::measure_programs`] is set.
    pub fn statistics_cost(&self) -> Result<Option<ProgramCost>, ReadError> {
        let Some((_, empty)) = &self.statistics else {
            return Ok(None);
        };
        empty.cost().map(Some).map_err(|e| ReadError(e.to_string()))
    }

    /// Returns the memory of the BPF maps, bytes; fixed from the start.
    pub fn memory_bytes(&self) -> u64 {
        self.programs.memory_bytes()
    }

    /// Returns the number of softirqs that the programs have seen on all CPUs.
    pub(crate) fn softirqs(&self) -> Result<u64, ReadError> {
        let readings = (0..self.programs.cpus()).map(|cpu| self.programs.cpu_reading(cpu));
        let counts = readings.map(|r| r.map(|r| r.softirqs).map_err(|e| ReadError(e.to_string())));
        counts.sum()
    }

    fn take_events(&mut self) -> Result<(), ReadError> {
        let events = self
            .programs
            .take_events()
            .map_err(|e| ReadError(e.to_string()))?;
        let mut changes = Vec::new();
        for event in &events {
            if let KernelEvent::CgroupRemoved { cgroup } = event {
                self.note_last_usage(*cgroup);
            }
            changes.extend(self.inventory.handle(event));
        }
        self.take_changes(changes)
    }

    /// Reads CPU use a last time before a cgroup's files are removed, if they still exist.
    fn note_last_usage(&mut self, cgroup: CgroupId) {
        if let Some(slot) = self.identities.slot_mut(cgroup)
            && let Ok(ns) = self.inventory.cpu_usage_ns(&slot.container)
        {
            slot.cpu_usage_last_ns = ns;
        }
    }

    fn take_changes(&mut self, changes: Vec<ContainerChange>) -> Result<(), ReadError> {
        if changes.is_empty() {
            return Ok(());
        }
        self.generation += 1;
        self.apply(changes);
        let attached = self.update_socket_lookups();
        self.programs
            .report_cgroups(self.inventory.has_room_for_hosts());
        self.programs.publish_identities();
        attached
    }

    fn update_socket_lookups(&mut self) -> Result<(), ReadError> {
        let wanted =
            self.identities.need_sockets() || self.hosts.needs_socket_lookups(Instant::now());
        let result = self.marker_owner.look_up_sockets(wanted);
        result.map_err(|e| ReadError(format!("cannot attach the accounting programs: {e}")))
    }

    /// Notes the quiet cgroups of the host, and whether the host's traffic makes it worth to look
    /// up the cgroups of its sockets.
    fn look_at_hosts(
        &mut self,
        reading: &Reading,
        containers: &[ContainerLedger],
    ) -> Result<(), ReadError> {
        let now = Instant::now();
        let hosts = containers.iter().filter(|c| c.container.is_of_host());
        let with_row: u64 = hosts.map(|c| c.ledger.caused_ns()).sum();
        let without_row = reading.reason_ns(Reason::HostTraffic);
        self.hosts.note_traffic(with_row + without_row, now);
        self.hosts.look(containers, now);
        self.update_socket_lookups()
    }

    fn apply(&mut self, changes: Vec<ContainerChange>) {
        // Rows of containers that go are read once, before another container gets them.
        let goes = |change: &ContainerChange| matches!(change, ContainerChange::Removed(_));
        let last = changes.iter().any(goes).then(|| self.reading());
        for change in changes {
            match change {
                ContainerChange::Added(c) | ContainerChange::Changed(c) => {
                    let usage = self.inventory.cpu_usage_ns(&c).unwrap_or(0);
                    self.identities.upsert(&self.programs, &c, usage);
                }
                ContainerChange::Removed(c) => {
                    if let Some(slot) = self.identities.remove(&self.programs, c.cgroup) {
                        self.health.containers_gone += 1;
                        if let Some(Ok(reading)) = &last {
                            self.removed.push(reading.slot(&slot, self.returned));
                        }
                    }
                }
            }
        }
        self.begin_rows();
    }

    /// Queries the skipped runs, at most once a second: that costs one system call per program. The
    /// count is cumulative: nothing is lost, only reported later.
    fn count_missed_markers(&mut self) -> Result<(), ReadError> {
        let due = |asked: Instant| asked.elapsed() >= MISSED_AT_MOST_EVERY;
        if self.missed_asked.is_none_or(due) {
            self.health.markers_missed = self.program_costs()?.iter().map(|c| c.misses).sum();
            self.missed_asked = Some(Instant::now());
        }
        Ok(())
    }
}
