//! Cgroups of our own, at the same path in every hierarchy that matters.

use crate::names::unique;
use cofferdam_lab::UndoStack;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The v1 controllers that runtimes give a container and that the tests use. The memory and device
/// controllers are left alone: nothing here depends on them.
const V1: [&str; 5] = ["cpu", "cpuacct", "cpuset", "freezer", "pids"];

/// A cgroup; on hybrid hosts one directory in the unified tree and one per v1 controller. Its
/// processes are ended and it is removed when dropped.
#[derive(Debug)]
pub struct Cgroup {
    path: PathBuf,
    dirs: Vec<PathBuf>,
    _undo: UndoStack,
}

/// Where the v2 tree is mounted: `/sys/fs/cgroup`, or `/sys/fs/cgroup/unified` on hybrid hosts.
#[track_caller]
pub(crate) fn v2_mount() -> PathBuf {
    let root = Path::new("/sys/fs/cgroup");
    [root.to_owned(), root.join("unified")]
        .into_iter()
        .find(|dir| dir.join("cgroup.controllers").exists())
        .expect("this host mounts no cgroup2 tree at /sys/fs/cgroup or /sys/fs/cgroup/unified")
}

/// All trees in which a container's cgroup is made, v2 first.
pub(crate) fn mounts() -> Vec<PathBuf> {
    let v1 = V1.iter().map(|name| Path::new("/sys/fs/cgroup").join(name));
    let v2 = v2_mount();
    // On pure v2 `/sys/fs/cgroup/cpu` would be an ordinary cgroup, hence the second test.
    let v1 = v1.filter(|dir| dir.join("release_agent").exists() && dir.join("tasks").exists());
    std::iter::once(v2).chain(v1).collect()
}

impl Cgroup {
    /// Makes `/cf-PID-N-LABEL`.
    #[track_caller]
    pub fn new(label: &str) -> Cgroup {
        Cgroup::at(Path::new("/").join(unique(label)))
    }

    /// Makes a cgroup below this one. Drop it before its parent.
    #[track_caller]
    pub fn child(&self, name: &str) -> Cgroup {
        Cgroup::at(self.path.join(name))
    }

    #[track_caller]
    fn at(path: PathBuf) -> Cgroup {
        let below = path
            .strip_prefix("/")
            .expect("a cgroup path begins with /")
            .to_owned();
        let dirs: Vec<PathBuf> = mounts().into_iter().map(|m| m.join(&below)).collect();
        let ours = dirs.clone();
        let mut undo = UndoStack::default();
        undo.push(format!("cgroup {}", path.display()), move || {
            ours.iter().for_each(|dir| remove(dir));
            Ok::<_, String>(())
        });
        for dir in &dirs {
            if let Err(e) = fs::create_dir(dir) {
                panic!("cannot make the cgroup {}: {e}", dir.display());
            }
            inherit_cpuset(dir);
        }
        Cgroup {
            path,
            dirs,
            _undo: undo,
        }
    }

    /// Path below each mount, beginning with `/`.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The directory in the v2 tree.
    pub fn dir(&self) -> &Path {
        &self.dirs[0]
    }

    /// The directory of a v1 controller; on pure v2, and for controllers that are not mounted,
    /// the v2 directory.
    pub fn controller(&self, name: &str) -> &Path {
        let v1 = Path::new("/sys/fs/cgroup").join(name);
        self.dirs[1..]
            .iter()
            .find(|d| d.starts_with(&v1))
            .unwrap_or(&self.dirs[0])
    }

    /// The v2 cgroup id: the inode number of the directory.
    #[track_caller]
    pub fn id(&self) -> u64 {
        fs::metadata(self.dir())
            .expect("the fixture's cgroup exists")
            .ino()
    }

    /// Moves a process (all its threads) into it.
    #[track_caller]
    pub fn add(&self, pid: u32) {
        for dir in &self.dirs {
            if let Err(e) = fs::write(dir.join("cgroup.procs"), pid.to_string()) {
                panic!("cannot move process {pid} into {}: {e}", dir.display());
            }
        }
    }

    /// Its processes.
    pub fn pids(&self) -> Vec<u32> {
        pids(self.dir())
    }

    /// CPU time that the scheduler billed to it.
    #[track_caller]
    pub fn cpu_usage(&self) -> Duration {
        let stat = fs::read_to_string(self.dir().join("cpu.stat")).expect("cpu.stat is readable");
        let us = stat
            .lines()
            .find_map(|l| l.strip_prefix("usage_usec ")?.parse().ok());
        Duration::from_micros(us.expect("cpu.stat has usage_usec"))
    }

    pub(crate) fn dirs(&self) -> &[PathBuf] {
        &self.dirs
    }
}

/// A v1 cpuset takes no process until it has CPUs and memory nodes.
fn inherit_cpuset(dir: &Path) {
    for file in ["cpuset.cpus", "cpuset.mems"] {
        let (here, above) = (dir.join(file), dir.parent().map(|p| p.join(file)));
        let v1 = dir.join("cpuset.memory_migrate").exists();
        if let Some(value) = above
            .filter(|_| v1)
            .and_then(|p| fs::read_to_string(p).ok())
        {
            let _ = fs::write(here, value.trim());
        }
    }
}

fn pids(dir: &Path) -> Vec<u32> {
    let text = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

/// Ends what is in the cgroup and its children, and removes them. Kernel threads (NAPI) cannot
/// be ended: they go back to the root.
fn remove(dir: &Path) {
    let start = Instant::now();
    while dir.exists() && start.elapsed() < Duration::from_secs(5) {
        let children = fs::read_dir(dir).into_iter().flatten().flatten();
        children
            .map(|c| c.path())
            .filter(|p| p.is_dir())
            .for_each(|p| remove(&p));
        for pid in pids(dir) {
            let kernel_thread = fs::read(format!("/proc/{pid}/cmdline"))
                .is_ok_and(|c| c.is_empty())
                && fs::read_link(format!("/proc/{pid}/exe")).is_err();
            if kernel_thread {
                // A zombie looks the same; the write then fails and the loop continues.
                if let Some(mount) = mounts().iter().find(|m| dir.starts_with(m)) {
                    let _ = fs::write(mount.join("cgroup.procs"), pid.to_string());
                }
            } else if pid != std::process::id() {
                let _ = kill(Pid::from_raw(pid.cast_signed()), Signal::SIGKILL);
            }
        }
        if fs::remove_dir(dir).is_ok() {
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
