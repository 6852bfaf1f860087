//! Input of the planner besides topology and requests, and its output.

use cofferdam_types::{CgroupId, CpuAmount, CpuId};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// CPUs that the planner leaves alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanOptions {
    /// Number of CPUs that stay for standard containers and the host; default 1.
    pub keep_cpus: u32,
}

impl Default for PlanOptions {
    fn default() -> Self {
        PlanOptions { keep_cpus: 1 }
    }
}

/// Limits that the cpusets of the cgroups above set to containers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// CPUs that a request can be given; all usable ones if it is not listed.
    pub allowed: BTreeMap<CgroupId, BTreeSet<CpuId>>,
    /// Sets in which at least one CPU stays shared: each contains all CPUs of some standard
    /// containers. A set of all usable CPUs is no limit; [`PlanOptions::keep_cpus`] decides then.
    pub shared: Vec<BTreeSet<CpuId>>,
}

impl Limits {
    pub(crate) fn allow(&self, id: CgroupId, cpu: CpuId) -> bool {
        let allowed = self.allowed.get(&id);
        allowed.is_none_or(|cpus| cpus.contains(&cpu))
    }

    /// Whether `id` can be given any CPU.
    pub(crate) fn is_none_for(&self, id: CgroupId) -> bool {
        self.shared.is_empty() && !self.allowed.contains_key(&id)
    }

    /// Number of CPUs that `id` can be given; the largest number without a limit.
    pub(crate) fn width(&self, id: CgroupId) -> usize {
        self.allowed.get(&id).map_or(usize::MAX, BTreeSet::len)
    }
}

/// CPUs of one strict container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// CPUs that belong to it alone.
    pub own: BTreeSet<CpuId>,
    /// CPU of its slice, and the size of the slice in thousandths (1..=999).
    pub slice: Option<(CpuId, u32)>,
}

impl Placement {
    /// All CPUs that it may run on: the value of its cpuset.
    pub fn cpus(&self) -> BTreeSet<CpuId> {
        self.own
            .iter()
            .copied()
            .chain(self.slice.map(|(cpu, _)| cpu))
            .collect()
    }

    /// Promised CPU time, thousandths of a CPU.
    pub fn milli_cpus(&self) -> u32 {
        self.own.len() as u32 * 1000 + self.slice.map_or(0, |(_, milli)| milli)
    }
}

/// CPUs of all strict containers, and the shared ones.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// CPUs of the strict containers.
    pub placements: BTreeMap<CgroupId, Placement>,
    /// CPUs of all other containers and the host.
    pub shared: BTreeSet<CpuId>,
}

impl Plan {
    /// CPUs of strict containers, whole or in slices.
    pub fn reserved(&self) -> BTreeSet<CpuId> {
        self.placements.values().flat_map(Placement::cpus).collect()
    }

    /// Containers in both plans whose CPUs differ.
    pub fn moved_since(&self, previous: &Plan) -> Vec<CgroupId> {
        self.placements
            .iter()
            .filter(|(id, now)| {
                previous
                    .placements
                    .get(id)
                    .is_some_and(|old| old.cpus() != now.cpus())
            })
            .map(|(id, _)| *id)
            .collect()
    }
}

/// Request that the host cannot meet in addition to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Impossible {
    /// Container of the request.
    pub id: CgroupId,
    /// Requested CPUs.
    pub asked: CpuAmount,
    /// Amount that would fit, all else being equal; `None` if nothing is left.
    pub fits: Option<CpuAmount>,
}

impl fmt::Display for Impossible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} CPUs for container {}: ", self.asked, self.id)?;
        match self.fits {
            Some(fits) => write!(f, "{fits} would fit"),
            None => f.write_str("no CPU is left"),
        }
    }
}

/// Some requests cannot be met.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this host cannot reserve {}", list(.impossible))]
pub struct PlanError {
    /// Impossible requests, in the order of the requests.
    pub impossible: Vec<Impossible>,
}

fn list(impossible: &[Impossible]) -> String {
    let each: Vec<String> = impossible.iter().map(Impossible::to_string).collect();
    each.join("; ")
}
