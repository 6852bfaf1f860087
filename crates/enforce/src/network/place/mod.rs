//! Directories of a container's cgroup in the relevant hierarchies.

mod quota;
mod usage;

pub(in crate::network) use quota::Follower;
pub(in crate::network) use usage::{BilledTime, UsageFile, open_sum};

use super::pods::PodShape;
use crate::thread;
use cofferdam_host::CgroupLayout;
use cofferdam_types::Container;
use quota::QuotaFile;
use std::fs;
use std::iter;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Container and the directories of its cgroup.
#[derive(Clone, Debug)]
pub(in crate::network) struct PlacedContainer {
    pub container: Arc<Container>,
    pub place: Place,
}

/// One directory of a container's cgroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::network) struct Directory {
    /// Mount point of its hierarchy.
    pub mount: PathBuf,
    /// Path below the mount, beginning with `/`.
    pub path: String,
}

/// Directories of a container's cgroup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::network) struct Place {
    /// v2 first, then v1 `cpu` and `cpuacct` if they exist. A thread in all of them is charged and
    /// counted as the container's.
    pub directories: Vec<Directory>,
    /// Directory with the CPU controller's files, and whether it is v2.
    pub cpu: Option<(PathBuf, bool)>,
    /// Directory with the cpuset controller's files, and whether it is v2.
    pub cpuset: Option<(PathBuf, bool)>,
    /// Whether it is a pod's cgroup: the cgroups below it compete with ours.
    pub is_pods: bool,
}

impl PlacedContainer {
    /// Finds the cgroup of a container, or of the pod that it represents.
    pub fn find(
        layout: &CgroupLayout,
        container: &Arc<Container>,
        pod: Option<PodShape<'_>>,
    ) -> PlacedContainer {
        let mut place = find(layout, container);
        if let Some(pod) = pod {
            place.is_pods = pod.has_cgroup;
            if let Some(pinned) = pod.pinned {
                place.cpuset = find(layout, pinned).cpuset;
            }
        }
        PlacedContainer {
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

/// Weight of an idle cgroup in the unit of `cpu.weight`, which reads 0 (kernel/sched/sched.h,
/// `WEIGHT_IDLEPRIO`: 3 of 1024).
const IDLE_WEIGHT: f64 = 100.0 * 3.0 / 1024.0;

/// Weight in a file of the CPU controller, in its unit.
pub(in crate::network) fn parse_weight(text: &str) -> Option<f64> {
    let weight = text.trim().parse::<f64>().ok()?;
    Some(if weight > 0.0 { weight } else { IDLE_WEIGHT })
}

/// v1 controllers that charge or count a thread.
const CHARGING: [&str; 2] = ["cpu", "cpuacct"];

/// Finds the directories. v1 paths come from a process of the container. Without one they are
/// assumed to equal the v2 path, as every runtime makes them.
fn find(layout: &CgroupLayout, container: &Container) -> Place {
    let path = container.cgroup_path.to_string_lossy().into_owned();
    let of_process = container
        .pid
        .and_then(|pid| fs::read_to_string(format!("/proc/{pid}/cgroup")).ok())
        .unwrap_or_default();
    let v1 = |controller: &str| {
        let mount = layout.v1_mounts.get(controller)?;
        let below = thread::cgroup_in(&of_process, mount);
        // A process that was moved within the container is in a directory below.
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

    /// File of the container's CPU weight.
    pub fn weight_file(&self) -> Option<PathBuf> {
        let (directory, v2) = self.cpu.as_ref()?;
        Some(directory.join(if *v2 { "cpu.weight" } else { "cpu.shares" }))
    }

    /// Lowest weight that the file accepts.
    pub fn lowest_weight(&self) -> Option<f64> {
        let (_, v2) = self.cpu.as_ref()?;
        Some(if *v2 { 1.0 } else { 2.0 })
    }

    /// Weight for a cgroup next to a pod's containers: the sum of theirs, so that neither side
    /// starves. `None` if nothing competes with it.
    pub fn weight_next_to(&self, leaf: &Path) -> Option<(&'static str, f64)> {
        let (directory, v2) = self.cpu.as_ref().filter(|_| self.is_pods)?;
        let (file, most) = match v2 {
            true => ("cpu.weight", 10_000.0),
            false => ("cpu.shares", 262_144.0),
        };
        let entries = fs::read_dir(directory).ok()?.flatten();
        let others = entries.map(|e| e.path()).filter(|path| path != leaf);
        let texts = others.filter_map(|path| fs::read_to_string(path.join(file)).ok());
        let all: f64 = texts
            .filter_map(|text| text.trim().parse::<f64>().ok())
            .sum();
        (all > 0.0).then_some((file, all.min(most)))
    }

    /// Weight in the file.
    pub fn weight(&self) -> Option<f64> {
        parse_weight(&fs::read_to_string(self.weight_file()?).ok()?)
    }

    pub fn is_cpu_v2(&self) -> bool {
        self.cpu.as_ref().is_some_and(|(_, v2)| *v2)
    }

    /// Quota of the container itself; `None` without one.
    pub fn quota(&self) -> Option<QuotaFile> {
        let (directory, v2) = self.cpu.as_ref()?;
        quota::read(directory, *v2)
    }

    /// Files that depend on its quota, the nearest first.
    pub fn quota_followers(&self) -> Vec<Follower> {
        let found = self.cpu.as_ref();
        found.map_or_else(Vec::new, |(directory, v2)| quota::followers(directory, *v2))
    }

    /// Largest quota that the kernel accepts, CPUs; `None` if there is no limit.
    pub fn most_quota(&self) -> Option<f64> {
        let (directory, v2) = self.cpu.as_ref()?;
        quota::above(directory, *v2)
    }

    /// Whether its cgroup runs only on otherwise idle CPUs (`cpu.idle`): the kernel then refuses a
    /// weight.
    pub fn is_idle(&self) -> bool {
        let idle = self
            .cpu
            .as_ref()
            .map(|(directory, _)| directory.join("cpu.idle"));
        let text = idle.and_then(|file| fs::read_to_string(file).ok());
        text.is_some_and(|text| text.trim() == "1")
    }

    /// Tightest quota of its cgroup and the cgroups above, CPUs; `None` without one. `own_us` is
    /// the container's own quota if its file contains a correction.
    pub fn tightest_quota(&self, own_us: Option<f64>) -> Option<f64> {
        let (directory, v2) = self.cpu.as_ref()?;
        quota::tightest(directory, *v2, own_us)
    }

    /// Whether a process of the container is alive. Without one nothing of ours may keep its cgroup
    /// in use.
    pub fn is_alive(&self, container: &Container) -> bool {
        // A zombie has no namespace any more.
        let process = |pid: u32| fs::read_link(format!("/proc/{pid}/ns/net")).is_ok();
        container.pid.is_some_and(process) || self.has_user_processes()
    }

    /// Whether a user process is in its cgroup. A pod's processes are in the cgroups of its
    /// containers.
    fn has_user_processes(&self) -> bool {
        let Some(own) = self.directories.first().map(Directory::full) else {
            return false;
        };
        let below = self.is_pods.then(|| fs::read_dir(&own).ok()).flatten();
        let below = below.into_iter().flatten().flatten().map(|e| e.path());
        let mut all = iter::once(own.clone()).chain(below);
        all.any(|directory| {
            let text = fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
            // A kernel thread, which we may have moved there, has no program; nor has a zombie.
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

    /// The process by which a pod was discovered may end long before the pod: a probe, `kubectl
    /// exec`.
    /// Promise 31.
    #[test]
    fn a_pod_lives_while_one_of_its_processes_lives() {
        let mount = tempfile::tempdir().unwrap();
        let container = mount.path().join("pod/container");
        fs::create_dir_all(&container).unwrap();
        fs::write(mount.path().join("pod/cgroup.procs"), "").unwrap();
        let procs = |text: &str| fs::write(container.join("cgroup.procs"), text).unwrap();
        let container = Container::plain(CgroupId(1), "/pod", "shop/web");
        procs(&format!("{}\n", std::process::id()));
        assert!(place(mount.path(), true).is_alive(&container));
        assert!(!place(mount.path(), false).is_alive(&container));
        // kthreadd: a kernel thread keeps no pod alive.
        procs("2\n");
        assert!(!place(mount.path(), true).is_alive(&container));
        procs("");
        assert!(!place(mount.path(), true).is_alive(&container));
    }
}
