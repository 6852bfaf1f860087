//! The diagnosis programs: sizes, load, attach; identities in, counts out.

use crate::cost::{self, ProgramCost};
use crate::load::{LoadError, loading};
use crate::mapped::{MappedArray, Plain};
use crate::skeleton::schedule_types::{
    cf_sched_cell, cf_sched_cpu, cf_sched_row_index, cf_sched_window,
};
use crate::skeleton::{ScheduleSkel, ScheduleSkelBuilder};
use crate::support::{failed, possible_cpus, require_tracepoints};
use cofferdam_types::CgroupId;
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, OpenObject, ProgramInput, libbpf_sys};
use std::mem::{MaybeUninit, offset_of, size_of};
use std::os::fd::AsFd;
use std::time::Duration;

/// First row of a container; smaller rows have other meanings.
pub const SCHEDULE_FIRST_CONTAINER_ROW: u32 = cf_sched_row_index::CF_SCHED_FIRST_CONTAINER.0;

/// Row of the host's own tasks.
pub const SCHEDULE_HOST_ROW: u32 = cf_sched_row_index::CF_SCHED_HOST.0;

/// Tracepoints of the diagnosis, and its programs in that order.
pub const SCHEDULE_TRACEPOINTS: [&str; 2] = ["sched_switch", "sched_migrate_task"];

/// Program that is attached to nothing.
const BEGIN: &str = "schedule_begin";

// SAFETY: these three are generated from C structs of integers, with explicit padding.
unsafe impl Plain for cf_sched_cell {}
// SAFETY: as above.
unsafe impl Plain for cf_sched_cpu {}
// SAFETY: as above.
unsafe impl Plain for cf_sched_window {}

/// Times of a container on one CPU since it got its row, nanoseconds. The open segment counts up to
/// the moment of the reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScheduleCell {
    /// Time in which its threads ran.
    pub run_ns: u64,
    /// Time in which its threads waited there while others ran.
    pub shared_ns: u64,
    /// Part of such waiting during which a CPU that it may use was idle.
    pub stranded_ns: u64,
    /// Time in which it had threads there and its quota had run out.
    pub throttled_ns: u64,
    /// Row behind which it waited most, with the weight of that finding.
    pub with: Option<(u32, u64)>,
}

/// Times of one CPU since load, nanoseconds, with the open segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScheduleCpu {
    /// False until a task was seen on it: the rest is unknown.
    pub seen: bool,
    /// Idle time.
    pub idle_ns: u64,
    /// Time of tasks of no container.
    pub host_ns: u64,
    /// Part of the idle time that followed the throttling of a container.
    pub left_idle_ns: u64,
    /// Number of segments whose end did not name the task with which they began.
    pub mismatches: u64,
    /// Number of segments of impossible length.
    pub rejected: u64,
}

/// One CPU with its cells.
#[derive(Clone, Debug, Default)]
pub struct ScheduleReading {
    /// Times of the CPU.
    pub cpu: ScheduleCpu,
    /// Times of its rows, in the order of rows.
    pub cells: Vec<ScheduleCell>,
}

/// Loaded programs. Dropping it detaches them and frees the maps.
pub struct SchedulePrograms {
    links: Vec<Link>,
    cells: MappedArray<cf_sched_cell>,
    cpu_states: MappedArray<cf_sched_cpu>,
    windows: MappedArray<cf_sched_window>,
    skeleton: ScheduleSkel<'static>,
    cpus: u32,
    rows: u32,
}

impl SchedulePrograms {
    /// Loads the programs, with room for `containers` containers.
    pub fn load(containers: u32) -> Result<SchedulePrograms, LoadError> {
        require_tracepoints(&SCHEDULE_TRACEPOINTS)?;
        let cpus = possible_cpus();
        let rows = SCHEDULE_FIRST_CONTAINER_ROW + containers;
        // The skeleton borrows this small block for its life; each load leaks one.
        let storage = Box::leak(Box::new(MaybeUninit::<OpenObject>::uninit()));
        let mut open = ScheduleSkelBuilder::default()
            .open(storage)
            .map_err(failed("open the diagnosis programs"))?;
        if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
            rodata.sched_rows = rows;
            rodata.sched_cpus = cpus;
        }
        let maps = &mut open.maps;
        for (map, entries) in [
            (&mut maps.sched_cpu_map, cpus),
            (&mut maps.sched_cell_map, cpus * rows),
            (&mut maps.sched_window_map, rows),
            (&mut maps.sched_cgroup_rows, containers.max(1) * 8),
        ] {
            map.set_max_entries(entries)
                .map_err(failed("size a map of the diagnosis"))?;
        }
        let skeleton = loading("load the diagnosis programs", || open.load())?;
        let cells = MappedArray::map(skeleton.maps.sched_cell_map.as_fd(), cpus * rows);
        let cpu_states = MappedArray::map(skeleton.maps.sched_cpu_map.as_fd(), cpus);
        let windows = MappedArray::map(skeleton.maps.sched_window_map.as_fd(), rows);
        Ok(SchedulePrograms {
            links: Vec::new(),
            cells: cells.map_err(LoadError::Map)?,
            cpu_states: cpu_states.map_err(LoadError::Map)?,
            windows: windows.map_err(LoadError::Map)?,
            skeleton,
            cpus,
            rows,
        })
    }

    /// Attaches or detaches the programs. When they are attached again, the CPUs restart from this
    /// moment; rows keep their counts.
    pub fn attach(&mut self, wanted: bool) -> Result<(), LoadError> {
        if wanted != self.links.is_empty() {
            return Ok(());
        }
        self.links.clear();
        if !wanted {
            return Ok(());
        }
        for cpu in 0..self.cpus {
            let cpus = &self.skeleton.maps.sched_cpu_map;
            let cleared = cpus.update(&cpu.to_ne_bytes(), &self.cleared(cpu), MapFlags::ANY);
            cleared.map_err(failed("clear a CPU's state"))?;
        }
        let attached = |program: &libbpf_rs::ProgramMut<'_>| program.name() != BEGIN;
        for program in self.skeleton.object_mut().progs_mut().filter(attached) {
            let link = program.attach();
            let link = link.map_err(failed("attach the diagnosis to the scheduler"))?;
            self.links.push(link);
        }
        self.await_clock();
        let begun = self.begin();
        if begun.is_err() {
            self.links.clear();
        }
        begun
    }

    /// Returns a CPU's state with only the clocks and the failures left.
    fn cleared(&self, cpu: u32) -> [u8; size_of::<cf_sched_cpu>()] {
        let mut bytes = [0; size_of::<cf_sched_cpu>()];
        if let Some(state) = self.cpu_states.read(cpu as usize) {
            for (at, value) in [
                (
                    offset_of!(cf_sched_cpu, clock_ahead_ns),
                    state.clock_ahead_ns,
                ),
                (offset_of!(cf_sched_cpu, clock_at_ns), state.clock_at_ns),
                (offset_of!(cf_sched_cpu, mismatches), state.mismatches),
                (offset_of!(cf_sched_cpu, rejected), state.rejected),
            ] {
                bytes[at..at + 8].copy_from_slice(&value.to_ne_bytes());
            }
        }
        bytes
    }

    /// Waits until a CPU has switched, so that open segments can be measured: this thread's CPU at
    /// the latest.
    fn await_clock(&self) {
        for _ in 0..100 {
            if self.scheduler_clock(0).is_some() {
                return;
            }
            std::thread::sleep(Duration::from_micros(100));
        }
    }

    /// Starts counting on each CPU now, and not at its next switch. An offline CPU refuses.
    fn begin(&self) -> Result<(), LoadError> {
        let begin = |cpu| {
            let program = &self.skeleton.progs.schedule_begin;
            program.test_run(ProgramInput {
                cpu,
                flags: libbpf_sys::BPF_F_TEST_RUN_ON_CPU,
                ..ProgramInput::default()
            })
        };
        let mut refused = None;
        let mut any = false;
        for cpu in 0..self.cpus {
            match begin(cpu) {
                Ok(_) => any = true,
                Err(e) => refused = Some(e),
            }
        }
        match refused {
            Some(e) if !any => Err(failed("see what runs on the CPUs")(e)),
            _ => Ok(()),
        }
    }

    /// Returns the number of CPUs for which memory was taken.
    pub fn cpus(&self) -> u32 {
        self.cpus
    }

    /// Returns the number of rows, including those of no container.
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// Assigns tasks of `cgroup` to `row`, once published.
    pub fn set_cgroup(&self, cgroup: CgroupId, row: u32) -> libbpf_rs::Result<()> {
        self.skeleton.maps.sched_cgroup_rows.update(
            &cgroup.0.to_ne_bytes(),
            &row.to_ne_bytes(),
            MapFlags::ANY,
        )
    }

    /// Forgets `cgroup`; an unknown one is no error.
    pub fn remove_cgroup(&self, cgroup: CgroupId) {
        let rows = &self.skeleton.maps.sched_cgroup_rows;
        let _ = rows.delete(&cgroup.0.to_ne_bytes());
    }

    /// Makes the programs look up all cgroups again. Call it once after a set of changes.
    pub fn publish(&mut self) {
        if let Some(data) = self.skeleton.maps.data_data.as_deref_mut() {
            data.sched_generation = data.sched_generation.wrapping_add(1);
        }
    }

    /// Sets a row to zero, for a new owner. No task may have this row any more.
    pub fn clear(&self, row: u32) -> libbpf_rs::Result<()> {
        let cell = [0; size_of::<cf_sched_cell>()];
        for cpu in 0..self.cpus {
            let key = (cpu * self.rows + row).to_ne_bytes();
            let cells = &self.skeleton.maps.sched_cell_map;
            cells.update(&key, &cell, MapFlags::ANY)?;
        }
        let window = [0; size_of::<cf_sched_window>()];
        let windows = &self.skeleton.maps.sched_window_map;
        windows.update(&row.to_ne_bytes(), &window, MapFlags::ANY)
    }

    /// Returns the waits of `row` that idle time of the same period could have avoided,
    /// nanoseconds.
    pub fn phantom_ns(&self, row: u32) -> u64 {
        self.windows.read(row as usize).map_or(0, |w| w.phantom_ns)
    }

    /// Reads CPU `cpu` and its first `rows` rows. `monotonic_ns` is CLOCK_MONOTONIC, for the open
    /// segment.
    pub fn read(&self, cpu: u32, rows: u32, monotonic_ns: u64) -> ScheduleReading {
        let now = self.scheduler_clock(monotonic_ns);
        for _ in 0..8 {
            let Some(state) = self.cpu_states.read(cpu as usize) else {
                break;
            };
            let reading = self.read_once(&state, cpu, rows, now);
            let after = self.cpu_states.read(cpu as usize);
            // No cut in between: state and cells belong together.
            if after.is_some_and(|s| s.began_at_ns == state.began_at_ns) {
                return reading;
            }
        }
        let state = self.cpu_states.read(cpu as usize);
        state.map_or_else(ScheduleReading::default, |state| {
            self.read_once(&state, cpu, rows, now)
        })
    }

    fn read_once(
        &self,
        s: &cf_sched_cpu,
        cpu: u32,
        rows: u32,
        now: Option<u64>,
    ) -> ScheduleReading {
        let seen = s.began_at_ns != 0;
        let since = |at: u64| now.filter(|_| seen).map_or(0, |now| now.saturating_sub(at));
        let open_ns = since(s.began_at_ns);
        let on = |row: u32| if s.row == row { open_ns } else { 0 };
        let idle_ns = on(0);
        let cells = (0..rows).map(|row| {
            let index = cpu as usize * self.rows as usize + row as usize;
            let Some(cell) = self.cells.read(index) else {
                return ScheduleCell::default();
            };
            // A stop before counting began has no meaning now.
            let off_ns = match s.row == row || cell.stopped_at_ns < s.counting_at_ns {
                true => 0,
                false => since(cell.stopped_at_ns),
            };
            ScheduleCell {
                run_ns: cell.run_ns + on(row),
                shared_ns: cell.shared_ns + if cell.stopped == 1 { off_ns } else { 0 },
                stranded_ns: cell.stranded_ns,
                throttled_ns: cell.throttled_ns + if cell.stopped == 2 { off_ns } else { 0 },
                with: (cell.with_ns > 0).then_some((cell.with_row, cell.with_ns)),
            }
        });
        ScheduleReading {
            cells: cells.collect(),
            cpu: ScheduleCpu {
                seen,
                idle_ns: s.idle_ns + idle_ns,
                host_ns: s.host_ns + on(1),
                left_idle_ns: s.left_idle_ns + if s.idle_row != 0 { idle_ns } else { 0 },
                mismatches: s.mismatches,
                rejected: s.rejected,
            },
        }
    }

    /// Returns the scheduler's clock at `monotonic_ns`, by the newest comparison of the clocks;
    /// `None` before the first one.
    fn scheduler_clock(&self, monotonic_ns: u64) -> Option<u64> {
        let notes = (0..self.cpus as usize).filter_map(|cpu| self.cpu_states.read(cpu));
        let youngest = notes.max_by_key(|s| s.clock_at_ns)?;
        (youngest.clock_at_ns != 0).then(|| monotonic_ns.wrapping_sub(youngest.clock_ahead_ns))
    }

    /// Reads the cost of each program.
    pub fn program_costs(&self) -> std::io::Result<Vec<ProgramCost>> {
        cost::program_costs(self.skeleton.object())
    }

    /// Returns the memory of all maps, bytes: taken at load, never more.
    pub fn memory_bytes(&self) -> u64 {
        cost::memory_bytes(self.skeleton.object())
    }
}
