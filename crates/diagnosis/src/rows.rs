//! Rows of the BPF counters and the containers that own them.

use cofferdam_bpf::{SCHEDULE_FIRST_CONTAINER_ROW, SchedulePrograms};
use cofferdam_types::{CgroupId, Container};
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;

/// Container and its row.
pub(crate) struct Slot {
    pub(crate) row: u32,
    pub(crate) container: Arc<Container>,
    /// Cgroups that the programs count in this row.
    cgroups: HashSet<CgroupId>,
    /// Whether its cgroup has the same path in the hierarchy of the cpu controller; checked until
    /// true.
    pub(crate) same_path: bool,
}

/// All rows and their owners.
pub(crate) struct Rows {
    pub(crate) slots: BTreeMap<CgroupId, Slot>,
    /// Free rows. The one that is free for longest comes first: a task of the last owner may still
    /// be on a CPU.
    free: VecDeque<u32>,
    /// Number of containers and cgroups that found no free row since the start.
    pub(crate) without_slot: u64,
    waiting: HashSet<CgroupId>,
    /// One more than the highest row that was ever in use.
    pub(crate) used: u32,
}

impl Rows {
    pub(crate) fn new(rows: u32) -> Rows {
        Rows {
            slots: BTreeMap::new(),
            free: (SCHEDULE_FIRST_CONTAINER_ROW..rows).collect(),
            without_slot: 0,
            waiting: HashSet::new(),
            used: SCHEDULE_FIRST_CONTAINER_ROW,
        }
    }

    /// Passes the current containers to the programs.
    pub(crate) fn follow(
        &mut self,
        programs: &mut SchedulePrograms,
        containers: &[Arc<Container>],
    ) -> Result<(), cofferdam_bpf::MapError> {
        let now: HashSet<CgroupId> = containers.iter().map(|c| c.cgroup).collect();
        self.waiting.retain(|id| now.contains(id));
        let removed: Vec<CgroupId> = self
            .slots
            .keys()
            .copied()
            .filter(|id| !now.contains(id))
            .collect();
        let mut changed = !removed.is_empty();
        for id in removed {
            if let Some(slot) = self.slots.remove(&id) {
                slot.cgroups
                    .iter()
                    .for_each(|cgroup| programs.remove_cgroup(*cgroup));
                self.free.push_back(slot.row);
            }
        }
        for container in containers {
            changed |= self.take(programs, container)?;
        }
        if changed {
            programs.publish();
        }
        Ok(())
    }

    /// Adds a new or changed container. Returns whether the programs were changed.
    fn take(
        &mut self,
        programs: &SchedulePrograms,
        container: &Arc<Container>,
    ) -> Result<bool, cofferdam_bpf::MapError> {
        let id = container.cgroup;
        if !self.slots.contains_key(&id) {
            let Some(row) = self.free.pop_front() else {
                self.without_slot += u64::from(self.waiting.insert(id));
                return Ok(false);
            };
            self.waiting.remove(&id);
            programs.clear(row)?;
            self.used = self.used.max(row + 1);
            let slot = Slot {
                row,
                container: Arc::clone(container),
                cgroups: HashSet::new(),
                same_path: false,
            };
            self.slots.insert(id, slot);
        }
        let Some(slot) = self.slots.get_mut(&id) else {
            return Ok(false);
        };
        let cgroups: HashSet<CgroupId> = container
            .descendants
            .iter()
            .copied()
            .chain([container.cgroup])
            .collect();
        slot.container = Arc::clone(container);
        if cgroups == slot.cgroups {
            return Ok(false);
        }
        for old in slot.cgroups.difference(&cgroups) {
            programs.remove_cgroup(*old);
        }
        for new in cgroups.difference(&slot.cgroups) {
            if programs.set_cgroup(*new, slot.row).is_err() {
                self.without_slot += 1;
            }
        }
        slot.cgroups = cgroups;
        Ok(true)
    }
}
