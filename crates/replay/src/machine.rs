//! Machine on which the programs run: a clock, CPUs, and the kernel's events.

use crate::helpers::{self, Interrupt, with};
use crate::objects::{Packet, Socket, Task};
use crate::programs::{self as c, Object};
use cofferdam_bpf::abi::{cf_cpu, cf_row};
use cofferdam_bpf::{Counts, CpuReading, MapError, PairReading, RowReading};
use std::cell::RefCell;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Softirq vectors in the kernel's numbering.
#[allow(missing_docs, reason = "the kernel's names")]
pub mod softirq {
    pub const HI: u32 = 0;
    pub const TIMER: u32 = 1;
    pub const NET_TX: u32 = 2;
    pub const NET_RX: u32 = 3;
    pub const TASKLET: u32 = 6;
    pub const RCU: u32 = 9;
}

/// Task that runs on a CPU; `world_current` in shim/world.c has the objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunningTask {
    /// Idle task.
    #[default]
    Idle,
    /// Process.
    Process,
    /// Kernel thread that works on behalf of others.
    Worker,
    /// Kernel thread that runs softirqs.
    Softirqd,
    /// NAPI thread.
    Napi,
}

/// Lock of the programs' global variables, which exist once per process.
static ALONE: Mutex<()> = Mutex::new(());

type Hook = Box<dyn FnMut(&Machine)>;

/// CPUs on which the accounting's programs run.
pub struct Machine {
    objects: RefCell<Vec<Object>>,
    cpus: u32,
    /// Runs before each reading of a row or of a CPU's state: meanwhile the CPU continues.
    meanwhile: RefCell<Option<Hook>>,
    _alone: MutexGuard<'static, ()>,
}

impl Machine {
    /// Creates a machine without counts. The next one waits until this one is dropped.
    pub fn new(cpus: u32) -> Machine {
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        helpers::reset();
        // SAFETY: only programs read them, and these run only under the lock.
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

    /// Inode of the host's network namespace.
    pub const HOST_NETNS: u32 = 1;

    // ---- Time and place ----

    /// Selects the CPU of the following events.
    pub fn on(&self, cpu: u32) {
        assert!(cpu < self.cpus);
        with(|state| state.cpu = cpu);
    }

    /// Advances the clock.
    pub fn pass(&self, ns: u64) {
        with(|state| state.now_ns += ns);
    }

    /// Current time of the clock.
    pub fn now_ns(&self) -> u64 {
        with(|state| state.now_ns)
    }

    /// Sets the advance of the clock at each reading by a program.
    pub fn tick(&self, ns: u64) {
        with(|state| state.tick_ns = ns);
    }

    /// Makes a process of this cgroup the running task.
    pub fn run_as(&self, cgroup: u64) {
        with(|state| (state.cgroup, state.runs) = (cgroup, RunningTask::Process));
    }

    /// Makes this task, in the root cgroup, the running one.
    pub fn run(&self, what: RunningTask) {
        with(|state| (state.cgroup, state.runs) = (Self::ROOT_CGROUP, what));
    }

    /// Root of the cgroups, to which kernel threads belong.
    pub const ROOT_CGROUP: u64 = 1;

    /// Sets whether cgroups without a row are reported.
    pub fn report_cgroups(&self, wanted: bool) {
        // SAFETY: the lock is held; programs read it on this thread alone.
        unsafe { c::report_cgroups = wanted.into() };
    }

    /// Sets whether a window is open: only time that begins in one is measured.
    pub fn window(&self, open: bool) {
        // SAFETY: the lock is held; programs read it on this thread alone.
        unsafe { c::window_open = open.into() };
    }

    /// Schedules an interrupt during a program.
    pub fn interrupt(&self, interrupt: Option<Interrupt>) {
        with(|state| state.interrupt = interrupt);
    }

    // ---- Identities ----

    /// Assigns packets in this namespace to `row`. `shared` if several containers use it.
    pub fn set_netns(&self, inum: u32, row: u32, shared: bool) {
        let map = &raw const c::netns_rows;
        let value = helpers::value(map, inum.into(), 8);
        // SAFETY: the map's value is `struct cf_netns_value`, two words of 32 bits.
        unsafe { value.write(u64::from(row) | u64::from(shared) << 32) };
        self.publish();
    }

    /// Assigns sockets and tasks of this cgroup to `row`.
    pub fn set_cgroup(&self, id: u64, row: u32) {
        let map = &raw const c::cgroup_rows;
        let value = helpers::value(map, id, 4);
        // SAFETY: one word of 32 bits in room for 64.
        unsafe { value.write(row.into()) };
        self.publish();
    }

    /// Removes the container of this cgroup.
    pub fn forget_cgroup(&self, id: u64) {
        helpers::forget(&raw const c::cgroup_rows, id);
        self.publish();
    }

    /// Makes the device `ifindex` of namespace `inum` the host's end of one of `row`'s interfaces.
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

    /// Begins a softirq.
    pub fn softirq_entry(&self, vector: u32) {
        // SAFETY: here and below: plain functions, whose arguments are objects that live as long
        // as this machine does.
        unsafe { c::replay_softirq_entry(vector) };
    }

    /// Ends a softirq.
    pub fn softirq_exit(&self, vector: u32) {
        // SAFETY: see softirq_entry.
        unsafe { c::replay_softirq_exit(vector) };
    }

    /// Runs a softirq without packets.
    pub fn softirq(&self, vector: u32, ns: u64) {
        self.softirq_entry(vector);
        self.pass(ns);
        self.softirq_exit(vector);
    }

    /// Runs a device interrupt of this length; a network one raises NET_RX.
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

    /// The stack receives a packet.
    pub fn netif_receive_skb(&self, packet: Packet<'_>) {
        // SAFETY: see softirq_entry.
        unsafe { c::replay_netif_receive_skb(packet.0) };
    }

    /// A driver passes a packet to GRO.
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

    /// A qdisc dequeues packets, or has none.
    pub fn qdisc_dequeue(&self, packets: Option<Packet<'_>>) {
        let null = std::ptr::null_mut();
        let first = packets.map_or(null, |p| p.0);
        // SAFETY: see softirq_entry; the programs do not read the first two.
        unsafe { c::replay_qdisc_dequeue(null, null, 1, first) };
    }

    /// The CPU wakes another one, for packets (RPS) or for another purpose.
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

    /// One task leaves the CPU to another one.
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

    /// State of a CPU in the programs' map.
    pub fn state(&self, cpu: u32) -> cf_cpu {
        let map = &raw const c::cpus;
        let value = helpers::value(map, cpu.into(), size_of::<cf_cpu>());
        // SAFETY: the map's value, of that size and aligned to 8 bytes; integers only.
        unsafe { value.cast::<cf_cpu>().read() }
    }

    /// Number of rows of each CPU.
    pub fn rows(&self) -> u32 {
        // SAFETY: never written.
        unsafe { c::rows_per_cpu }
    }

    /// Row of a CPU.
    pub fn row_of(&self, cpu: u32, row: u32) -> RowReading {
        let key = cpu * self.rows() + row;
        let map = &raw const c::ledger;
        let value = helpers::value(map, key.into(), size_of::<cf_row>());
        // SAFETY: the map's value, of that size and aligned to 8 bytes; integers only.
        let row = unsafe { value.cast::<cf_row>().read() };
        RowReading::of(&row)
    }

    /// Number of events sent to the agent so far.
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
            // SAFETY: from calloc, in shim/world.c; no reference with this machine's lifetime is
            // left.
            unsafe { libc_free(object) };
        }
    }
}

unsafe extern "C" {
    #[link_name = "free"]
    fn libc_free(object: Object);
}
