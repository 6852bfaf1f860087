//! Two CPUs with a runqueue each, for the programs of the diagnosis: threads are queued, run and
//! leave.

use crate::Machine;
use crate::helpers::{self, with};
use crate::programs::{self as c, Object};
use cofferdam_bpf::abi::{cf_sched_cell, cf_sched_cpu, cf_sched_window};
use std::collections::HashMap;

/// Number of CPUs of [`Runqueues`].
pub const CPUS: u32 = 2;

/// Row of the first container. Other cgroups belong to the host.
const FIRST_ROW: u32 = cofferdam_bpf::SCHEDULE_FIRST_CONTAINER_ROW;

/// Thread, by its index.
pub type Thread = usize;

/// Reason why a thread leaves its CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leave {
    /// Another thread runs; this one stays in the runqueue.
    Preempted,
    /// The thread sleeps.
    Asleep,
    /// The quota of its group is exhausted; the thread stays in its group's queue.
    Throttled,
}

struct ThreadState {
    object: Object,
    group: u64,
    /// CPU in whose runqueue it is, and since when; running threads too.
    queued: Option<(u32, u64)>,
}

#[derive(Clone, Copy, Default)]
struct Group {
    object: Option<Object>,
    runnable: u32,
    throttled_since: Option<u64>,
    throttled_ns: u64,
}

/// Runqueues and running threads. The idle threads are the first two.
pub struct Runqueues<'m> {
    machine: &'m Machine,
    clocks: Vec<Object>,
    threads: Vec<ThreadState>,
    groups: HashMap<(u64, u32), Group>,
    sets: HashMap<u64, Object>,
    running: [Thread; CPUS as usize],
}

impl<'m> Runqueues<'m> {
    /// Creates two idle CPUs. Containers have the cgroups 102, 103, … and the rows 2, 3, ….
    pub fn new(machine: &'m Machine, containers: u32) -> Runqueues<'m> {
        // SAFETY: the machine holds the lock; programs read it on this thread alone.
        unsafe { c::sched_generation = 1 };
        for row in FIRST_ROW..FIRST_ROW + containers {
            let value = helpers::value(&raw const c::sched_cgroup_rows, 100 + u64::from(row), 4);
            // SAFETY: one word of 32 bits in room for 64.
            unsafe { value.write(row.into()) };
        }
        let mut runqueues = Runqueues {
            machine,
            // SAFETY: plain allocations.
            clocks: (0..CPUS)
                .map(|_| machine.keep(unsafe { c::world_runqueue() }))
                .collect(),
            threads: Vec::new(),
            groups: HashMap::new(),
            sets: HashMap::new(),
            running: [0, 1],
        };
        for cpu in 0..CPUS {
            let idle = runqueues.thread_with(0, 1, 1 << cpu);
            runqueues.enqueue(idle, cpu);
        }
        runqueues
    }

    /// Cgroup id of a row's container.
    pub fn group_of(row: u32) -> u64 {
        100 + u64::from(row)
    }

    /// Creates a sleeping thread of this cgroup (1 is the host's) that may use the CPUs of `mask`.
    pub fn thread(&mut self, group: u64, mask: u64) -> Thread {
        let pid = 100 + self.threads.len() as i32;
        self.thread_with(pid, group, mask)
    }

    fn thread_with(&mut self, pid: i32, group: u64, mask: u64) -> Thread {
        let machine = self.machine;
        let set = *self.sets.entry(group).or_insert_with(|| {
            let cgroup = machine.cgroup(group);
            // SAFETY: the cgroup lives as long as the machine.
            machine.keep(unsafe { c::world_css_set(cgroup.0) })
        });
        // SAFETY: as above.
        let object = machine.keep(unsafe { c::world_thread(pid, set, mask) });
        self.threads.push(ThreadState {
            object,
            group,
            queued: None,
        });
        self.threads.len() - 1
    }

    fn group(&mut self, group: u64, cpu: u32) -> &mut Group {
        let (machine, rq) = (self.machine, self.clocks[cpu as usize]);
        let slot = self.groups.entry((group, cpu)).or_default();
        // SAFETY: the runqueue lives as long as the machine.
        let make = || machine.keep(unsafe { c::world_group(rq) });
        slot.object.get_or_insert_with(make);
        slot
    }

    /// Queues a thread on this CPU, after a wake-up or a creation: it waits from now on.
    pub fn enqueue(&mut self, thread: Thread, cpu: u32) {
        let now = self.machine.now_ns();
        self.threads[thread].queued = Some((cpu, now));
        let group = self.threads[thread].group;
        self.group(group, cpu).runnable += 1;
    }

    /// Refills the quota of this group on this CPU.
    pub fn unthrottle(&mut self, group: u64, cpu: u32) {
        let now = self.machine.now_ns();
        let slot = self.group(group, cpu);
        if let Some(since) = slot.throttled_since.take() {
            slot.throttled_ns += now - since;
        }
    }

    /// Replaces the running thread of this CPU by `next`. `None` makes the CPU idle.
    pub fn switch(&mut self, cpu: u32, leave: Leave, next: Option<Thread>) {
        self.change(cpu, leave, next, true);
    }

    /// Switches like [`Runqueues::switch`], but without the programs.
    pub fn uncounted(&mut self, cpu: u32, leave: Leave, next: Option<Thread>) {
        self.change(cpu, leave, next, false);
    }

    fn change(&mut self, cpu: u32, leave: Leave, next: Option<Thread>, counted: bool) {
        let now = self.machine.now_ns();
        let (prev, next) = (self.running[cpu as usize], next.unwrap_or(cpu as usize));
        let idle = |thread: Thread| thread < CPUS as usize;
        let group = self.threads[prev].group;
        if !idle(prev) {
            match leave {
                Leave::Preempted => {}
                Leave::Asleep => {
                    self.threads[prev].queued = None;
                    self.group(group, cpu).runnable -= 1;
                }
                Leave::Throttled => self.group(group, cpu).throttled_since = Some(now),
            }
        }
        // SAFETY: all objects live as long as the machine; the programs run on this thread.
        unsafe { c::world_clock(self.clocks[cpu as usize], now) };
        for thread in [prev, next] {
            self.fill_in(thread, cpu);
        }
        if counted {
            self.machine.on(cpu);
            let (from, to) = (self.threads[prev].object, self.threads[next].object);
            // SAFETY: as above.
            unsafe { c::replay_schedule_switch(leave == Leave::Preempted, from, to) };
        }
        self.running[cpu as usize] = next;
        // A thread that stays queued waits from now on.
        if let Some((_, since)) = &mut self.threads[prev].queued {
            *since = now;
        }
    }

    /// Begins the counting on both CPUs, whatever runs there.
    pub fn begin(&mut self) {
        let now = self.machine.now_ns();
        for cpu in 0..CPUS {
            let running = self.running[cpu as usize];
            self.fill_in(running, cpu);
            let object = self.threads[running].object;
            self.machine.on(cpu);
            with(|state| state.task = Some(object));
            // SAFETY: as in `switch`; the program does not read its context.
            unsafe {
                c::world_clock(self.clocks[cpu as usize], now);
                c::schedule_begin(std::ptr::null_mut());
            }
        }
        with(|state| state.task = None);
    }

    /// Moves a waiting thread to another CPU.
    pub fn migrate(&mut self, thread: Thread, to: u32) {
        let (from, _) = self.threads[thread].queued.expect("it waits somewhere");
        let (group, now) = (self.threads[thread].group, self.machine.now_ns());
        self.group(group, from).runnable -= 1;
        self.fill_in(thread, from);
        let (object, cfs) = (self.threads[thread].object, self.group(group, from).object);
        // SAFETY: as in `switch`. 2 is TASK_ON_RQ_MIGRATING.
        unsafe {
            c::world_clock(self.clocks[from as usize], now);
            c::world_thread_set(object, cfs.unwrap_or(std::ptr::null_mut()), from, 2, now);
            c::replay_schedule_migrate(object, to as i32);
        }
        self.enqueue(thread, to);
    }

    /// Fills in the kernel's fields.
    fn fill_in(&mut self, thread: Thread, cpu: u32) {
        let now = self.machine.now_ns();
        let ThreadState {
            object,
            group,
            queued,
        } = self.threads[thread];
        let slot = *self.group(group, cpu);
        let cfs = slot.object.unwrap_or(std::ptr::null_mut());
        let open_ns = slot.throttled_since.map_or(0, |since| now - since);
        let throttled = i32::from(slot.throttled_since.is_some());
        let (on_rq, since) = (i32::from(queued.is_some()), queued.map_or(0, |(_, at)| at));
        // SAFETY: as in `switch`.
        unsafe {
            c::world_group_set(cfs, slot.runnable, throttled, slot.throttled_ns + open_ns);
            c::world_thread_set(object, cfs, cpu, on_rq, since);
        }
    }

    /// Counts of a container on a CPU, up to the last switch that concerned it.
    pub fn cell(&self, cpu: u32, row: u32) -> cf_sched_cell {
        // SAFETY: never written.
        let rows = unsafe { c::sched_rows };
        let key = u64::from(cpu * rows + row);
        let map = &raw const c::sched_cell_map;
        let value = helpers::value(map, key, size_of::<cf_sched_cell>());
        // SAFETY: the map's value, of that size and aligned to 8 bytes; integers only.
        unsafe { value.cast::<cf_sched_cell>().read() }
    }

    /// Times of a CPU.
    pub fn cpu(&self, cpu: u32) -> cf_sched_cpu {
        let map = &raw const c::sched_cpu_map;
        let value = helpers::value(map, cpu.into(), size_of::<cf_sched_cpu>());
        // SAFETY: as in `cell`.
        unsafe { value.cast::<cf_sched_cpu>().read() }
    }

    /// Waits of a container that proved to be phantom.
    pub fn phantom_ns(&self, row: u32) -> u64 {
        let map = &raw const c::sched_window_map;
        let value = helpers::value(map, row.into(), size_of::<cf_sched_window>());
        // SAFETY: as in `cell`.
        unsafe { value.cast::<cf_sched_window>().read() }.phantom_ns
    }

    /// Advances the clock.
    pub fn pass(&self, ns: u64) {
        with(|state| state.now_ns += ns);
    }
}
