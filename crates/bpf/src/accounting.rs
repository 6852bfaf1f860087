//! The accounting programs: sizes, load, attach; identities in; counts and events out.

use crate::cost::{self, ProgramCost};
use crate::events::decode_event;
use crate::ledger::LedgerReader;
use crate::load::{LoadError, loading};
use crate::markers::{Markers, is_marker};
use crate::pairs::{self, PairReading};
use crate::skeleton::types::{cf_cpu, cf_limits, cf_link_key, cf_mode, cf_netns_value};
use crate::skeleton::{AccountingSkel, AccountingSkelBuilder};
use crate::support::{failed, kernel_has_tracepoint, possible_cpus, require_tracepoints};
use cofferdam_types::{CgroupId, CpuTime, IfIndex, KernelEvent, NetnsId, REQUIRED_TRACEPOINTS};
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, OpenObject, RingBuffer, RingBufferBuilder};
use std::cell::RefCell;
use std::mem::{MaybeUninit, offset_of, size_of};
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;

/// Capacities of the maps, fixed at load.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Containers, and cgroups of the host: one row of the ledger each.
    pub containers: u32,
    /// Cgroups of containers, sub-cgroups included.
    pub cgroups: u32,
    /// Host ends of containers' interfaces.
    pub links: u32,
    /// Pairs of containers that send to each other.
    pub pairs: u32,
}

impl Sizes {
    /// Returns sizes for `containers` containers with eight cgroups and four interfaces each.
    pub fn for_containers(containers: u32) -> Sizes {
        Sizes {
            containers,
            cgroups: containers * 8,
            links: containers * 4,
            pairs: containers * 4,
        }
    }

    /// Adds `hosts` cgroups of the host, with one cgroup each.
    #[must_use]
    pub fn and_hosts(self, hosts: u32) -> Sizes {
        Sizes {
            containers: self.containers + hosts,
            cgroups: self.cgroups + hosts,
            ..self
        }
    }
}

/// Measurements of one CPU since load.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuReading {
    /// Time by kind, up to the last cut between two owners.
    pub time: CpuTime,
    /// Part of `time` that is in no row yet, because the packets of a batch will share it,
    /// nanoseconds.
    pub waiting_ns: u64,
    /// Segments with an impossible length, discarded.
    pub segments_rejected: u64,
    /// Softirqs that began, of all vectors, less the polls of NAPI threads that were not seen. Its
    /// difference to the kernel's own count of softirqs is in no ledger.
    pub softirqs: u64,
}

/// Upper limit for the length of a run.
const OPEN_MAX_NS: u64 = cf_limits::CF_SEGMENT_MAX_MS.0 as u64 * 1_000_000;

/// Loaded programs, with those for the events of containers attached. Dropping this and its
/// [`Markers`] detaches and frees everything.
pub struct AccountingPrograms {
    // Drop order: first the links, then the ring and the mapping, last the object.
    #[allow(dead_code, reason = "held: dropping a link detaches its program")]
    links: Vec<Link>,
    ring: RingBuffer<'static>,
    received: Rc<RefCell<Vec<KernelEvent>>>,
    ledger: LedgerReader,
    skeleton: AccountingSkel<'static>,
    cpus: u32,
    events_lost_seen: u64,
}

impl AccountingPrograms {
    /// Loads everything, and attaches all but the markers that look up sockets. `host_netns` is the
    /// namespace whose packets are the host's own.
    pub fn load(
        sizes: Sizes,
        host_netns: NetnsId,
    ) -> Result<(AccountingPrograms, Markers), LoadError> {
        require_tracepoints(&REQUIRED_TRACEPOINTS)?;
        // The skeleton borrows this small block for its life; each load leaks one.
        let storage = Box::leak(Box::new(MaybeUninit::<OpenObject>::uninit()));
        let mut open = AccountingSkelBuilder::default()
            .open(storage)
            .map_err(failed("open the accounting programs"))?;
        let cpus = possible_cpus();
        let rows_per_cpu = crate::FIRST_CONTAINER_ROW + sizes.containers;
        if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
            rodata.rows_per_cpu = rows_per_cpu;
            rodata.host_netns = host_netns.0;
        }
        let set = |map: &mut libbpf_rs::OpenMapMut<'_>, entries: u32| {
            map.set_max_entries(entries).map_err(failed("size a map"))
        };
        set(&mut open.maps.cpus, cpus)?;
        set(&mut open.maps.ledger, cpus * rows_per_cpu)?;
        set(&mut open.maps.netns_rows, sizes.containers * 2)?;
        set(&mut open.maps.cgroup_rows, sizes.cgroups)?;
        set(&mut open.maps.link_rows, sizes.links)?;
        set(&mut open.maps.pairs, sizes.pairs)?;
        for program in open.open_object_mut().progs_mut() {
            let mut program = program;
            let name = program.name().to_string_lossy().into_owned();
            if kernel_has_tracepoint(&name) == Some(false) {
                program.set_autoload(false);
            }
        }
        let skeleton = loading("load the accounting programs", || open.load())?;
        let ledger = LedgerReader::map(skeleton.maps.ledger.as_fd(), rows_per_cpu, cpus)
            .map_err(LoadError::Map)?;
        let received = Rc::new(RefCell::new(Vec::new()));
        let sink = Rc::clone(&received);
        let mut builder = RingBufferBuilder::new();
        builder
            .add(&skeleton.maps.events, move |record| {
                sink.borrow_mut().extend(decode_event(record));
                0
            })
            .map_err(failed("open the ring of events"))?;
        let ring = builder.build().map_err(failed("open the ring of events"))?;
        let mut programs = AccountingPrograms {
            links: Vec::new(),
            ring,
            received,
            ledger,
            skeleton,
            cpus,
            events_lost_seen: 0,
        };
        let mut markers = Markers::of(&programs.skeleton).map_err(LoadError::Attach)?;
        markers.attach().map_err(LoadError::Attach)?;
        programs.links = programs.attach_lifecycle()?;
        Ok((programs, markers))
    }

    fn attach_lifecycle(&mut self) -> Result<Vec<Link>, LoadError> {
        let mut links = Vec::new();
        for program in self.skeleton.object_mut().progs_mut() {
            let name = program.name().to_string_lossy().into_owned();
            if !is_marker(&name) {
                links.push(
                    program
                        .attach()
                        .map_err(failed(format!("attach to {name}")))?,
                );
            }
        }
        Ok(links)
    }

    /// Returns the number of CPUs for which memory was taken.
    pub fn cpus(&self) -> u32 {
        self.cpus
    }

    /// Returns the reader of the ledger.
    pub fn ledger(&self) -> &LedgerReader {
        &self.ledger
    }

    /// Returns a descriptor that is readable when events are pending.
    pub fn event_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the ring owns this epoll descriptor for as long as it lives, which is as
        // long as the borrow.
        unsafe { BorrowedFd::borrow_raw(self.ring.epoll_fd()) }
    }

    /// Takes the pending events, in order. The last one is `Lost` if some events found the ring
    /// full.
    pub fn take_events(&mut self) -> Result<Vec<KernelEvent>, libbpf_rs::Error> {
        self.ring.consume()?;
        let mut events = std::mem::take(&mut *self.received.borrow_mut());
        let lost = self.events_lost();
        if lost > self.events_lost_seen {
            events.push(KernelEvent::Lost {
                count: lost - self.events_lost_seen,
            });
            self.events_lost_seen = lost;
        }
        Ok(events)
    }

    /// Returns the number of events since load that found the ring full.
    pub fn events_lost(&self) -> u64 {
        self.skeleton
            .maps
            .bss_data
            .as_deref()
            .map_or(0, |bss| bss.events_lost)
    }

    /// Assigns packets in `netns` to `row`; `shared` if several containers live in it.
    pub fn set_netns(&self, netns: NetnsId, row: u32, shared: bool) -> libbpf_rs::Result<()> {
        let value = cf_netns_value {
            row,
            shared: shared.into(),
        };
        let mut bytes = [0; size_of::<cf_netns_value>()];
        put(&mut bytes, offset_of!(cf_netns_value, row), value.row);
        put(&mut bytes, offset_of!(cf_netns_value, shared), value.shared);
        self.skeleton
            .maps
            .netns_rows
            .update(&netns.0.to_ne_bytes(), &bytes, MapFlags::ANY)
    }

    /// Forgets `netns`; an unknown one is no error.
    pub fn remove_netns(&self, netns: NetnsId) {
        let _ = self.skeleton.maps.netns_rows.delete(&netns.0.to_ne_bytes());
    }

    /// Assigns sockets and tasks of `cgroup` to `row`.
    pub fn set_cgroup(&self, cgroup: CgroupId, row: u32) -> libbpf_rs::Result<()> {
        let key = cgroup.0.to_ne_bytes();
        self.skeleton
            .maps
            .cgroup_rows
            .update(&key, &row.to_ne_bytes(), MapFlags::ANY)
    }

    /// Forgets `cgroup`; an unknown one is no error.
    pub fn remove_cgroup(&self, cgroup: CgroupId) {
        let _ = self
            .skeleton
            .maps
            .cgroup_rows
            .delete(&cgroup.0.to_ne_bytes());
    }

    /// Registers the device `ifindex` of `netns` as the host's end of one of `row`'s interfaces.
    pub fn set_link(&self, netns: NetnsId, ifindex: IfIndex, row: u32) -> libbpf_rs::Result<()> {
        let key = link_key(netns, ifindex);
        self.skeleton
            .maps
            .link_rows
            .update(&key, &row.to_ne_bytes(), MapFlags::ANY)
    }

    /// Forgets a device; an unknown one is no error.
    pub fn remove_link(&self, netns: NetnsId, ifindex: IfIndex) {
        let _ = self
            .skeleton
            .maps
            .link_rows
            .delete(&link_key(netns, ifindex));
    }

    /// Makes the programs look up all identities again. Call it once after a set of changes.
    pub fn publish_identities(&mut self) {
        if let Some(data) = self.skeleton.maps.data_data.as_deref_mut() {
            data.identity_generation = data.identity_generation.wrapping_add(1);
        }
    }

    /// Sets whether cgroups without a row are reported. To turn it on, call
    /// [`AccountingPrograms::publish_identities`] afterwards.
    pub fn report_cgroups(&mut self, wanted: bool) {
        if let Some(data) = self.skeleton.maps.data_data.as_deref_mut() {
            data.report_cgroups = wanted.into();
        }
    }

    /// Reads the measurements of CPU `cpu`. The ledger's reader fills in `attributed_ns` and
    /// `charged_ns`.
    pub fn cpu_reading(&self, cpu: u32) -> libbpf_rs::Result<CpuReading> {
        CpuReading::read(&self.skeleton.maps.cpus, cpu)
    }

    /// Reads the packets of each pair of containers, since load or since one of them got its row.
    pub fn pairs(&self) -> libbpf_rs::Result<Vec<PairReading>> {
        pairs::read(&self.skeleton.maps.pairs)
    }

    /// Forgets the pairs of `row`, before another container gets it.
    pub fn remove_pairs(&self, row: u32) {
        pairs::remove(&self.skeleton.maps.pairs, row);
    }

    /// Reads the cost of every loaded program.
    pub fn program_costs(&self) -> std::io::Result<Vec<ProgramCost>> {
        cost::program_costs(self.skeleton.object())
    }

    /// Returns the memory of all maps, bytes: taken at load, never more.
    pub fn memory_bytes(&self) -> u64 {
        cost::memory_bytes(self.skeleton.object())
    }
}

impl CpuReading {
    /// Reads an element of the map `cpus`.
    pub(crate) fn read(cpus: &impl MapCore, cpu: u32) -> libbpf_rs::Result<CpuReading> {
        let value = cpus.lookup(&cpu.to_ne_bytes(), MapFlags::ANY)?;
        let value = value.unwrap_or_default();
        if value.len() < size_of::<cf_cpu>() {
            return Ok(CpuReading::default());
        }
        // SAFETY: the value has the length of the struct (checked above), which is made of integers
        // only; an unaligned read.
        let state = unsafe { value.as_ptr().cast::<cf_cpu>().read_unaligned() };
        Ok(CpuReading::of(&state))
    }

    /// Makes a reading from a CPU's state at any moment, also in the middle of a softirq. It
    /// includes the time up to the last cut between two owners, even if the programs have not added
    /// it to their totals yet.
    pub fn of(state: &cf_cpu) -> CpuReading {
        let totals = &state.totals;
        let [transmit, receive] = [totals.softirq_ns[2], totals.softirq_ns[3]];
        let mut time = CpuTime {
            softirq_ns: totals.softirq_ns.iter().sum(),
            network_softirq_ns: transmit + receive,
            hardirq_ns: totals.hardirq_network_ns + totals.hardirq_other_ns,
            napi_thread_ns: totals.napi_thread_ns,
            drain_ns: totals.drain_ns,
            charged_nobody_ns: totals.charged_nobody_ns,
            charged_host_ns: totals.charged_host_ns,
            interruptions: totals.interruptions,
            ..CpuTime::default()
        };
        let open_ns = open_ns(state);
        match cf_mode(state.mode) {
            cf_mode::CF_RECEIVE | cf_mode::CF_TRANSMIT => {
                time.softirq_ns += open_ns;
                time.network_softirq_ns += open_ns;
            }
            cf_mode::CF_OTHER => time.softirq_ns += open_ns,
            cf_mode::CF_NAPI_THREAD => time.napi_thread_ns += open_ns,
            cf_mode::CF_DRAIN => time.drain_ns += open_ns,
            _ => {}
        }
        CpuReading {
            time,
            waiting_ns: state.batch_ns + state.batch_hardirq_ns + state.hardirq_pending_ns,
            segments_rejected: totals.segments_rejected,
            softirqs: totals.softirqs.saturating_sub(totals.polls_unseen),
        }
    }
}

/// Returns the time of the current run that has been cut into segments and is in no total yet. The
/// kernel copies a state while its CPU may write it, so the fields may be of different moments: an
/// impossible difference counts as 0.
fn open_ns(state: &cf_cpu) -> u64 {
    let interrupted_ns = state
        .interrupt_mark_ns
        .wrapping_sub(state.run_interrupt_mark_ns);
    let cut_ns = state.start_ns.wrapping_sub(state.run_start_ns);
    let open_ns = cut_ns.wrapping_sub(interrupted_ns);
    if open_ns > OPEN_MAX_NS { 0 } else { open_ns }
}

fn put(bytes: &mut [u8], offset: usize, value: u32) {
    bytes[offset..offset + 4].copy_from_slice(&value.to_ne_bytes());
}

fn link_key(netns: NetnsId, ifindex: IfIndex) -> [u8; size_of::<cf_link_key>()] {
    let mut key = [0; size_of::<cf_link_key>()];
    put(&mut key, offset_of!(cf_link_key, netns), netns.0);
    put(&mut key, offset_of!(cf_link_key, ifindex), ifindex.0);
    key
}
