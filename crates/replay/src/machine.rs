//! The machine that the programs run on: a clock, CPUs, and the kernel's events.

use crate::helpers::{self, Interrupt, with};
use crate::objects::{Packet, Socket, Task};
use crate::programs::{self as c, Object};
use cofferdam_bpf::abi::{cf_cpu, cf_row};
use cofferdam_bpf::{Counts, CpuReading, MapError, PairReading, RowReading};
use std::cell::RefCell;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Softirq vectors, as the kernel numbers them.
#[allow(missing_docs, reason = "the kernel's names")]
pub mod softirq {
    pub const HI: u32 = 0;
    pub const TIMER: u32 = 1;
    pub const NET_TX: u32 = 2;
    pub const NET_RX: u32 = 3;
    pub const TASKLET: u32 = 6;
    pub const RCU: u32 = 9;
}

/// What runs on a CPU; `world_current` in shim/world.c has the tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Runs {
    /// The idle task.
    #[default]
    Idle,
    /// A process.
    Process,
    /// A kernel thread that works for somebody.
    Worker,
    /// The kernel thread that runs softirqs.
    Softirqd,
    /// A NAPI thread.
    Napi,
}

/// The programs' global variables are one set a process.
static ALONE: Mutex<()> = Mutex::new(());

type Hook = Box<dyn FnMut(&Machine)>;

/// CPUs on which the accounting's programs run.
pub struct Machine {
    objects: RefCell<Vec<Object>>,
    cpus: u32,
    /// Runs before each reading of a row or of a CPU's state: the CPU goes on meanwhile.
    meanwhile: RefCell<Option<Hook>>,
    _alone: MutexGuard<'static, ()>,
}

impl Machine {
    /// A machine with nothing counted yet. The next one waits until it is dropped.
    pub fn new(cpus: u32) -> Machine {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        helpers::reset();
        // SAFETY: only programs read it, and they run under the lock alone.
        unsafe {
            c::identity_generation = 1;
            c::report_cgroups = 1;
            c::window_open = 1;
        }
        Machine {
            objects: RefCell::default(),
            cpus,
            meanwhile: RefCell::default(),
            _alone: alone,
        }
    }

    pub(crate) fn keep(&self, object: Object) -> Object {
        assert!(!object.is_null(), "out of memory");
        self.objects.borrow_mut().push(object);
        object
    }

    /// The inode of the host's network namespace.
    pub const HOST_NETNS: u32 = 1;

    // ---- Time and place ----

    /// What follows happens on this CPU.
    pub fn on(&self, cpu: u32) {
        assert!(cpu < self.cpus);
        with(|state| state.cpu = cpu);
    }

    /// Time goes by.
    pub fn pass(&self, ns: u64) {
        with(|state| state.now_ns += ns);
    }

    /// What time it is.
    pub fn now_ns(&self) -> u64 {
        with(|state| state.now_ns)
    }

    /// The clock goes on by so much whenever a program reads it.
    pub fn tick(&self, ns: u64) {
        with(|state| state.tick_ns = ns);
    }

    /// A process of this cgroup runs from now on.
    pub fn run_as(&self, cgroup: u64) {
        with(|state| (state.cgroup, state.runs) = (cgroup, Runs::Process));
    }

    /// In the root cgroup this runs from now on.
    pub fn run(&self, what: Runs) {
        with(|state| (state.cgroup, state.runs) = (Self::ROOT_CGROUP, what));
    }

    /// The root of the cgroups, in which kernel threads are.
    pub const ROOT_CGROUP: u64 = 1;

    /// Whether cgroups without a row are reported from now on.
    pub fn report_cgroups(&self, wanted: bool) {
        // SAFETY: the lock is held; programs read it on this thread alone.
        unsafe { c::report_cgroups = wanted.into() };
    }

    /// Whether what begins from now on is measured.
    pub fn window(&self, open: bool) {
        // SAFETY: the lock is held; programs read it on this thread alone.
        unsafe { c::window_open = open.into() };
    }

    /// An interrupt comes while a program runs.
    pub fn interrupt(&self, interrupt: Option<Interrupt>) {
        with(|state| state.interrupt = interrupt);
    }

    // ---- Identities ----

    /// Packets in this namespace are `row`'s; `shared` when several containers live in it.
    pub fn set_netns(&self, inum: u32, row: u32, shared: bool) {
        let map = &raw const c::netns_rows;
        let value = helpers::value(map, inum.into(), 8);
        // SAFETY: the map's value is `struct cf_netns_value`, two words of 32 bits.
        unsafe { value.write(u64::from(row) | u64::from(shared) << 32) };
        self.publish();
    }

    /// Sockets and tasks of this cgroup are `row`'s.
    pub fn set_cgroup(&self, id: u64, row: u32) {
        let map = &raw const c::cgroup_rows;
        let value = helpers::value(map, id, 4);
        // SAFETY: one word of 32 bits in room for 64.
        unsafe { value.write(row.into()) };
        self.publish();
    }

    /// This cgroup is no container's any more.
    pub fn forget_cgroup(&self, id: u64) {
        helpers::forget(&raw const c::cgroup_rows, id);
        self.publish();
    }

    /// The device `ifindex` of namespace `inum` is the host's end of one of `row`'s interfaces.
    pub fn set_link(&self, inum: u32, ifindex: i32, row: u32) {
        let key = u64::from(inum) | u64::from(ifindex.cast_unsigned()) << 32;
        let map = &raw const c::link_rows;
        let value = helpers::value(map, key, 4);
        // SAFETY: one word of 32 bits in room for 64.
        unsafe { value.write(row.into()) };
        self.publish();
    }

    fn publish(&self) {
        // SAFETY: the lock is held; programs read it on this thread alone.
        unsafe { c::identity_generation = c::identity_generation.wrapping_add(1) };
    }

    // ---- Events ----

    /// A softirq begins.
    pub fn softirq_entry(&self, vector: u32) {
        // SAFETY: here and below: plain functions, whose arguments are objects that live as long
        // as this machine does.
        unsafe { c::replay_softirq_entry(vector) };
    }

    /// It ends.
    pub fn softirq_exit(&self, vector: u32) {
        // SAFETY: see softirq_entry.
        unsafe { c::replay_softirq_exit(vector) };
    }

    /// A softirq without packets, from its begin to its end.
    pub fn softirq(&self, vector: u32, ns: u64) {
        self.softirq_entry(vector);
        self.pass(ns);
        self.softirq_exit(vector);
    }

    /// A device interrupt of this length; a network one raises NET_RX.
    pub fn hardirq(&self, ns: u64, network: bool) {
        with(|state| state.masked = true);
        // SAFETY: see softirq_entry.
        unsafe {
            c::replay_irq_handler_entry();
            self.pass(ns);
            if network {
                c::replay_softirq_raise(softirq::NET_RX);
            }
            c::replay_irq_handler_exit();
        }
        with(|state| state.masked = false);
    }

    /// The stack takes a packet.
    pub fn netif_receive_skb(&self, packet: Packet<'_>) {
        // SAFETY: see softirq_entry.
        unsafe { c::replay_netif_receive_skb(packet.0) };
    }

    /// A driver hands a packet to GRO.
    pub fn napi_gro_receive_entry(&self, packet: Packet<'_>) {
        // SAFETY: see softirq_entry.
        unsafe { c::replay_napi_gro_receive_entry(packet.0) };
    }

    /// A poll ends.
    pub fn napi_poll(&self) {
        // SAFETY: see softirq_entry.
        unsafe { c::replay_napi_poll() };
    }

    /// A socket gets data.
    pub fn sk_data_ready(&self, socket: Socket<'_>) {
        // SAFETY: see softirq_entry.
        unsafe { c::replay_sk_data_ready(socket.0) };
    }

    /// A TCP segment reaches its connection.
    pub fn tcp_probe(&self, socket: Socket<'_>) {
        // SAFETY: see softirq_entry.
        unsafe { c::replay_tcp_probe(socket.0) };
    }

    /// A datagram finds its socket full.
    pub fn udp_fail_queue_rcv_skb(&self, socket: Socket<'_>) {
        // SAFETY: see softirq_entry.
        unsafe { c::replay_udp_fail_queue_rcv_skb(-12, socket.0) };
    }

    /// A packet is queued to its device.
    pub fn net_dev_queue(&self, packet: Packet<'_>) {
        // SAFETY: see softirq_entry.
        unsafe { c::replay_net_dev_queue(packet.0) };
    }

    /// A qdisc lets packets go, or has none.
    pub fn qdisc_dequeue(&self, packets: Option<Packet<'_>>) {
        let null = std::ptr::null_mut();
        let first = packets.map_or(null, |p| p.0);
        // SAFETY: see softirq_entry; the first two are not looked at.
        unsafe { c::replay_qdisc_dequeue(null, null, 1, first) };
    }

    /// The CPU wakes another one; for packets (RPS) or for something else.
    pub fn csd_queue_cpu(&self, for_packets: bool) {
        let function = &raw const c::rps_trigger_softirq;
        let function = if for_packets {
            function
        } else {
            (&raw const c::ledger).cast()
        };
        // SAFETY: see softirq_entry; the function is compared and not called.
        unsafe { c::replay_csd_queue_cpu(1, 0, function.cast()) };
    }

    /// A task leaves the CPU to another one.
    pub fn sched_switch(&self, from: Task<'_>, to: Task<'_>) {
        // The scheduler has interrupts off.
        with(|state| state.masked = true);
        // SAFETY: see softirq_entry.
        unsafe { c::replay_sched_switch(false, from.0, to.0) };
        with(|state| state.masked = false);
    }

    // ---- Reading ----

    /// Runs `body` before each reading of a row or of a CPU's state from now on.
    pub fn meanwhile(&self, body: impl FnMut(&Machine) + 'static) {
        *self.meanwhile.borrow_mut() = Some(Box::new(body));
    }

    fn time_goes_on(&self) {
        let hook = self.meanwhile.borrow_mut().take();
        if let Some(mut hook) = hook {
            hook(self);
            self.meanwhile.borrow_mut().get_or_insert(hook);
        }
    }

    /// The state of a CPU as the programs have it.
    pub fn state(&self, cpu: u32) -> cf_cpu {
        let map = &raw const c::cpus;
        let value = helpers::value(map, cpu.into(), size_of::<cf_cpu>());
        // SAFETY: the map's value, of that size and aligned to 8 bytes; integers only.
        unsafe { value.cast::<cf_cpu>().read() }
    }

    /// Rows of each CPU.
    pub fn rows(&self) -> u32 {
        // SAFETY: never written.
        unsafe { c::rows_per_cpu }
    }

    /// A row of a CPU.
    pub fn row_of(&self, cpu: u32, row: u32) -> RowReading {
        let key = cpu * self.rows() + row;
        let map = &raw const c::ledger;
        let value = helpers::value(map, key.into(), size_of::<cf_row>());
        // SAFETY: the map's value, of that size and aligned to 8 bytes; integers only.
        let row = unsafe { value.cast::<cf_row>().read() };
        RowReading::of(&row)
    }

    /// Events sent to the agent so far.
    pub fn events(&self) -> u64 {
        with(|state| state.events)
    }
}

impl Counts for Machine {
    fn cpus(&self) -> u32 {
        self.cpus
    }

    fn row(&self, cpu: u32, row: u32) -> RowReading {
        self.time_goes_on();
        self.row_of(cpu, row)
    }

    fn cpu_reading(&self, cpu: u32) -> Result<CpuReading, MapError> {
        self.time_goes_on();
        Ok(CpuReading::of(&self.state(cpu)))
    }

    fn pairs(&self) -> Result<Vec<PairReading>, MapError> {
        let entries = helpers::entries(&raw const c::pairs);
        let decode = |(key, packets): (u64, u64)| {
            PairReading::of(&key.to_ne_bytes(), &packets.to_ne_bytes())
        };
        Ok(entries.into_iter().filter_map(decode).collect())
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        for object in self.objects.borrow_mut().drain(..) {
            // SAFETY: from calloc, in shim/world.c; nothing with this machine's lifetime is left.
            unsafe { libc_free(object) };
        }
    }
}

unsafe extern "C" {
    #[link_name = "free"]
    fn libc_free(object: Object);
}
