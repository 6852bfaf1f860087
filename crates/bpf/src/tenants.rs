//! BPF programs of the isolation benchmark: they count the memory and the block I/O of each
//! tenant's cgroup.

use crate::cost::{self, ProgramCost};
use crate::load::{LoadError, loading};
use crate::mapped::{MappedArray, Plain};
use crate::skeleton::tenants_types::cf_tenant;
use crate::skeleton::{TenantsSkel, TenantsSkelBuilder};
use crate::support::{failed, possible_cpus, require_tracepoints};
use cofferdam_types::CgroupId;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, OpenObject};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::sync::Arc;

/// Largest number of tenants that one [`TenantPrograms`] watches in its life. Rows are not reused,
/// and at most 64 tenants fit the maps at a time.
const ROWS: u32 = 256;
/// Tracepoints without which the programs cannot count.
const TRACEPOINTS: [&str; 2] = ["rss_stat", "block_rq_complete"];
/// Number of kinds of resident pages: file, anonymous, shared.
const RESIDENT_KINDS: i64 = 3;

// SAFETY: generated from a C struct of integers without padding.
unsafe impl Plain for cf_tenant {}

/// Resources that a tenant used since it was first watched; memory is the current value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TenantReading {
    /// Resident memory of its processes, with file and shared pages. Processes that have not
    /// changed theirs since the tenant was watched are missing. Exact to 32 pages (more with many
    /// CPUs) per CPU and process.
    pub rss_bytes: u64,
    /// Requests that devices completed.
    pub device_ops: u64,
    /// Bytes of those requests.
    pub device_bytes: u64,
    /// Address spaces for which the table was full; they are missing in `rss_bytes`.
    pub untracked: u64,
}

/// Loaded and attached programs. Dropping it detaches them and frees the maps.
pub struct TenantPrograms {
    totals: Arc<MappedArray<cf_tenant>>,
    next_row: u32,
    skeleton: TenantsSkel<'static>,
    _links: Vec<Link>,
}

/// Watches one tenant until it is dropped.
pub struct TenantWatch {
    counter: TenantCounter,
    _entries: MapEntries,
}

/// Entries of maps by cgroup id, removed when dropped.
#[derive(Default)]
struct MapEntries(Vec<(MapHandle, u64)>);

/// Reader of one tenant's counters, without a system call.
#[derive(Clone)]
pub struct TenantCounter {
    totals: Arc<MappedArray<cf_tenant>>,
    row: u32,
    page_bytes: u64,
}

impl TenantPrograms {
    /// Loads and attaches the programs; no tenant is watched yet.
    pub fn load() -> Result<TenantPrograms, LoadError> {
        require_tracepoints(&TRACEPOINTS)?;
        // The skeleton borrows this small block for its life; each load leaks one.
        let storage = Box::leak(Box::new(MaybeUninit::<OpenObject>::uninit()));
        let mut open = TenantsSkelBuilder::default()
            .open(storage)
            .map_err(failed("open the tenants' programs"))?;
        if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
            let cpus = i64::from(possible_cpus());
            // percpu_counter_batch of lib/percpu_counter.c.
            rodata.slack_pages = RESIDENT_KINDS * cpus * (2 * cpus).max(32);
        }
        open.maps
            .tenant_totals
            .set_max_entries(ROWS)
            .map_err(failed("size a map of the tenants' programs"))?;
        let skeleton = loading("load the tenants' programs", || open.load())?;
        let attach = failed("attach the tenants' programs");
        let links = skeleton.progs.tenant_rss.attach();
        let links = links.and_then(|rss| Ok(vec![rss, skeleton.progs.tenant_block.attach()?]));
        let links = links.map_err(attach)?;
        let totals = MappedArray::map(skeleton.maps.tenant_totals.as_fd(), ROWS);
        Ok(TenantPrograms {
            totals: Arc::new(totals.map_err(LoadError::Map)?),
            next_row: 0,
            skeleton,
            _links: links,
        })
    }

    /// Watches the tenant whose tasks are in the v2 cgroup `tasks` and whose I/O is charged to the
    /// cgroup `blocks`. On hybrid hosts `blocks` is a cgroup of v1's blkio.
    pub fn watch(
        &mut self,
        tasks: CgroupId,
        blocks: Option<CgroupId>,
    ) -> Result<TenantWatch, LoadError> {
        let row = self.next_row;
        if row == ROWS {
            return Err(LoadError::Map(io::Error::other(
                "more tenants than one load has rows for",
            )));
        }
        // A failure also takes the row: the programs may have counted in it.
        self.next_row += 1;
        let maps = &self.skeleton.maps;
        let mut entries = MapEntries::default();
        for (map, id) in [
            (&maps.tenant_tasks, Some(tasks)),
            (&maps.tenant_blocks, blocks),
        ] {
            let Some(CgroupId(id)) = id else { continue };
            MapHandle::try_from(map)
                .and_then(|map| entries.insert(map, id, row))
                .map_err(failed("name a tenant's cgroup"))?;
        }
        Ok(TenantWatch {
            counter: TenantCounter {
                totals: self.totals.clone(),
                row,
                page_bytes: page_bytes(),
            },
            _entries: entries,
        })
    }

    /// Reads the cost of each program.
    pub fn program_costs(&self) -> io::Result<Vec<ProgramCost>> {
        use libbpf_rs::skel::Skel;
        cost::program_costs(self.skeleton.object())
    }
}

impl TenantWatch {
    /// Returns a reader of its counters, which works in any thread.
    pub fn counter(&self) -> TenantCounter {
        self.counter.clone()
    }
}

impl MapEntries {
    /// Sets the row of the cgroup `id` in `map`.
    fn insert(&mut self, map: MapHandle, id: u64, row: u32) -> libbpf_rs::Result<()> {
        map.update(&id.to_ne_bytes(), &row.to_ne_bytes(), MapFlags::ANY)?;
        self.0.push((map, id));
        Ok(())
    }
}

impl Drop for MapEntries {
    fn drop(&mut self) {
        for (map, id) in &self.0 {
            // Fails only if the entry is gone already.
            let _gone = map.delete(&id.to_ne_bytes());
        }
    }
}

impl TenantCounter {
    /// Reads the counters.
    pub fn read(&self) -> TenantReading {
        let total = self.totals.read(self.row as usize);
        let total = total.unwrap_or(cf_tenant {
            rss_pages: 0,
            device_ops: 0,
            device_bytes: 0,
            untracked_mms: 0,
        });
        TenantReading {
            rss_bytes: u64::try_from(total.rss_pages).unwrap_or(0) * self.page_bytes,
            device_ops: total.device_ops,
            device_bytes: total.device_bytes,
            untracked: total.untracked_mms,
        }
    }
}

fn page_bytes() -> u64 {
    // SAFETY: takes no pointer and cannot fail for this name.
    let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    u64::try_from(bytes).unwrap_or(4096)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_that_fails_leaves_no_entry() {
        let mut programs = TenantPrograms::load().unwrap();
        let blocks = MapHandle::try_from(&programs.skeleton.maps.tenant_blocks).unwrap();
        let (mut filled, mut id) = (MapEntries::default(), 1_000_000);
        // Until the map is full.
        while filled
            .insert(MapHandle::try_from(&blocks).unwrap(), id, 0)
            .is_ok()
        {
            id += 1;
        }
        assert!(programs.watch(CgroupId(1), Some(CgroupId(2))).is_err());
        let has_tasks = |programs: &TenantPrograms| {
            let tasks = &programs.skeleton.maps.tenant_tasks;
            let found = tasks.lookup(&1_u64.to_ne_bytes(), MapFlags::ANY);
            found.unwrap().is_some()
        };
        assert!(!has_tasks(&programs));
        drop(filled);
        let watch = programs.watch(CgroupId(1), Some(CgroupId(2))).unwrap();
        assert!(has_tasks(&programs));
        drop(watch);
        assert!(!has_tasks(&programs));
    }
}
