//! What a cgroup is promised: pure arithmetic on weights, quotas and cpusets.
//!
//! A cpu weight is a share of what the parent has, among the siblings that want CPU. So the
//! promise is what the group would get if it wanted all it could get, while its siblings want
//! what they used: weighted max-min fairness, level by level from the root, cut at each level
//! by the quota and the cpuset there. A sibling that uses less than its share leaves the rest
//! to the others; one that uses more is held to its share.

pub use cofferdam_types::fair_share as share;

use cofferdam_types::Entitlement;
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// One cgroup of the cpu controller.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Last part of its path.
    pub name: PathBuf,
    /// `cpu.weight` or `cpu.shares`; only ratios of siblings matter.
    pub weight: u64,
    /// Its quota, CPUs.
    pub quota_cpus: Option<f64>,
    /// CPUs that its cpuset allows.
    pub cpuset_cpus: Option<usize>,
    /// CPU time that it and all below it used, nanoseconds, cumulative.
    pub usage_ns: u64,
}

/// The children of one cgroup.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Level {
    /// What the parent used, nanoseconds, cumulative; `None` if unknown.
    pub usage_ns: Option<u64>,
    /// Weight of a task in the parent itself.
    pub task_weight: u64,
    /// The children.
    pub children: Vec<Group>,
}

/// The levels on the paths of all containers, by the parent's path.
pub type Levels = BTreeMap<PathBuf, Level>;

/// A share of the host, and what sets it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Promise {
    /// CPUs.
    pub cpus: f64,
    /// What sets it.
    pub by: Entitlement,
}

/// The promise to the group at `path`, from two readings `seconds` apart.
pub fn promise(
    path: &Path,
    before: &Levels,
    after: &Levels,
    seconds: f64,
    online_cpus: usize,
) -> Promise {
    let mut promise = Promise {
        cpus: online_cpus as f64,
        by: Entitlement::Weight,
    };
    let mut parent = PathBuf::from("/");
    for name in path.iter().skip(1) {
        let Some(level) = after.get(&parent) else {
            break;
        };
        let Some(own) = level.children.iter().find(|c| c.name.as_os_str() == name) else {
            break;
        };
        let others = demands(own, level, before.get(&parent), seconds);
        promise.cpus = share(promise.cpus, own.weight, &others);
        let caps = [
            (own.quota_cpus, Entitlement::Quota),
            (own.cpuset_cpus.map(|n| n as f64), Entitlement::Cpuset),
        ];
        for (cap, by) in caps {
            if let Some(cpus) = cap.filter(|cpus| *cpus < promise.cpus) {
                promise = Promise { cpus, by };
            }
        }
        parent.push(name);
    }
    promise
}

/// Weight and demand of all others at a level.
fn demands(own: &Group, level: &Level, before: Option<&Level>, seconds: f64) -> Vec<(u64, f64)> {
    let cpus = |ns: u64| ns as f64 / 1e9 / seconds.max(1e-9);
    // Names as they are written: taking paths apart costs more than all the rest of this, for
    // each container and each of its siblings.
    let old: HashMap<&OsStr, u64> = before
        .into_iter()
        .flat_map(|l| &l.children)
        .map(|c| (c.name.as_os_str(), c.usage_ns))
        .collect();
    let used: Vec<f64> = level
        .children
        .iter()
        .map(|c| {
            let before = old.get(c.name.as_os_str()).unwrap_or(&c.usage_ns);
            cpus(c.usage_ns.saturating_sub(*before))
        })
        .collect();
    let children = level.children.iter().zip(&used);
    let mut others: Vec<(u64, f64)> = children
        .filter(|(c, _)| c.name.as_os_str() != own.name.as_os_str())
        .map(|(c, used)| (c.weight, *used))
        .collect();
    // Tasks in the parent itself compete as well; how many is not known: they count as one.
    if let (Some(now), Some(old)) = (level.usage_ns, before.and_then(|b| b.usage_ns)) {
        let children: f64 = used.iter().sum();
        let rest = cpus(now.saturating_sub(old)) - children;
        if rest > 0.001 {
            others.push((level.task_weight, rest));
        }
    }
    others
}

#[cfg(test)]
mod tests;
