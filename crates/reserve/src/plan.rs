//! What goes into the planner besides topology and requests, and what comes out.

use cofferdam_types::{CgroupId, CpuAmount, CpuId};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// What the planner must leave alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// CPUs that stay for standard containers and the host; default 1.
    pub keep_cpus: u32,
}

impl Default for Options {
    fn default() -> Self {
        Options { keep_cpus: 1 }
    }
}

/// CPUs that containers are bound to by others than the planner: the cpusets of the cgroups above
/// them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// The CPUs that a request can be given; all usable ones where it is not listed.
    pub allowed: BTreeMap<CgroupId, BTreeSet<CpuId>>,
    /// Sets of which one CPU at least stays shared: each is all that some standard containers may
    /// run on. A set of all usable CPUs is no limit: [`Options::keep_cpus`] decides there.
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

    /// CPUs that `id` can be given; the largest number where nothing limits it.
    pub(crate) fn width(&self, id: CgroupId) -> usize {
        self.allowed.get(&id).map_or(usize::MAX, BTreeSet::len)
    }
}

/// Where one strict container runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    /// CPUs that are its own.
    pub own: BTreeSet<CpuId>,
    /// The CPU of its slice and the size of the slice in thousandths (1..=999).
    pub slice: Option<(CpuId, u32)>,
}

impl Placement {
    /// All CPUs it may run on: what its cpuset is set to.
    pub fn cpus(&self) -> BTreeSet<CpuId> {
        self.own
            .iter()
            .copied()
            .chain(self.slice.map(|(cpu, _)| cpu))
            .collect()
    }

    /// What it is promised, thousandths of a CPU.
    pub fn milli_cpus(&self) -> u32 {
        self.own.len() as u32 * 1000 + self.slice.map_or(0, |(_, milli)| milli)
    }
}

/// Who runs where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// The strict containers.
    pub placements: BTreeMap<CgroupId, Placement>,
    /// The CPUs of all others, including the host.
    pub shared: BTreeSet<CpuId>,
}

impl Plan {
    /// CPUs that belong to strict containers, whole or in slices.
    pub fn reserved(&self) -> BTreeSet<CpuId> {
        self.placements.values().flat_map(Placement::cpus).collect()
    }

    /// Containers that both plans have and that differ in their CPUs.
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

/// A request that the host cannot meet in addition to the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Impossible {
    /// Who asked.
    pub id: CgroupId,
    /// For how much.
    pub asked: CpuAmount,
    /// An amount that it would get, all else being equal; `None` when nothing is left.
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
    /// Each of them, in the order of the requests.
    pub impossible: Vec<Impossible>,
}

fn list(impossible: &[Impossible]) -> String {
    let each: Vec<String> = impossible.iter().map(Impossible::to_string).collect();
    each.join("; ")
}
