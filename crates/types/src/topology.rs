//! The CPUs of a host and what they share.

use crate::CpuId;
use serde::{Deserialize, Serialize};

/// One online logical CPU. `core`, `llc` and `node` are only compared with each other: equal
/// numbers mean that two CPUs share that thing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogicalCpu {
    /// Its number.
    pub cpu: CpuId,
    /// The physical core: its SMT siblings have the same.
    pub core: u32,
    /// The last-level cache.
    pub llc: u32,
    /// The NUMA node.
    pub node: u32,
    /// Excluded from the scheduler's balancing at boot (`isolcpus=`) for another purpose, so it is
    /// neither reserved nor shared.
    pub isolated: bool,
}

/// The online CPUs of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    /// In order of their numbers, each once.
    pub cpus: Vec<LogicalCpu>,
}

impl Topology {
    /// The CPUs that containers may be given: online and not isolated.
    pub fn usable(&self) -> impl Iterator<Item = &LogicalCpu> {
        self.cpus.iter().filter(|c| !c.isolated)
    }
}
