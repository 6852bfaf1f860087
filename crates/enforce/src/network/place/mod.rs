//! Where a container's cgroup is in the hierarchies that matter here.

mod quota;
mod usage;

pub(in crate::network) use quota::Follower;
pub(in crate::network) use usage::{BilledTime, UsageFile, open_sum};

use super::pods::Shape;
use crate::thread;
use cofferdam_host::CgroupLayout;
use cofferdam_types::Container;
use quota::QuotaFile;
use std::fs;
use std::iter;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A container, and where its cgroup is.
#[derive(Clone, Debug)]
pub(in crate::network) struct Located {
    pub container: Arc<Container>,
    pub place: Place,
}

/// One directory of a container's cgroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::network) struct Directory {
    /// Where its hierarchy is mounted.
    pub mount: PathBuf,
    /// Its path below the mount, beginning with `/`.
    pub path: String,
}

/// The directories of a container's cgroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::network) struct Place {
    /// v2 first; then v1 `cpu` and `cpuacct` where they exist. A thread in all of them is
    /// charged and counted as the container's.
    pub directories: Vec<Directory>,
    /// The directory with the CPU controller's files, and whether it is v2.
    pub cpu: Option<(PathBuf, bool)>,
    /// The directory with the cpuset controller's files, and whether it is v2.
    pub cpuset: Option<(PathBuf, bool)>,
    /// It is a pod's: the cgroups below compete with what is put beside them.
    pub is_pods: bool,
}

impl Located {
    /// Looks up where the cgroup of a container, or of the pod that it stands for, is now.
    pub fn find(
        layout: &CgroupLayout,
        container: &Arc<Container>,
        pod: Option<Shape<'_>>,
    ) -> Located {
        let mut place = find(layout, container);
        if let Some(pod) = pod {
            place.is_pods = pod.has_cgroup;
            if let Some(pinned) = pod.pinned {
                place.cpuset = find(layout, pinned).cpuset;
            }
        }
        Located {
            container: container.clone(),
            place,
        }
    }
}

impl Directory {
    pub fn full(&self) -> PathBuf {
        self.mount.join(self.path.trim_start_matches('/'))
    }
}

/// Weight of an idle cgroup in the unit of `cpu.weight`, which says 0 (kernel/sched/sched.h,
/// `WEIGHT_IDLEPRIO`: 3 of 1024).
const IDLE_WEIGHT: f64 = 100.0 * 3.0 / 1024.0;

/// The weight that a file of the CPU controller's says, in its unit.
pub(in crate::network) fn parse_weight(text: &str) -> Option<f64> {
    let weight = text.trim().parse::<f64>().ok()?;
    Some(if weight > 0.0 { weight } else { IDLE_WEIGHT })
}

/// The v1 controllers that charge or count a thread.
const CHARGING: [&str; 2] = ["cpu", "cpuacct"];

/// Looks the directories up. v1 paths are asked of a process of the container; without one
/// they are taken to be those of v2, as every runtime makes them.
fn find(layout: &CgroupLayout, container: &Container) -> Place {
    let path = container.cgroup_path.to_string_lossy().into_owned();
    let of_process = container
        .pid
        .and_then(|pid| fs::read_to_string(format!("/proc/{pid}/cgroup")).ok())
        .unwrap_or_default();
    let v1 = |controller: &str| {
        let mount = layout.v1_mounts.get(controller)?;
        let below = thread::cgroup_in(&of_process, mount);
        // A process that was moved on within the container is in a directory below.
        let below = below.filter(|found| found == &path).unwrap_or(path.clone());
        let directory = Directory {
            mount: mount.clone(),
            path: below,
        };
        (directory.path != "/" && directory.full().is_dir()).then_some(directory)
    };
    let v2 = Directory {
        mount: layout.v2_mount.clone(),
        path: path.clone(),
    };
    let mut directories = vec![v2.clone()];
    for directory in CHARGING.into_iter().filter_map(v1) {
        if !directories.contains(&directory) {
            directories.push(directory);
        }
    }
    let with = |controller: &str, v2_file: &str| match v1(controller) {
        Some(directory) => Some((directory.full(), false)),
        None => Some((v2.full(), true)).filter(|(dir, _)| dir.join(v2_file).exists()),
    };
    Place {
        cpu: with("cpu", "cpu.weight"),
        cpuset: with("cpuset", "cpuset.cpus.effective"),
        directories,
        is_pods: false,
    }
}

impl Place {
    /// CPUs that the container's cpuset allows, as the kernel lists them.
    pub fn allowed_cpus(&self) -> Option<String> {
        let (directory, v2) = self.cpuset.as_ref()?;
        let file = if *v2 {
            "cpuset.cpus.effective"
        } else {
            "cpuset.effective_cpus"
        };
        let text = fs::read_to_string(directory.join(file)).ok()?;
        Some(text.trim().to_owned()).filter(|cpus| !cpus.is_empty())
    }

    /// The file with the container's CPU weight.
    pub fn weight_file(&self) -> Option<PathBuf> {
        let (directory, v2) = self.cpu.as_ref()?;
        Some(directory.join(if *v2 { "cpu.weight" } else { "cpu.shares" }))
    }

    /// The least that the weight's file takes.
    pub fn lowest_weight(&self) -> Option<f64> {
        let (_, v2) = self.cpu.as_ref()?;
        Some(if *v2 { 1.0 } else { 2.0 })
    }

    /// What a cgroup made beside a pod's containers should weigh: as much as all of them, so that
    /// it neither starves them nor is starved. `None` where nothing competes with it.
    pub fn weight_beside(&self, beside: &Path) -> Option<(&'static str, f64)> {
        let (directory, v2) = self.cpu.as_ref().filter(|_| self.is_pods)?;
        let (file, most) = match v2 {
            true => ("cpu.weight", 10_000.0),
            false => ("cpu.shares", 262_144.0),
        };
        let entries = fs::read_dir(directory).ok()?.flatten();
        let others = entries.map(|e| e.path()).filter(|path| path != beside);
        let texts = others.filter_map(|path| fs::read_to_string(path.join(file)).ok());
        let all: f64 = texts
            .filter_map(|text| text.trim().parse::<f64>().ok())
            .sum();
        (all > 0.0).then_some((file, all.min(most)))
    }

    /// The weight in the file.
    pub fn weight(&self) -> Option<f64> {
        parse_weight(&fs::read_to_string(self.weight_file()?).ok()?)
    }

    pub fn is_cpu_v2(&self) -> bool {
        self.cpu.as_ref().is_some_and(|(_, v2)| *v2)
    }

    /// The container's own quota; `None` without one.
    pub fn quota(&self) -> Option<QuotaFile> {
        let (directory, v2) = self.cpu.as_ref()?;
        quota::read(directory, *v2)
    }

    /// Files that the kernel wants within its quota, those nearest to it first.
    pub fn quota_followers(&self) -> Vec<Follower> {
        let found = self.cpu.as_ref();
        found.map_or_else(Vec::new, |(directory, v2)| quota::followers(directory, *v2))
    }

    /// The most that the kernel takes as its quota, in CPUs; `None` where that has no limit.
    pub fn most_quota(&self) -> Option<f64> {
        let (directory, v2) = self.cpu.as_ref()?;
        quota::above(directory, *v2)
    }

    /// Whether it runs only where nobody else wants to (`cpu.idle`): the kernel takes no weight
    /// then.
    pub fn is_idle(&self) -> bool {
        let idle = self
            .cpu
            .as_ref()
            .map(|(directory, _)| directory.join("cpu.idle"));
        let text = idle.and_then(|file| fs::read_to_string(file).ok());
        text.is_some_and(|text| text.trim() == "1")
    }

    /// The tightest quota of its cgroup and those above, in CPUs; `None` without one. `own_us` is the
    /// container's own quota where its file holds a correction.
    pub fn tightest_quota(&self, own_us: Option<f64>) -> Option<f64> {
        let (directory, v2) = self.cpu.as_ref()?;
        quota::tightest(directory, *v2, own_us)
    }

    /// A process of the container is alive; without one nothing of ours may hold its cgroup.
    pub fn is_alive(&self, container: &Container) -> bool {
        // One that has ended and was not waited for has no namespace any more.
        let process = |pid: u32| fs::read_link(format!("/proc/{pid}/ns/net")).is_ok();
        container.pid.is_some_and(process) || self.has_user_processes()
    }

    /// A pod's processes are in the cgroups of its containers.
    fn has_user_processes(&self) -> bool {
        let Some(own) = self.directories.first().map(Directory::full) else {
            return false;
        };
        let below = self.is_pods.then(|| fs::read_dir(&own).ok()).flatten();
        let below = below.into_iter().flatten().flatten().map(|e| e.path());
        let mut all = iter::once(own.clone()).chain(below);
        all.any(|directory| {
            let text = fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
            // A kernel thread, which we may have moved there, has no program; neither has a zombie.
            text.lines()
                .any(|pid| fs::read_link(format!("/proc/{pid}/exe")).is_ok())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cofferdam_types::CgroupId;

    fn place(mount: &Path, is_pods: bool) -> Place {
        let v2 = Directory {
            mount: mount.to_owned(),
            path: "/pod".into(),
        };
        Place {
            directories: vec![v2],
            cpu: None,
            cpuset: None,
            is_pods,
        }
    }

    /// The process by which a pod became known may end long before the pod: a probe, `kubectl exec`.
    /// Promise 31.
    #[test]
    fn a_pod_lives_as_long_as_a_process_of_a_container_of_it() {
        let mount = tempfile::tempdir().unwrap();
        let container = mount.path().join("pod/container");
        fs::create_dir_all(&container).unwrap();
        fs::write(mount.path().join("pod/cgroup.procs"), "").unwrap();
        let procs = |text: &str| fs::write(container.join("cgroup.procs"), text).unwrap();
        let known = Container::plain(CgroupId(1), "/pod", "shop/web");
        procs(&format!("{}\n", std::process::id()));
        assert!(place(mount.path(), true).is_alive(&known));
        assert!(!place(mount.path(), false).is_alive(&known));
        // kthreadd: a thread of the kernel keeps no pod alive.
        procs("2\n");
        assert!(!place(mount.path(), true).is_alive(&known));
        procs("");
        assert!(!place(mount.path(), true).is_alive(&known));
    }
}
