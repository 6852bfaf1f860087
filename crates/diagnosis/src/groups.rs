//! Reader of the cpu cgroups on the containers' paths, and of their siblings.

use crate::files::Files;
use crate::promise::{Group, Level, Levels};
use cofferdam_host::{CgroupLayout, Controller, CpuUsageFile, HostFs, parse};
use cofferdam_types::Container;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Weight of a task, and of a group without a weight, in cgroup v1.
const SHARES: u64 = 1024;
/// Weight of both in cgroup v2.
const WEIGHT: u64 = 100;
/// Readings after which the settings of a group that used no CPU are read again. Reading them each
/// time takes half the time of a reading of many idle containers.
const CACHED_ROUNDS: u64 = 10;

/// Fields of the groups that a reading needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GroupFields {
    /// Usage alone: enough for the beginning of an interval.
    Usage,
    /// Weights, quotas and cpusets as well.
    All,
}

/// Weight, quota and cpuset of a group.
#[derive(Clone, Copy, Debug)]
struct Settings {
    weight: u64,
    quota_cpus: Option<f64>,
    cpuset_cpus: Option<usize>,
}

/// Settings of a group as they were last read.
#[derive(Debug)]
struct CachedSettings {
    settings: Settings,
    /// Usage at that reading.
    usage_ns: Option<u64>,
    read_in: u64,
    requested_in: u64,
}

/// Reader of the cpu controller, v1 or v2.
pub(crate) struct Groups {
    fs: HostFs,
    layout: CgroupLayout,
    files: Files,
    v1: bool,
    cpu: PathBuf,
    usage: PathBuf,
    cpuset: Option<PathBuf>,
    cached: HashMap<PathBuf, CachedSettings>,
    /// Complete readings so far.
    round: u64,
}

impl Groups {
    pub(crate) fn new(fs: HostFs, layout: CgroupLayout) -> Groups {
        let v2 = || (false, layout.v2_mount.clone());
        let (v1, cpu) = match layout.controller("cpu") {
            Some(Controller::V1(mount)) => (true, mount.to_owned()),
            Some(Controller::V2(_)) | None => v2(),
        };
        let usage = layout.v1_mounts.get("cpuacct").filter(|_| v1);
        let usage = usage.cloned().unwrap_or_else(|| cpu.clone());
        let cpuset = match layout.controller("cpuset") {
            Some(Controller::V1(mount) | Controller::V2(mount)) => Some(mount.to_owned()),
            None => None,
        };
        Groups {
            fs,
            layout,
            files: Files::default(),
            v1,
            cpu,
            usage,
            cpuset,
            cached: HashMap::new(),
            round: 0,
        }
    }

    /// Whether the container's cgroup has the same path in the hierarchy of the cpu controller.
    pub(crate) fn has_same_path(&self, container: &Container) -> bool {
        !self.v1 || self.fs.exists(below(&self.cpu, &container.cgroup_path))
    }

    /// Path of the container's cgroup in the hierarchy of the cpu controller, if it differs.
    pub(crate) fn other_path(&self, container: &Container) -> PathBuf {
        let text = container
            .pid
            .and_then(|pid| self.fs.read_text(format!("/proc/{pid}/cgroup")).ok());
        text.and_then(|text| parse::proc_cgroup_v1(&text, "cpu"))
            .unwrap_or_else(|| PathBuf::from("/"))
    }

    /// Reads the levels above and around `paths`.
    pub(crate) fn read<'a>(
        &mut self,
        paths: impl Iterator<Item = &'a PathBuf>,
        fields: GroupFields,
    ) -> Levels {
        let mut levels = Levels::new();
        for path in paths {
            for parent in path.ancestors().skip(1) {
                if !levels.contains_key(parent) {
                    let level = self.level(parent, fields);
                    levels.insert(parent.to_owned(), level);
                }
            }
        }
        self.files.end_round();
        if fields == GroupFields::All {
            let round = self.round;
            self.cached.retain(|_, cached| cached.requested_in == round);
            self.round += 1;
        }
        levels
    }

    fn level(&mut self, parent: &Path, fields: GroupFields) -> Level {
        let names = self.fs.directories(below(&self.cpu, parent));
        let mut children = Vec::new();
        for name in names.unwrap_or_default() {
            let path = parent.join(&name);
            let usage_ns = self.usage_ns(&path);
            let mut child = Group {
                usage_ns: usage_ns.unwrap_or(0),
                ..Group::named(name)
            };
            if fields == GroupFields::All {
                let settings = self.settings(path, usage_ns);
                child.weight = settings.weight;
                child.quota_cpus = settings.quota_cpus;
                child.cpuset_cpus = settings.cpuset_cpus;
            }
            children.push(child);
        }
        Level {
            usage_ns: self.usage_ns(parent),
            task_weight: if self.v1 { SHARES } else { WEIGHT },
            children,
        }
    }

    /// Settings of the group at `path`, read again if the group has used CPU since. The settings of
    /// an idle group affect nobody.
    fn settings(&mut self, path: PathBuf, usage_ns: Option<u64>) -> Settings {
        let round = self.round;
        if let Some(cached) = self.cached.get_mut(&path)
            && cached.usage_ns == usage_ns
            && round < cached.read_in + CACHED_ROUNDS
        {
            cached.requested_in = round;
            return cached.settings;
        }
        let (weight, quota_cpus) = match self.v1 {
            true => self.v1(&path),
            false => self.v2(&path),
        };
        let settings = Settings {
            weight,
            quota_cpus,
            cpuset_cpus: self.cpuset(&path),
        };
        let cached = CachedSettings {
            settings,
            usage_ns,
            read_in: round,
            requested_in: round,
        };
        self.cached.insert(path, cached);
        settings
    }

    fn v1(&mut self, path: &Path) -> (u64, Option<f64>) {
        let number = |text: Option<String>| text.and_then(|t| t.trim().parse::<i64>().ok());
        let shares = number(self.file(path, "cpu.shares"));
        let quota = number(self.file(path, "cpu.cfs_quota_us")).filter(|us| *us > 0);
        // The period has no meaning without a quota.
        let period = quota.and_then(|_| number(self.file(path, "cpu.cfs_period_us")));
        let cpus = quota.zip(period.filter(|us| *us > 0));
        (
            shares.and_then(|n| u64::try_from(n).ok()).unwrap_or(SHARES),
            cpus.map(|(quota, period)| quota as f64 / period as f64),
        )
    }

    fn v2(&mut self, path: &Path) -> (u64, Option<f64>) {
        let weight = self.file(path, "cpu.weight");
        let max = self.file(path, "cpu.max");
        (
            weight.and_then(|t| t.trim().parse().ok()).unwrap_or(WEIGHT),
            max.and_then(|text| cpu_max(&text)),
        )
    }

    fn file(&mut self, path: &Path, name: &str) -> Option<String> {
        let file = below(&self.cpu, path).join(name);
        self.files.text(&self.fs, file)
    }

    fn cpuset(&mut self, path: &Path) -> Option<usize> {
        let v1 = self.layout.v1_mounts.contains_key("cpuset");
        let name = if v1 {
            "cpuset.effective_cpus"
        } else {
            "cpuset.cpus.effective"
        };
        let file = below(self.cpuset.as_ref()?, path).join(name);
        let cpus = parse::cpu_list(&self.files.text(&self.fs, file)?)?;
        (!cpus.is_empty()).then_some(cpus.len())
    }

    fn usage_ns(&mut self, path: &Path) -> Option<u64> {
        let file = if self.v1 {
            CpuUsageFile::V1
        } else {
            CpuUsageFile::V2
        };
        let path = below(&self.usage, path).join(file.name());
        file.parse_ns(&self.files.text(&self.fs, path)?)
    }
}

fn below(mount: &Path, path: &Path) -> PathBuf {
    mount.join(path.strip_prefix("/").unwrap_or(path))
}

/// CPUs of a `cpu.max` such as `50000 100000`; `None` for `max`.
fn cpu_max(text: &str) -> Option<f64> {
    let mut words = text.split_whitespace();
    let quota: f64 = words.next()?.parse().ok()?;
    let period: f64 = words.next()?.parse().ok()?;
    (quota > 0.0 && period > 0.0).then_some(quota / period)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A running group's settings are read at once, an idle group's some rounds later. A new cgroup
    /// at the same path has another usage, so it is read at once.
    /// Promise 10.
    #[test]
    fn settings_of_a_group_that_ran_are_read_again() {
        let root = tempfile::tempdir().unwrap();
        let group = root.path().join("cg/job");
        std::fs::create_dir_all(&group).unwrap();
        let layout = CgroupLayout {
            v2_mount: "/cg".into(),
            v2_controllers: vec!["cpu".to_owned()],
            v1_mounts: std::collections::BTreeMap::new(),
            v1_named: Vec::new(),
        };
        let mut groups = Groups::new(HostFs::below(root.path()), layout);
        let mut weight = |used_us: u64, weight: u64, fields: GroupFields| {
            let stat = format!("usage_usec {used_us}\n");
            std::fs::write(group.join("cpu.stat"), stat).unwrap();
            std::fs::write(group.join("cpu.weight"), weight.to_string()).unwrap();
            std::fs::write(group.join("cpu.max"), "max 100000").unwrap();
            let levels = groups.read([PathBuf::from("/job")].iter(), fields);
            levels[Path::new("/")].children[0].weight
        };
        assert_eq!(weight(5, 100, GroupFields::All), 100);
        assert_eq!(weight(5, 200, GroupFields::All), 100, "it has not run");
        assert_eq!(weight(6, 200, GroupFields::Usage), 0, "nobody asked");
        assert_eq!(weight(6, 200, GroupFields::All), 200, "it ran");
        let rounds = (0..100).find(|_| weight(6, 300, GroupFields::All) == 300);
        assert!(rounds.is_some_and(|n| n < CACHED_ROUNDS), "{rounds:?}");
        assert_eq!(weight(0, 50, GroupFields::All), 50, "made anew");
    }

    #[test]
    fn quotas_of_v2() {
        assert_eq!(cpu_max("50000 100000\n"), Some(0.5));
        assert_eq!(cpu_max("max 100000\n"), None);
        assert_eq!(cpu_max(""), None);
        assert_eq!(cpu_max("1 0"), None);
    }
}
