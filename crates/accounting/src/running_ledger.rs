//! Reads the ledger of another process on this host.

use crate::accountant::wait;
use crate::hidden_softirqs::HiddenSoftirqs;
use crate::hotplug::OnlineCpus;
use crate::identities::Slot;
use crate::reading::{Reading, note_senders, read_pairs};
use crate::{ReadError, StartError};
use cofferdam_bpf::{NO_SLOT_ROW, RunningCounts};
use cofferdam_host::irq_time_accounting;
use cofferdam_host::{HostFs, Inventory};
use cofferdam_types::{CgroupId, Container, ContainerChange, Health, KernelEvent, Snapshot};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time between two looks for containers that came or went: only the ledger's owner gets events.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Ledger that another process keeps. Only reads are possible. A container counts from the first
/// reading that finds it, not from its own start.
pub struct RunningLedger {
    counts: RunningCounts,
    inventory: Inventory,
    containers: BTreeMap<CgroupId, Arc<Container>>,
    slots: BTreeMap<CgroupId, Slot>,
    looked: Instant,
    started: Instant,
    returned: bool,
    hidden_softirqs: HiddenSoftirqs,
    health: Health,
    online_cpus: OnlineCpus,
}

impl RunningLedger {
    /// Finds the running accounting; `None` if there is none, or if it is still loading.
    ///
    /// # Errors
    /// [`StartError::Unsupported`] without root's rights.
    pub fn open() -> Result<Option<RunningLedger>, StartError> {
        let counts = match RunningCounts::open() {
            Ok(Some(counts)) => counts,
            Ok(None) => return Ok(None),
            Err(e) if e.kind() == ErrorKind::PermissionDenied => {
                return Err(StartError::Unsupported(
                    "reading a running accounting needs root (CAP_SYS_ADMIN): run it with sudo"
                        .to_owned(),
                ));
            }
            Err(e) => return Err(StartError::Failed(e.to_string())),
        };
        let failed = |e: &dyn std::fmt::Display| StartError::Failed(e.to_string());
        let inventory = Inventory::scan().map_err(|e| failed(&e))?;
        // The first look finds the cgroups of the host that have a row.
        let containers = inventory.containers().cloned();
        let mut ledger = RunningLedger {
            containers: containers.map(|c| (c.cgroup, c)).collect(),
            counts,
            inventory,
            slots: BTreeMap::new(),
            looked: Instant::now(),
            started: Instant::now(),
            returned: irq_time_accounting(&HostFs::host()) == Some(true),
            hidden_softirqs: HiddenSoftirqs::new(0),
            health: Health::default(),
            online_cpus: OnlineCpus::now(),
        };
        let reading = ledger.read().map_err(|e| failed(&e))?;
        ledger.hidden_softirqs = HiddenSoftirqs::new(reading.cpus().map(|cpu| cpu.softirqs).sum());
        Ok(Some(ledger))
    }

    /// Whether the other process has ended its accounting, so that the counts no longer change.
    pub fn is_over(&self) -> bool {
        self.counts.is_over()
    }

    /// Waits until `until`, or until `wake` is readable. Returns whether `wake` ended it.
    pub fn follow(&mut self, until: Instant, wake: BorrowedFd<'_>) -> Result<bool, ReadError> {
        wait(until, wake)
    }

    /// Reads everything: cumulative counts since [`RunningLedger::open`].
    pub fn snapshot(&mut self) -> Result<Snapshot, ReadError> {
        self.look();
        let reading = self.read()?;
        let softirqs = reading.cpus().map(|cpu| cpu.softirqs).sum();
        let mut containers = Vec::new();
        for slot in self.slots.values_mut() {
            match self.inventory.cpu_usage_ns(&slot.container) {
                Ok(ns) => slot.cpu_usage_last_ns = ns,
                Err(_) => self.health.cpu_usage_unreadable += 1,
            }
            containers.push(reading.slot(slot, self.returned));
        }
        let rows = self.slots.iter().map(|(id, slot)| (slot.row, *id));
        note_senders(read_pairs(&self.counts)?, &rows.collect(), &mut containers);
        self.health.segments_rejected = reading.cpus().map(|cpu| cpu.segments_rejected).sum();
        self.health.softirqs_unseen = self.hidden_softirqs.count(softirqs);
        Ok(reading.snapshot(self.started, containers, self.health))
    }

    /// Updates containers and CPUs that came or went.
    fn look(&mut self) {
        let mut changes = self.inventory.handle_links();
        if self.looked.elapsed() >= LOOK_EVERY {
            self.looked = Instant::now();
            // No events arrive here: the inventory scans, as it does after lost events.
            changes.extend(self.inventory.handle(&KernelEvent::Lost { count: 0 }));
            for cgroup in self.inventory.outside_containers() {
                if self.counts.row_of(cgroup).is_some() {
                    let event = KernelEvent::UnknownCgroup { cgroup, pid: None };
                    changes.extend(self.inventory.handle(&event));
                }
            }
        }
        for change in changes {
            match change {
                ContainerChange::Added(c) | ContainerChange::Changed(c) => {
                    if let Some(slot) = self.slots.get_mut(&c.cgroup) {
                        slot.container = Arc::clone(&c);
                    }
                    self.containers.insert(c.cgroup, c);
                }
                ContainerChange::Removed(c) => {
                    self.health.containers_gone += 1;
                    self.containers.remove(&c.cgroup);
                    self.slots.remove(&c.cgroup);
                }
            }
        }
        self.health.cpu_hotplugs += u64::from(self.online_cpus.changed());
    }

    /// Reads all rows, and starts the slots of containers that got a row since the last reading.
    fn read(&mut self) -> Result<Reading, ReadError> {
        let reading = Reading::take(&self.counts, self.counts.rows())?;
        for (id, container) in &self.containers {
            let row = self.counts.row_of(*id).filter(|row| *row != NO_SLOT_ROW);
            let now = self.slots.get(id).map(|slot| slot.row);
            let Some(row) = row.filter(|row| now != Some(*row)) else {
                continue;
            };
            let usage = self.inventory.cpu_usage_ns(container).unwrap_or(0);
            let slot = Slot::with_assigned_row(row, Arc::clone(container), reading.row(row), usage);
            self.slots.insert(*id, slot);
        }
        Ok(reading)
    }
}
