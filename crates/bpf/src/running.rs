//! Counts of an accounting that another process runs: its maps, opened by their ids.
//!
//! Maps instead of a protocol, because that process may be a benchmark in the middle of a
//! measurement, which must not be disturbed. A reader keeps the maps alive, but not the programs:
//! these end with their owner, and [`RunningCounts::is_over`] detects that.

use crate::accounting::{AccountingPrograms, CpuReading};
use crate::ledger::{LedgerReader, RowReading};
use crate::pairs::{self, PairReading};
use crate::support::possible_cpus;
use cofferdam_types::CgroupId;
use libbpf_rs::query::{MapInfoIter, ProgInfoIter, ProgInfoQueryOptions, ProgramInfo};
use libbpf_rs::{MapCore, MapFlags, MapHandle, Program};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::AsFd;

/// Source of a reading.
pub trait Counts {
    /// Returns the number of CPUs for which memory was taken.
    fn cpus(&self) -> u32;
    /// Reads the counts of row `row` on CPU `cpu`; zero if out of range.
    fn row(&self, cpu: u32, row: u32) -> RowReading;
    /// Reads the measurements of CPU `cpu`.
    fn cpu_reading(&self, cpu: u32) -> libbpf_rs::Result<CpuReading>;
    /// Reads the packets between containers.
    fn pairs(&self) -> libbpf_rs::Result<Vec<PairReading>>;
}

impl Counts for AccountingPrograms {
    fn cpus(&self) -> u32 {
        AccountingPrograms::cpus(self)
    }

    fn row(&self, cpu: u32, row: u32) -> RowReading {
        self.ledger().read(cpu, row)
    }

    fn cpu_reading(&self, cpu: u32) -> libbpf_rs::Result<CpuReading> {
        AccountingPrograms::cpu_reading(self, cpu)
    }

    fn pairs(&self) -> libbpf_rs::Result<Vec<PairReading>> {
        AccountingPrograms::pairs(self)
    }
}

/// Maps of the accounting that runs on this host.
pub struct RunningCounts {
    cpus: MapHandle,
    cgroup_rows: MapHandle,
    pairs: MapHandle,
    ledger: LedgerReader,
    rows: u32,
    /// Id of one of the counting programs.
    program: u32,
}

impl RunningCounts {
    /// Opens the maps; `None` if no accounting runs.
    ///
    /// # Errors
    /// Missing rights (CAP_SYS_ADMIN), or maps of another version.
    pub fn open() -> io::Result<Option<RunningCounts>> {
        let Some((program, maps)) = find() else {
            return Ok(None);
        };
        let open = |name: &str| match maps.get(name) {
            Some(id) => MapHandle::from_map_id(*id).map(Some).map_err(other),
            None => Ok(None),
        };
        let (Some(cpus), Some(cgroup_rows), Some(ledger), Some(pairs)) = (
            open("cpus")?,
            open("cgroup_rows")?,
            open("ledger")?,
            open("pairs")?,
        ) else {
            return Ok(None);
        };
        let count = possible_cpus();
        let rows = ledger.max_entries() / count.max(1);
        Ok(Some(RunningCounts {
            ledger: LedgerReader::map(ledger.as_fd(), rows, count)?,
            cpus,
            cgroup_rows,
            pairs,
            rows,
            program,
        }))
    }

    /// Returns the number of rows of each CPU.
    pub fn rows(&self) -> u32 {
        self.rows
    }

    /// Returns the row that the programs' owner has assigned to a cgroup.
    pub fn row_of(&self, cgroup: CgroupId) -> Option<u32> {
        let value = self
            .cgroup_rows
            .lookup(&cgroup.0.to_ne_bytes(), MapFlags::ANY);
        let bytes = value.ok()??;
        Some(u32::from_ne_bytes(bytes.try_into().ok()?))
    }

    /// Whether the programs have ended, so that the counts no longer change.
    pub fn is_over(&self) -> bool {
        Program::fd_from_id(self.program).is_err()
    }
}

impl Counts for RunningCounts {
    fn cpus(&self) -> u32 {
        possible_cpus()
    }

    fn row(&self, cpu: u32, row: u32) -> RowReading {
        self.ledger.read(cpu, row)
    }

    fn cpu_reading(&self, cpu: u32) -> libbpf_rs::Result<CpuReading> {
        CpuReading::read(&self.cpus, cpu)
    }

    fn pairs(&self) -> libbpf_rs::Result<Vec<PairReading>> {
        pairs::read(&self.pairs)
    }
}

fn other(error: libbpf_rs::Error) -> io::Error {
    io::Error::other(error)
}

/// Finds the newest program that uses a map which only the accounting has. Returns it with the ids
/// of all maps of the programs that share that map, by name.
fn find() -> Option<(u32, BTreeMap<String, u32>)> {
    let named: BTreeMap<u32, String> = MapInfoIter::default()
        .map(|map| (map.id, map.name.to_string_lossy().into_owned()))
        .collect();
    let mark = named.iter().rev().find(|(_, name)| *name == "netns_rows");
    let mark = *mark?.0;
    let options = ProgInfoQueryOptions::default().include_map_ids(true);
    let uses_mark = |program: &ProgramInfo| program.map_ids.contains(&mark);
    let programs: Vec<ProgramInfo> = ProgInfoIter::with_query_opts(options)
        .filter(uses_mark)
        .collect();
    let newest = programs.iter().map(|program| program.id).max()?;
    let ids: BTreeSet<u32> = programs.into_iter().flat_map(|p| p.map_ids).collect();
    let maps = ids
        .into_iter()
        .filter_map(|id| Some((named.get(&id)?.clone(), id)))
        .collect();
    Some((newest, maps))
}
