//! Rows of the ledger: assigns rows to containers and passes their cgroups, namespaces and
//! interfaces to the BPF programs.

use cofferdam_bpf::{AccountingPrograms, FIRST_CONTAINER_ROW, NO_SLOT_ROW, RowReading};
use cofferdam_types::{CgroupId, Container, IfIndex, NetnsId};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;

/// Container with its row.
pub(crate) struct Slot {
    /// [`NO_SLOT_ROW`] while it waits for its own row.
    pub(crate) row: u32,
    pub(crate) container: Arc<Container>,
    /// Counts of each CPU's row when this container got it: rows are reused.
    pub(crate) base: Vec<RowReading>,
    /// CPU use at the first reading, and at the last one, nanoseconds.
    pub(crate) cpu_usage_base_ns: u64,
    pub(crate) cpu_usage_last_ns: u64,
    entries: MapEntries,
}

impl Slot {
    /// Makes the slot of a container whose row another process has assigned.
    pub(crate) fn with_assigned_row(
        row: u32,
        container: Arc<Container>,
        base: Vec<RowReading>,
        cpu_usage_ns: u64,
    ) -> Slot {
        Slot {
            row,
            container,
            base,
            cpu_usage_base_ns: cpu_usage_ns,
            cpu_usage_last_ns: cpu_usage_ns,
            entries: MapEntries::default(),
        }
    }
}

/// Entries of a container in the BPF maps.
#[derive(Default)]
struct MapEntries {
    cgroups: HashSet<CgroupId>,
    links: HashSet<(NetnsId, IfIndex)>,
    /// The container's own namespace and further ones.
    netns: BTreeSet<NetnsId>,
    is_sandbox: bool,
}

/// Number of free rows of each kind. Neither kind takes the other's.
struct RowQuota {
    containers: u32,
    hosts: u32,
}

impl RowQuota {
    fn of(&mut self, container: &Container) -> &mut u32 {
        match container.is_of_host() {
            true => &mut self.hosts,
            false => &mut self.containers,
        }
    }
}

/// All rows and their owners.
pub(crate) struct Identities {
    slots: BTreeMap<CgroupId, Slot>,
    /// Free rows, the one free longest first: a segment of its last owner may still be open.
    free: VecDeque<u32>,
    /// Number of rows that are free for containers and for cgroups of the host.
    quota: RowQuota,
    /// Containers of each namespace.
    netns: HashMap<NetnsId, BTreeSet<CgroupId>>,
    /// Number of containers that ever lacked a row of their own.
    without_slot: u64,
    /// Highest row that ever had an owner, plus one.
    rows_used: u32,
    /// Containers that got a row since [`Identities::take_fresh`].
    fresh: Vec<CgroupId>,
}

impl Identities {
    /// Makes rows for this many containers and this many cgroups of the host.
    pub(crate) fn new(containers: u32, hosts: u32) -> Identities {
        let rows = FIRST_CONTAINER_ROW..FIRST_CONTAINER_ROW + containers + hosts;
        Identities {
            slots: BTreeMap::new(),
            free: rows.collect(),
            quota: RowQuota { containers, hosts },
            netns: HashMap::new(),
            without_slot: 0,
            rows_used: FIRST_CONTAINER_ROW,
            fresh: Vec::new(),
        }
    }

    /// Iterates over the containers with a row of their own.
    pub(crate) fn slots_mut(&mut self) -> impl Iterator<Item = &mut Slot> {
        self.slots
            .values_mut()
            .filter(|slot| slot.row != NO_SLOT_ROW)
    }

    /// Returns the owner of each row.
    pub(crate) fn cgroups_of_rows(&self) -> HashMap<u32, CgroupId> {
        let own = self.slots.iter().filter(|(_, s)| s.row != NO_SLOT_ROW);
        own.map(|(id, slot)| (slot.row, *id)).collect()
    }

    pub(crate) fn slot_mut(&mut self, id: CgroupId) -> Option<&mut Slot> {
        self.slots.get_mut(&id)
    }

    /// Takes the containers that got a row since the last call, in that order. Their `base` has the
    /// programs' counts at that time.
    pub(crate) fn take_fresh(&mut self) -> Vec<CgroupId> {
        std::mem::take(&mut self.fresh)
    }

    /// Returns the number of containers that ever lacked a row.
    pub(crate) fn without_slot(&self) -> u64 {
        self.without_slot
    }

    /// Whether the device leaves the owner of a received packet open, so that the receiving socket
    /// must identify it. That is so for a container in the host's namespace or in a shared one, for
    /// one whose device has no end on the host (macvlan), and for one whose packets bypass the
    /// host's end through a tc program (Cilium's `lxc…`).
    pub(crate) fn need_sockets(&self) -> bool {
        let open = |container: &Container| {
            (container.host_network && !container.is_of_host())
                || container.interfaces.iter().any(|i| {
                    let name = i.host_name.as_deref().unwrap_or_default();
                    i.host_ifindex.is_none() || name.starts_with("lxc")
                })
        };
        self.netns.values().any(|users| users.len() > 1)
            || self.slots.values().any(|slot| open(&slot.container))
    }

    /// Returns the number of rows that may have counts: all below this one.
    pub(crate) fn rows_used(&self) -> u32 {
        self.rows_used
    }

    /// Adds a container, or updates it. `cpu_usage_ns` matters only for a new one.
    pub(crate) fn upsert(
        &mut self,
        programs: &AccountingPrograms,
        container: &Arc<Container>,
        cpu_usage_ns: u64,
    ) {
        let id = container.cgroup;
        if !self.slots.contains_key(&id) {
            let row = self.free_row(container).unwrap_or_else(|| {
                self.without_slot += 1;
                NO_SLOT_ROW
            });
            let mut slot = Slot {
                row,
                container: Arc::clone(container),
                base: Vec::new(),
                cpu_usage_base_ns: cpu_usage_ns,
                cpu_usage_last_ns: cpu_usage_ns,
                entries: MapEntries::default(),
            };
            self.take_row(programs, &mut slot, row);
            self.slots.insert(id, slot);
        }
        if let Some(slot) = self.slots.get_mut(&id) {
            slot.container = Arc::clone(container);
        }
        self.write_entries(programs, id);
    }

    /// Removes a container; returns its slot for the last reading.
    pub(crate) fn remove(&mut self, programs: &AccountingPrograms, id: CgroupId) -> Option<Slot> {
        let slot = self.slots.remove(&id)?;
        for cgroup in &slot.entries.cgroups {
            programs.remove_cgroup(*cgroup);
        }
        for (netns, ifindex) in &slot.entries.links {
            programs.remove_link(*netns, *ifindex);
        }
        for netns in &slot.entries.netns {
            self.leave_netns(programs, *netns, id);
        }
        if slot.row == NO_SLOT_ROW {
            return None;
        }
        programs.remove_pairs(slot.row);
        self.free.push_back(slot.row);
        *self.quota.of(&slot.container) += 1;
        self.serve_waiting(programs);
        Some(slot)
    }

    /// Assigns `row` to `slot`, which counts from zero from now on.
    fn take_row(&mut self, programs: &AccountingPrograms, slot: &mut Slot, row: u32) {
        slot.row = row;
        slot.base = (0..programs.cpus())
            .map(|cpu| programs.ledger().read(cpu, row))
            .collect();
        slot.cpu_usage_base_ns = slot.cpu_usage_last_ns;
        self.fresh.push(slot.container.cgroup);
        self.rows_used = self.rows_used.max(row + 1);
    }

    /// Takes a free row for a new container, if its kind has one left.
    fn free_row(&mut self, container: &Container) -> Option<u32> {
        let quota = self.quota.of(container);
        if *quota == 0 {
            return None;
        }
        let row = self.free.pop_front()?;
        *quota -= 1;
        Some(row)
    }

    /// Assigns a free row to a container that has none.
    fn serve_waiting(&mut self, programs: &AccountingPrograms) {
        let waiting = self.slots.values().filter(|slot| slot.row == NO_SLOT_ROW);
        let waiting = waiting.map(|slot| slot.container.clone());
        let next = waiting.into_iter().find(|c| *self.quota.of(c) > 0);
        let Some((container, row)) = next.and_then(|c| Some((c.clone(), self.free_row(&c)?)))
        else {
            return;
        };
        let id = container.cgroup;
        let Some(mut slot) = self.slots.remove(&id) else {
            return;
        };
        self.take_row(programs, &mut slot, row);
        // All entries are written again, with the new row.
        let netns = std::mem::take(&mut slot.entries).netns;
        self.slots.insert(id, slot);
        for netns in netns {
            if let Some(users) = self.netns.get_mut(&netns) {
                users.remove(&id);
            }
        }
        self.write_entries(programs, id);
    }

    /// Brings the BPF maps in line with the container. A full map lacks its entries: the packets
    /// then count as unattributed, by reason.
    fn write_entries(&mut self, programs: &AccountingPrograms, id: CgroupId) {
        let Some(slot) = self.slots.get_mut(&id) else {
            return;
        };
        let container = Arc::clone(&slot.container);
        let row = slot.row;
        let cgroups: HashSet<CgroupId> = container
            .descendants
            .iter()
            .copied()
            .chain([container.cgroup])
            .collect();
        for removed in slot.entries.cgroups.difference(&cgroups) {
            programs.remove_cgroup(*removed);
        }
        for new in cgroups.difference(&slot.entries.cgroups) {
            if programs.set_cgroup(*new, row).is_err() {
                self.without_slot += 1;
            }
        }
        slot.entries.cgroups = cgroups;
        let own = container.netns.filter(|_| !container.host_network);
        let netns: BTreeSet<NetnsId> = own
            .into_iter()
            .chain(container.further_netns.iter().copied())
            .collect();
        let links: HashSet<(NetnsId, IfIndex)> = container
            .interfaces
            .iter()
            .filter(|_| !container.host_network)
            .filter_map(|i| Some((i.host_netns?, i.host_ifindex?)))
            .collect();
        for (netns, ifindex) in slot.entries.links.difference(&links) {
            programs.remove_link(*netns, *ifindex);
        }
        for (netns, ifindex) in links.difference(&slot.entries.links) {
            if programs.set_link(*netns, *ifindex, row).is_err() {
                self.without_slot += 1;
            }
        }
        slot.entries.links = links;
        let before = std::mem::replace(&mut slot.entries.netns, netns.clone());
        // The name may become known later than the namespace.
        let is_sandbox = container.is_sandbox();
        let has_changed = std::mem::replace(&mut slot.entries.is_sandbox, is_sandbox) != is_sandbox;
        for netns in before.difference(&netns) {
            self.leave_netns(programs, *netns, id);
        }
        for netns in netns {
            let is_new = self.netns.entry(netns).or_default().insert(id);
            if is_new || has_changed {
                self.write_netns(programs, netns);
            }
        }
    }

    fn leave_netns(&mut self, programs: &AccountingPrograms, netns: NetnsId, id: CgroupId) {
        if let Some(users) = self.netns.get_mut(&netns) {
            users.remove(&id);
        }
        self.write_netns(programs, netns);
    }

    /// Assigns a namespace to its oldest container. A pod's sandbox counts only if it is alone:
    /// packets that no socket takes are for the containers of the pod. With several containers, the
    /// socket's cgroup decides for each packet.
    fn write_netns(&mut self, programs: &AccountingPrograms, netns: NetnsId) {
        let users = self.netns.get(&netns).cloned().unwrap_or_default();
        // The minimum is the first of several equal ones.
        let slots = users.iter().filter_map(|id| self.slots.get(id));
        let Some(slot) = slots.min_by_key(|slot| slot.container.is_sandbox()) else {
            programs.remove_netns(netns);
            self.netns.remove(&netns);
            return;
        };
        if programs
            .set_netns(netns, slot.row, users.len() > 1)
            .is_err()
        {
            self.without_slot += 1;
        }
    }
}
