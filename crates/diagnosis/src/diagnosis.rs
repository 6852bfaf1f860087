//! The running diagnosis: loads its BPF programs and reads their counters.

use crate::groups::{GroupFields, Groups};
use crate::reading::{ContainerCounts, DiagnosisReading};
use crate::rows::{Rows, Slot};
use crate::selection::diagnosed;
use crate::shares::{OnCpu, UnusedCpuTime};
use crate::{DiagnosisError, StartError};
use cofferdam_bpf::{
    EmptyProgram, ProgramCost, RuntimeStatistics, SCHEDULE_HOST_ROW, SchedulePrograms,
    ScheduleReading,
};
use cofferdam_host::{CgroupLayout, HostFs, online_cpus};
use cofferdam_types::{CgroupId, Container, CpuAmount, DiagnosisHealth, Neighbour, ScheduleTime};
use nix::time::{ClockId, clock_gettime};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

/// Settings of the diagnosis. All its memory is allocated at the start.
#[derive(Clone, Copy, Debug)]
pub struct DiagnosisOptions {
    /// Maximum number of containers at the same time; default 2048. Each takes 88 bytes per
    /// possible CPU.
    pub slots: u32,
    /// Whether the kernel measures the cost of each run of a BPF program. The measurement itself
    /// adds about 25 ns to a run.
    pub measure_programs: bool,
}

impl Default for DiagnosisOptions {
    fn default() -> Self {
        DiagnosisOptions {
            slots: 2048,
            measure_programs: false,
        }
    }
}

/// The running diagnosis. Dropping it, or [`Diagnosis::stop`], detaches its programs and leaves
/// nothing on the host.
pub struct Diagnosis {
    programs: SchedulePrograms,
    rows: Rows,
    groups: Groups,
    fs: HostFs,
    reserved: BTreeMap<CgroupId, CpuAmount>,
    statistics: Option<(RuntimeStatistics, EmptyProgram)>,
}

impl Diagnosis {
    /// Loads and attaches the programs. They know no container until the first
    /// [`Diagnosis::snapshot`].
    ///
    /// # Errors
    /// [`StartError::Unsupported`] if this host lacks a feature; the error names it.
    pub fn start(options: DiagnosisOptions) -> Result<Diagnosis, StartError> {
        let fs = HostFs::host();
        let layout = CgroupLayout::read(&fs)?;
        let statistics = match options.measure_programs {
            true => Some(measure_programs()?),
            false => None,
        };
        let mut programs = SchedulePrograms::load(options.slots)?;
        programs.attach(true)?;
        Ok(Diagnosis {
            rows: Rows::new(programs.rows()),
            programs,
            groups: Groups::new(HostFs::host(), layout),
            fs,
            reserved: BTreeMap::new(),
            statistics,
        })
    }

    /// Detaches the programs and frees their memory.
    pub fn stop(self) {}

    /// Attaches the programs, or detaches them for a while. While detached they cost nothing and
    /// count nothing. An interval must not span such a pause: start the next one with the first
    /// [`Diagnosis::snapshot`] after it.
    pub fn switch(&mut self, on: bool) -> Result<(), DiagnosisError> {
        let switched = self.programs.attach(on);
        switched.map_err(|e| DiagnosisError(e.to_string()))
    }

    /// Attaches the programs and reads the counters that the beginning of an interval needs.
    /// Weights, quotas and cpusets are read only at its end.
    pub fn begin(
        &mut self,
        containers: &[Arc<Container>],
    ) -> Result<DiagnosisReading, DiagnosisError> {
        // The programs must know the owners of the running tasks before they are attached.
        self.follow(containers)?;
        self.switch(true)?;
        self.read(containers, GroupFields::Usage)
    }

    /// Sets the CPUs that rules reserve. A container without a reservation is entitled to its
    /// weight's share.
    pub fn set_reserved(&mut self, reserved: BTreeMap<CgroupId, CpuAmount>) {
        self.reserved = reserved;
    }

    /// Passes the current `containers`, host cgroups included, to the programs.
    /// [`Diagnosis::snapshot`] does so too. A call on each change counts new containers from their
    /// first moment.
    pub fn follow(&mut self, containers: &[Arc<Container>]) -> Result<(), DiagnosisError> {
        let containers = diagnosed(containers);
        let updated = self.rows.follow(&mut self.programs, &containers);
        updated.map_err(|e| DiagnosisError(e.to_string()))
    }

    /// Reads all counters. Each container's counts begin when it was first tracked.
    pub fn snapshot(
        &mut self,
        containers: &[Arc<Container>],
    ) -> Result<DiagnosisReading, DiagnosisError> {
        self.read(containers, GroupFields::All)
    }

    fn read(
        &mut self,
        containers: &[Arc<Container>],
        fields: GroupFields,
    ) -> Result<DiagnosisReading, DiagnosisError> {
        self.follow(containers)?;
        for slot in self.rows.slots.values_mut().filter(|s| !s.same_path) {
            slot.same_path = self.groups.has_same_path(&slot.container);
        }
        let (monotonic, cpus) = self.read_cpus()?;
        let names: HashMap<u32, &str> = self
            .rows
            .slots
            .values()
            .map(|slot| (slot.row, slot.container.name.as_str()))
            .collect();
        let counted: Vec<ContainerCounts> = self
            .rows
            .slots
            .values()
            .map(|slot| self.count(slot, &cpus, &names))
            .collect();
        let levels = self.groups.read(counted.iter().map(|c| &c.path), fields);
        let sum = |field: fn(&ScheduleReading) -> u64| cpus.iter().map(field).sum();
        Ok(DiagnosisReading {
            monotonic,
            cpus: cpus.iter().filter(|c| c.cpu.seen).count(),
            online_cpus: online_cpus(&self.fs).map_or(cpus.len(), |online| online.len()),
            idle_ns: sum(|c| c.cpu.idle_ns),
            left_idle_ns: sum(|c| c.cpu.left_idle_ns),
            host_ns: sum(|c| c.cpu.host_ns),
            by_cpu: cpus
                .iter()
                .map(|c| UnusedCpuTime {
                    idle_ns: c.cpu.idle_ns,
                    host_ns: c.cpu.host_ns,
                })
                .collect(),
            containers: counted,
            levels,
            health: DiagnosisHealth {
                containers_without_slot: self.rows.without_slot,
                mismatches: sum(|c| c.cpu.mismatches),
                segments_rejected: sum(|c| c.cpu.rejected),
            },
        })
    }

    /// Reads all CPUs. Returns the readings and the moment of the read. A CPU's counters end at
    /// that moment, or later if it counted meanwhile; a read that was delayed is therefore retried.
    fn read_cpus(&self) -> Result<(Duration, Vec<ScheduleReading>), DiagnosisError> {
        let mut best = None;
        for _ in 0..TRIES {
            let monotonic = now()?;
            let ns = u64::try_from(monotonic.as_nanos()).unwrap_or(u64::MAX);
            let cpus = (0..self.programs.cpus()).map(|c| self.programs.read(c, self.rows.used, ns));
            let reading = (monotonic, cpus.collect());
            let took = now()?.saturating_sub(monotonic);
            if best.as_ref().is_none_or(|(least, _)| took < *least) {
                best = Some((took, reading));
            }
            if took <= SHORT_READING {
                break;
            }
        }
        best.map(|(_, reading)| reading)
            .ok_or_else(|| DiagnosisError("no CPU was read".to_owned()))
    }

    /// Cost of each program since the start. The runs are 0 unless
    /// [`DiagnosisOptions::measure_programs`] is set.
    pub fn program_costs(&self) -> Result<Vec<ProgramCost>, DiagnosisError> {
        let costs = self.programs.program_costs();
        costs.map_err(|e| DiagnosisError(e.to_string()))
    }

    /// Cost of a program that does nothing at each context switch, by the same statistics. Each
    /// cost in [`Diagnosis::program_costs`] contains it. `None` unless
    /// [`DiagnosisOptions::measure_programs`] is set.
    pub fn statistics_cost(&self) -> Result<Option<ProgramCost>, DiagnosisError> {
        let Some((_, empty)) = &self.statistics else {
            return Ok(None);
        };
        let cost = empty.cost();
        cost.map(Some).map_err(|e| DiagnosisError(e.to_string()))
    }

    /// Memory of the BPF maps, bytes; constant from the start.
    pub fn memory_bytes(&self) -> u64 {
        self.programs.memory_bytes()
    }

    fn count(
        &self,
        slot: &Slot,
        cpus: &[ScheduleReading],
        names: &HashMap<u32, &str>,
    ) -> ContainerCounts {
        let mut time = ScheduleTime::default();
        let mut votes: HashMap<u32, u64> = HashMap::new();
        for cell in cpus.iter().filter_map(|c| c.cells.get(slot.row as usize)) {
            time.run_ns += cell.run_ns;
            time.shared_ns += cell.shared_ns;
            time.phantom_ns += cell.stranded_ns;
            time.throttled_ns += cell.throttled_ns;
            if let Some((row, weight)) = cell.with {
                *votes.entry(row).or_default() += weight;
            }
        }
        // The programs count a wait as shared before they know whether idle time could have served
        // it.
        let phantom_ns = self.programs.phantom_ns(slot.row).min(time.shared_ns);
        time.shared_ns -= phantom_ns;
        time.phantom_ns += phantom_ns;
        let with = votes
            .into_iter()
            .max_by_key(|(row, weight)| (*weight, *row));
        let neighbour = with.and_then(|(row, _)| match row {
            SCHEDULE_HOST_ROW => Some(Neighbour::Host),
            row => names
                .get(&row)
                .map(|n| Neighbour::Container((*n).to_owned())),
        });
        ContainerCounts {
            container: Arc::clone(&slot.container),
            path: match slot.same_path {
                true => slot.container.cgroup_path.clone(),
                false => self.groups.other_path(&slot.container),
            },
            time,
            neighbour,
            by_cpu: on_cpus(slot.row, cpus),
            reserved: self.reserved.get(&slot.container.cgroup).copied(),
        }
    }
}

/// CPUs on which the container of `row` ran or waited.
fn on_cpus(row: u32, cpus: &[ScheduleReading]) -> Vec<OnCpu> {
    let on = |(cpu, reading): (u32, &ScheduleReading)| {
        let cell = reading.cells.get(row as usize)?;
        let waited_ns = cell.shared_ns + cell.stranded_ns;
        (cell.run_ns + waited_ns > 0).then_some(OnCpu {
            cpu,
            run_ns: cell.run_ns,
            waited_ns,
        })
    };
    (0..).zip(cpus).filter_map(on).collect()
}

fn measure_programs() -> Result<(RuntimeStatistics, EmptyProgram), StartError> {
    let failed = |e: &dyn std::fmt::Display| StartError::Failed(format!("BPF statistics: {e}"));
    let enabled = RuntimeStatistics::enable().map_err(|e| failed(&e))?;
    let empty = EmptyProgram::start_at_switches().map_err(|e| failed(&e))?;
    Ok((enabled, empty))
}

/// Most attempts at a reading that nothing delayed.
const TRIES: u32 = 8;
/// A reading of all CPUs that takes no longer was not delayed.
const SHORT_READING: Duration = Duration::from_micros(500);

fn now() -> Result<Duration, DiagnosisError> {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC)
        .map_err(|e| DiagnosisError(format!("CLOCK_MONOTONIC: {e}")))?;
    Ok(Duration::from(time))
}
