//! The CPUs of a host and what they share.

use crate::CpuId;
use serde::{Deserialize, Serialize};

/// One online logical CPU. `core`, `llc` and `node` are only compared for equality: two CPUs with
/// the same number share that thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogicalCpu {
    /// Number of the CPU.
    pub cpu: CpuId,
    /// Physical core; SMT siblings have the same.
    pub core: u32,
    /// Last-level cache.
    pub llc: u32,
    /// NUMA node.
    pub node: u32,
    /// Excluded from the scheduler's balancing at boot (`isolcpus=`) for another purpose, and
    /// therefore neither reserved nor shared.
    pub isolated: bool,
}

/// The online CPUs of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    /// In order of their numbers, each once.
    pub cpus: Vec<LogicalCpu>,
}

impl Topology {
    /// CPUs that may be assigned to containers: online and not isolated.
    pub fn usable(&self) -> impl Iterator<Item = &LogicalCpu> {
        self.cpus.iter().filter(|c| !c.isolated)
    }
}
