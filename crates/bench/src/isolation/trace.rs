//! Resource use of tenants by BPF, in addition to the files of their cgroups: resident memory by
//! the tracepoint rss_stat, and requests that devices completed. Packets are read from the counters
//! of the tenant's interface: a program for each packet cost a noticeable part of a CPU in a flood.

use super::cgroups::TenantCgroups;
use crate::error::BenchError;
use crate::isolation::data::TracedPoint;
use cofferdam_bpf::{RuntimeStatistics, TenantCounter, TenantPrograms, TenantWatch};
use cofferdam_types::CgroupId;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Loaded programs. The kernel counts their run time while they are loaded.
pub(super) struct Tracer {
    programs: TenantPrograms,
    _statistics: RuntimeStatistics,
}

impl Tracer {
    /// Loads the programs.
    pub fn start() -> Result<Tracer, BenchError> {
        let lacks = |e: &dyn std::fmt::Display| BenchError::Unsupported(e.to_string());
        Ok(Tracer {
            programs: TenantPrograms::load().map_err(|e| lacks(&e))?,
            _statistics: RuntimeStatistics::enable().map_err(|e| lacks(&e))?,
        })
    }

    /// Watches the tenant whose cgroups are `places`.
    pub fn watch(&mut self, places: &TenantCgroups) -> Result<TenantWatch, BenchError> {
        let lacks = |e: &dyn std::fmt::Display| BenchError::Unsupported(e.to_string());
        let tasks = places.v2.as_deref().ok_or_else(|| lacks(&"no cgroup v2"))?;
        let id = |dir: &Path| dir.metadata().map(|m| CgroupId(m.ino())).ok();
        let own = id(tasks).ok_or_else(|| lacks(&"its cgroup is gone"))?;
        let blocks = places.blkio.as_deref().map_or(Some(own), id);
        let watch = self.programs.watch(own, blocks);
        watch.map_err(|e| lacks(&e))
    }

    /// Run time of the programs since they were loaded, nanoseconds.
    pub fn run_time_ns(&self) -> u64 {
        let costs = self.programs.program_costs().unwrap_or_default();
        costs.iter().map(|cost| cost.run_time_ns).sum()
    }
}

/// Reading of a counter in the data's form.
pub(super) fn traced_point(counter: &TenantCounter) -> TracedPoint {
    let now = counter.read();
    TracedPoint {
        rss_bytes: now.rss_bytes,
        device_ops: now.device_ops,
        device_bytes: now.device_bytes,
    }
}

/// Difference to `first`. Memory is a level and has no difference.
pub(super) fn since(now: &TracedPoint, first: &TracedPoint) -> TracedPoint {
    TracedPoint {
        rss_bytes: now.rss_bytes,
        device_ops: now.device_ops.saturating_sub(first.device_ops),
        device_bytes: now.device_bytes.saturating_sub(first.device_bytes),
    }
}
