//! Reading the ledger that another process keeps on this host.

use crate::accountant::wait;
use crate::hotplug::OnlineCpus;
use crate::identities::Slot;
use crate::reading::{Reading, note_senders, read_pairs};
use crate::unseen::Unseen;
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

/// Between two looks for containers that came or went: the events go to the owner alone.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Reads what another process counts, and changes nothing. A container is counted from the first
/// reading that finds it, and not from its start.
pub struct Beside {
    counts: RunningCounts,
    inventory: Inventory,
    containers: BTreeMap<CgroupId, Arc<Container>>,
    slots: BTreeMap<CgroupId, Slot>,
    looked: Instant,
    started: Instant,
    returned: bool,
    unseen: Unseen,
    health: Health,
    online_cpus: OnlineCpus,
}

impl Beside {
    /// Finds the accounting that runs; `None` while there is none, or it is still loading.
    ///
    /// # Errors
    /// [`StartError::Unsupported`] without root's rights.
    pub fn open() -> Result<Option<Beside>, StartError> {
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
        // The cgroups of the host that have a row are found by the first look.
        let containers = inventory.containers().cloned();
        let mut beside = Beside {
            containers: containers.map(|c| (c.cgroup, c)).collect(),
            counts,
            inventory,
            slots: BTreeMap::new(),
            looked: Instant::now(),
            started: Instant::now(),
            returned: irq_time_accounting(&HostFs::host()) == Some(true),
            unseen: Unseen::new(0),
            health: Health::default(),
            online_cpus: OnlineCpus::now(),
        };
        let reading = beside.read().map_err(|e| failed(&e))?;
        beside.unseen = Unseen::new(reading.cpus().map(|cpu| cpu.softirqs).sum());
        Ok(Some(beside))
    }

    /// Whether the other process has ended its accounting: nothing is counted any more.
    pub fn is_over(&self) -> bool {
        self.counts.is_over()
    }

    /// Waits until `until`, or until `wake` is readable; true when `wake` ended it.
    pub fn follow(&mut self, until: Instant, wake: BorrowedFd<'_>) -> Result<bool, ReadError> {
        wait(until, wake)
    }

    /// Reads everything: cumulative counts since [`Beside::open`].
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
        self.health.softirqs_unseen = self.unseen.count(softirqs);
        Ok(reading.snapshot(self.started, containers, self.health))
    }

    /// Takes in containers that came or went, and CPUs.
    fn look(&mut self) {
        let mut changes = self.inventory.handle_links();
        if self.looked.elapsed() >= LOOK_EVERY {
            self.looked = Instant::now();
            // No event comes here: what there is, is looked up as after lost ones.
            changes.extend(self.inventory.handle(&KernelEvent::Lost { count: 0 }));
            for cgroup in self.inventory.outside_containers() {
                let known = self.counts.row_of(cgroup).is_some();
                let event = KernelEvent::UnknownCgroup { cgroup, pid: None };
                if known {
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

    /// Reads all rows, and begins the containers that have got a row meanwhile.
    fn read(&mut self) -> Result<Reading, ReadError> {
        let reading = Reading::take(&self.counts, self.counts.rows())?;
        for (id, container) in &self.containers {
            let row = self.counts.row_of(*id).filter(|row| *row != NO_SLOT_ROW);
            let now = self.slots.get(id).map(|slot| slot.row);
            let Some(row) = row.filter(|row| now != Some(*row)) else {
                continue;
            };
            let usage = self.inventory.cpu_usage_ns(container).unwrap_or(0);
            let slot = Slot::beside(row, Arc::clone(container), reading.row(row), usage);
            self.slots.insert(*id, slot);
        }
        Ok(reading)
    }
}
