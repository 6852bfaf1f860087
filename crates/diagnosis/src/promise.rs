//! CPU time that a cgroup is promised: pure arithmetic on weights, quotas and cpusets.
//!
//! A cpu weight is a share of the parent's CPU time among the siblings that want to run. The
//! promise is therefore the time that the group would get if it wanted all it could get, while each
//! sibling wants what it used. That is weighted max-min fairness, level by level from the
//! root, cut at each level by the quota and the cpuset there. A sibling that uses less than its
//! share leaves the rest to the others. One that used more counts with its share.

pub use cofferdam_types::fair_share as share;

use cofferdam_types::Entitlement;
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// One cgroup of the cpu controller.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Last component of its path.
    pub name: PathBuf,
    /// `cpu.weight` or `cpu.shares`; only the ratios of siblings matter.
    pub weight: u64,
    /// Quota, CPUs.
    pub quota_cpus: Option<f64>,
    /// Number of CPUs that the cpuset allows.
    pub cpuset_cpus: Option<usize>,
    /// Cumulative CPU time of the group and all below it, nanoseconds.
    pub usage_ns: u64,
}

impl Group {
    /// Returns a group that has only a name.
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
    /// Cumulative CPU time of the parent, nanoseconds; `None` if unknown.
    pub usage_ns: Option<u64>,
    /// Weight of a task that is in the parent itself.
    pub task_weight: u64,
    /// Child groups.
    pub children: Vec<Group>,
}

/// Levels on the paths of all containers, by the parent's path.
pub type Levels = BTreeMap<PathBuf, Level>;

/// Share of the host, and the setting that determines it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Promise {
    /// Amount, CPUs.
    pub cpus: f64,
    /// Setting that determines the amount.
    pub by: Entitlement,
}

/// Promises to all groups, from two readings. The demand of a level's members is computed once per
/// level: some hosts have a hundred containers in one.
pub struct Promises<'a> {
    wants: HashMap<&'a Path, Wants<'a>>,
    online_cpus: usize,
}

impl<'a> Promises<'a> {
    /// Computes the demand from readings that are `seconds` apart. Only the usage of `before`
    /// counts.
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

    /// Promise to the group at `path`.
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
            promise.cpus = share(promise.cpus, own.weight, &wants.all_but(name));
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

/// Demand of the members of one level.
struct Wants<'a> {
    of_children: HashMap<&'a OsStr, &'a Group>,
    /// Weight and demand of each child and, without a name, of the tasks in the parent. Sorted by
    /// demand per weight, so that [`share`] need not sort.
    all: Vec<(Option<&'a OsStr>, u64, f64)>,
}

impl<'a> Wants<'a> {
    fn new(level: &'a Level, before: Option<&Level>, seconds: f64) -> Wants<'a> {
        let cpus = |ns: u64| ns as f64 / 1e9 / seconds.max(1e-9);
        // Names stay unparsed: splitting paths would cost more than the rest of this function.
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
        // Tasks in the parent compete too. Their number is unknown: they count as one.
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

    /// Weight and demand of all members but the child `own`.
    fn all_but(&self, own: &OsStr) -> Vec<(u64, f64)> {
        let others = self.all.iter().filter(|(name, ..)| *name != Some(own));
        others.map(|(_, weight, used)| (*weight, *used)).collect()
    }
}

#[cfg(test)]
mod tests;
