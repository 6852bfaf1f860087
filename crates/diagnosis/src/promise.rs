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

impl Group {
    /// A group of which only its name is known.
    pub fn named(name: PathBuf) -> Group {
        Group {
            name,
            weight: 0,
            quota_cpus: None,
            cpuset_cpus: None,
            usage_ns: 0,
        }
    }
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

/// What all groups are promised, from two readings. What the members of a level wanted is worked out
/// once per level: a container has a hundred siblings on some hosts.
pub struct Promises<'a> {
    wants: HashMap<&'a Path, Wants<'a>>,
    online_cpus: usize,
}

impl<'a> Promises<'a> {
    /// From readings `seconds` apart; of `before` only what was used counts.
    pub fn new(
        before: &Levels,
        after: &'a Levels,
        seconds: f64,
        online_cpus: usize,
    ) -> Promises<'a> {
        let wants = after.iter().map(|(parent, level)| {
            let wants = Wants::new(level, before.get(parent), seconds);
            (parent.as_path(), wants)
        });
        Promises {
            wants: wants.collect(),
            online_cpus,
        }
    }

    /// The promise to the group at `path`.
    pub fn of(&self, path: &Path) -> Promise {
        let mut promise = Promise {
            cpus: self.online_cpus as f64,
            by: Entitlement::Weight,
        };
        let mut parent = PathBuf::from("/");
        for name in path.iter().skip(1) {
            let Some(wants) = self.wants.get(parent.as_path()) else {
                break;
            };
            let Some(own) = wants.of_children.get(name) else {
                break;
            };
            promise.cpus = share(promise.cpus, own.weight, &wants.beside(name));
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
}

/// What the members of one level wanted.
struct Wants<'a> {
    of_children: HashMap<&'a OsStr, &'a Group>,
    /// Weight and demand of each child and of the tasks in the parent, which have no name, those that
    /// want least for their weight first: [`share`] need not sort them.
    all: Vec<(Option<&'a OsStr>, u64, f64)>,
}

impl<'a> Wants<'a> {
    fn new(level: &'a Level, before: Option<&Level>, seconds: f64) -> Wants<'a> {
        let cpus = |ns: u64| ns as f64 / 1e9 / seconds.max(1e-9);
        // Names as they are written: taking paths apart costs more than all the rest of this.
        let name = |child: &'a Group| child.name.as_os_str();
        let old: HashMap<&OsStr, u64> = before
            .into_iter()
            .flat_map(|level| &level.children)
            .map(|c| (c.name.as_os_str(), c.usage_ns))
            .collect();
        let wanted = level.children.iter().map(|c| {
            let before = old.get(name(c)).unwrap_or(&c.usage_ns);
            let used = cpus(c.usage_ns.saturating_sub(*before));
            (Some(name(c)), c.weight, used)
        });
        let mut all: Vec<_> = wanted.collect();
        // Tasks in the parent itself compete as well; how many is not known: they count as one.
        if let (Some(now), Some(old)) = (level.usage_ns, before.and_then(|b| b.usage_ns)) {
            let children: f64 = all.iter().map(|(_, _, used)| used).sum();
            let rest = cpus(now.saturating_sub(old)) - children;
            if rest > 0.001 {
                all.push((None, level.task_weight, rest));
            }
        }
        let relative = |(_, weight, used): &(_, u64, f64)| used / (*weight).max(1) as f64;
        all.sort_by(|a, b| relative(a).total_cmp(&relative(b)));
        Wants {
            of_children: level.children.iter().map(|c| (name(c), c)).collect(),
            all,
        }
    }

    /// Weight and demand of all but the child `own`.
    fn beside(&self, own: &OsStr) -> Vec<(u64, f64)> {
        let others = self.all.iter().filter(|(name, ..)| *name != Some(own));
        others.map(|(_, weight, used)| (*weight, *used)).collect()
    }
}

#[cfg(test)]
mod tests;
