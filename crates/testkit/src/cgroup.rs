//! Cgroups of our own, at the same path in every hierarchy that matters.

use crate::must;
use crate::names::unique;
use cofferdam_host::CgroupLayout;
use cofferdam_lab::UndoStack;
use cofferdam_lab::cgroup::{self, all_mounts, mounts};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::io::{self, ErrorKind};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The v1 controllers that runtimes give a container and that the tests use. The memory and device
/// controllers are left alone: nothing here depends on them.
const V1: [&str; 5] = ["cpu", "cpuacct", "cpuset", "freezer", "pids"];

/// A cgroup; on hybrid hosts one directory in the unified tree and one per v1 controller. Its
/// processes are ended and it is removed when dropped.
#[derive(Debug)]
pub struct Cgroup {
    group: cgroup::Cgroup,
    layout: CgroupLayout,
    _undo: UndoStack,
}

impl Cgroup {
    /// Makes `/cf-PID-N-LABEL`.
    #[track_caller]
    pub fn new(label: &str) -> Cgroup {
        let layout = must(cgroup::layout());
        let path = Path::new("/").join(unique(label));
        let mut undo = UndoStack::default();
        let group = cgroup::Cgroup::make(&mounts(&layout, &V1), &path, &mut undo);
        Cgroup::emptied(must(group), layout, undo)
    }

    /// Makes a cgroup below this one. Drop it before its parent.
    #[track_caller]
    pub fn child(&self, name: &str) -> Cgroup {
        let mut undo = UndoStack::default();
        let group = self.group.child(name, &mut undo);
        Cgroup::emptied(must(group), self.layout.clone(), undo)
    }

    /// Has the processes end before the cgroup is removed.
    fn emptied(group: cgroup::Cgroup, layout: CgroupLayout, mut undo: UndoStack) -> Cgroup {
        let (dirs, roots) = (group.dirs().to_vec(), all_mounts(&layout));
        undo.push(
            format!("processes in {}", group.path().display()),
            move || dirs.iter().try_for_each(|dir| empty(dir, &roots)),
        );
        Cgroup {
            group,
            layout,
            _undo: undo,
        }
    }

    /// The directory of a v1 controller; on pure v2, and for controllers that are not mounted,
    /// the v2 directory.
    pub fn controller(&self, name: &str) -> &Path {
        let v1 = self.layout.v1_directory(name, self.path());
        let dir = self.dirs().iter().find(|dir| v1.as_ref() == Some(dir));
        dir.map_or(self.dir(), PathBuf::as_path)
    }

    /// The v2 cgroup id: the inode number of the directory.
    #[track_caller]
    pub fn id(&self) -> u64 {
        must(self.group.id())
    }

    /// Moves a process (all its threads) into it.
    #[track_caller]
    pub fn add(&self, pid: u32) {
        for dir in self.dirs() {
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
        must(self.group.cpu_usage())
    }
}

impl Deref for Cgroup {
    type Target = cgroup::Cgroup;
    fn deref(&self) -> &cgroup::Cgroup {
        &self.group
    }
}

fn pids(dir: &Path) -> Vec<u32> {
    let text = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

/// Ends what is in the cgroup and its children, and removes the children. Kernel threads (NAPI)
/// cannot be ended: they go back to the root.
fn empty(dir: &Path, roots: &[PathBuf]) -> io::Result<()> {
    for child in cgroup::children(dir)? {
        empty(&child, roots)?;
        cgroup::remove(&child)?;
    }
    let deadline = Instant::now() + Duration::from_secs(5);
    loop {
        let pids = pids(dir);
        if pids.is_empty() {
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(io::Error::new(
                ErrorKind::TimedOut,
                format!("processes {pids:?} do not leave"),
            ));
        }
        for pid in pids {
            let kernel_thread = fs::read(format!("/proc/{pid}/cmdline"))
                .is_ok_and(|c| c.is_empty())
                && fs::read_link(format!("/proc/{pid}/exe")).is_err();
            if kernel_thread {
                // A zombie looks the same; the write then fails and the loop continues.
                if let Some(root) = roots.iter().find(|root| dir.starts_with(root)) {
                    let _ = fs::write(root.join("cgroup.procs"), pid.to_string());
                }
            } else if pid != std::process::id() {
                let _ = kill(Pid::from_raw(pid.cast_signed()), Signal::SIGKILL);
            }
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
