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

/// Capacities, fixed at load.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Containers, and cgroups of the host: rows of the ledger.
    pub containers: u32,
    /// Cgroups of containers, sub-cgroups included.
    pub cgroups: u32,
    /// Host ends of containers' interfaces.
    pub links: u32,
    /// Pairs of containers of which one sends to the other.
    pub pairs: u32,
}

impl Sizes {
    /// Room for `containers` containers with eight cgroups and four interfaces each.
    pub fn for_containers(containers: u32) -> Sizes {
        Sizes {
            containers,
            cgroups: containers * 8,
            links: containers * 4,
            pairs: containers * 4,
        }
    }

    /// And for `hosts` cgroups of the host, with one cgroup each.
    #[must_use]
    pub fn and_hosts(self, hosts: u32) -> Sizes {
        Sizes {
            containers: self.containers + hosts,
            cgroups: self.cgroups + hosts,
            ..self
        }
    }
}

/// What one CPU measured since load.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuReading {
    /// Time by kind, up to the last cut between two owners.
    pub time: CpuTime,
    /// The part of it that waits to be shared out over the packets of a batch, nanoseconds: it is
    /// in no row yet.
    pub waiting_ns: u64,
    /// Segments with an impossible length, thrown away.
    pub segments_rejected: u64,
    /// Softirqs that began, of all vectors, less the polls of NAPI threads that were not seen: what it
    /// lacks to the kernel's own count of softirqs is in no ledger.
    pub softirqs: u64,
}

/// No run lasts longer.
const OPEN_MAX_NS: u64 = cf_limits::CF_SEGMENT_MAX_MS.0 as u64 * 1_000_000;

/// Loaded, and those that tell of containers attached. All is detached and freed when this and its
/// [`Markers`] are dropped.
pub struct AccountingPrograms {
    // Links go first, then the ring and the mapping, the object last.
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
    /// Loads everything, and attaches all but the markers that ask sockets. `host_netns` is the namespace
    /// whose packets are the host's own.
    pub fn load(
        sizes: Sizes,
        host_netns: NetnsId,
    ) -> Result<(AccountingPrograms, Markers), LoadError> {
        require_tracepoints(&REQUIRED_TRACEPOINTS)?;
        // The skeleton borrows this small block for its life; it is leaked once a load.
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

    /// CPUs that memory was taken for.
    pub fn cpus(&self) -> u32 {
        self.cpus
    }

    /// The ledger.
    pub fn ledger(&self) -> &LedgerReader {
        &self.ledger
    }

    /// Readable when events wait.
    pub fn event_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the ring owns this epoll descriptor for as long as it lives, which is as
        // long as the borrow.
        unsafe { BorrowedFd::borrow_raw(self.ring.epoll_fd()) }
    }

    /// Takes the waiting events, in order; ends with `Lost` when some found the ring full.
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

    /// Events that found the ring full, since load.
    pub fn events_lost(&self) -> u64 {
        self.skeleton
            .maps
            .bss_data
            .as_deref()
            .map_or(0, |bss| bss.events_lost)
    }

    /// Packets in `netns` are `row`'s; `shared` when several containers live in it.
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

    /// Forgets `netns`; unknown is fine.
    pub fn remove_netns(&self, netns: NetnsId) {
        let _ = self.skeleton.maps.netns_rows.delete(&netns.0.to_ne_bytes());
    }

    /// Sockets and tasks of `cgroup` are `row`'s.
    pub fn set_cgroup(&self, cgroup: CgroupId, row: u32) -> libbpf_rs::Result<()> {
        let key = cgroup.0.to_ne_bytes();
        self.skeleton
            .maps
            .cgroup_rows
            .update(&key, &row.to_ne_bytes(), MapFlags::ANY)
    }

    /// Forgets `cgroup`; unknown is fine.
    pub fn remove_cgroup(&self, cgroup: CgroupId) {
        let _ = self
            .skeleton
            .maps
            .cgroup_rows
            .delete(&cgroup.0.to_ne_bytes());
    }

    /// The device `ifindex` of `netns` is the host's end of one of `row`'s interfaces.
    pub fn set_link(&self, netns: NetnsId, ifindex: IfIndex, row: u32) -> libbpf_rs::Result<()> {
        let key = link_key(netns, ifindex);
        self.skeleton
            .maps
            .link_rows
            .update(&key, &row.to_ne_bytes(), MapFlags::ANY)
    }

    /// Forgets a device; unknown is fine.
    pub fn remove_link(&self, netns: NetnsId, ifindex: IfIndex) {
        let _ = self
            .skeleton
            .maps
            .link_rows
            .delete(&link_key(netns, ifindex));
    }

    /// Makes the programs look all identities up again. Call once after a set of changes.
    pub fn publish_identities(&mut self) {
        if let Some(data) = self.skeleton.maps.data_data.as_deref_mut() {
            data.identity_generation = data.identity_generation.wrapping_add(1);
        }
    }

    /// Whether cgroups without a row are reported. Switched on it takes effect for each with the next
    /// [`AccountingPrograms::publish_identities`].
    pub fn report_cgroups(&mut self, wanted: bool) {
        if let Some(data) = self.skeleton.maps.data_data.as_deref_mut() {
            data.report_cgroups = wanted.into();
        }
    }

    /// What CPU `cpu` measured. The `attributed_ns` and `charged_ns` fields are left for the
    /// ledger's reader.
    pub fn cpu_reading(&self, cpu: u32) -> libbpf_rs::Result<CpuReading> {
        CpuReading::read(&self.skeleton.maps.cpus, cpu)
    }

    /// Packets of each pair of containers since load, or since one of the two got its row.
    pub fn pairs(&self) -> libbpf_rs::Result<Vec<PairReading>> {
        pairs::read(&self.skeleton.maps.pairs)
    }

    /// Forgets the pairs of `row`, before another container gets it.
    pub fn remove_pairs(&self, row: u32) {
        pairs::remove(&self.skeleton.maps.pairs, row);
    }

    /// Cost of every loaded program.
    pub fn program_costs(&self) -> std::io::Result<Vec<ProgramCost>> {
        cost::program_costs(self.skeleton.object())
    }

    /// Memory of all maps, bytes: taken at load, never more.
    pub fn memory_bytes(&self) -> u64 {
        cost::memory_bytes(self.skeleton.object())
    }
}

impl CpuReading {
    /// Of the map `cpus`.
    pub(crate) fn read(cpus: &impl MapCore, cpu: u32) -> libbpf_rs::Result<CpuReading> {
        let value = cpus.lookup(&cpu.to_ne_bytes(), MapFlags::ANY)?;
        let value = value.unwrap_or_default();
        if value.len() < size_of::<cf_cpu>() {
            return Ok(CpuReading::default());
        }
        // SAFETY: as long as the struct (checked above), which is made of integers only; an
        // unaligned read.
        let state = unsafe { value.as_ptr().cast::<cf_cpu>().read_unaligned() };
        Ok(CpuReading::of(&state))
    }

    /// Of a CPU's state at any moment, also in the middle of a softirq: the time up to the last
    /// cut between two owners, whether the programs have added it to their totals or not.
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

/// Of the current run, what has been cut into segments and is in no total yet. The kernel
/// copies a state while its CPU may write it, so that the fields need not be of one moment: what
/// cannot be is nothing.
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
