//! Cgroups of our own, in the hierarchies that `cofferdam_host` finds. On pure v2 a cgroup is one
//! directory; on a hybrid host it is one in the unified tree and one for each v1 controller.

use crate::{LabError, UndoStack};
use cofferdam_host::{CgroupLayout, CpuUsage, HostFs, parse};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// v1 controllers that divide and count CPU time.
pub const CPU: [&str; 2] = ["cpu", "cpuacct"];

/// Longest time that an ended process stays in its cgroup.
const PATIENCE: Duration = Duration::from_secs(3);

/// Hierarchies of this host.
pub fn layout() -> Result<CgroupLayout, LabError> {
    Ok(CgroupLayout::read(&HostFs::host())?)
}

/// Mount of the unified hierarchy, then those of these v1 controllers, if v1 has them. Each appears
/// once: `cpu` and `cpuacct` are often one mount.
pub fn mounts(layout: &CgroupLayout, v1: &[&str]) -> Vec<PathBuf> {
    let v1 = v1.iter().filter_map(|name| layout.v1_mounts.get(*name));
    once([&layout.v2_mount].into_iter().chain(v1))
}

/// Every mount, including v1 hierarchies without a controller: the places of leftovers.
pub fn all_mounts(layout: &CgroupLayout) -> Vec<PathBuf> {
    let v1 = layout.v1_mounts.values().chain(&layout.v1_named);
    once([&layout.v2_mount].into_iter().chain(v1))
}

fn once<'a>(paths: impl Iterator<Item = &'a PathBuf>) -> Vec<PathBuf> {
    let mut mounts: Vec<PathBuf> = Vec::new();
    for path in paths {
        if !mounts.contains(path) {
            mounts.push(path.clone());
        }
    }
    mounts
}

/// Lets children of the v2 cgroup `dir` use `controllers`, except the controllers that a v1
/// hierarchy has. `undo` turns off the ones that were off.
pub fn enable(
    layout: &CgroupLayout,
    controllers: &[&str],
    dir: &Path,
    mut undo: Option<&mut UndoStack>,
) -> Result<(), LabError> {
    for name in controllers {
        // The v1 name differs.
        let v1 = if *name == "io" { "blkio" } else { name };
        if layout.v1_mounts.contains_key(v1) {
            continue;
        }
        let path = dir.join("cgroup.subtree_control");
        let enabled = fs::read_to_string(&path).map_err(LabError::host("read", &path))?;
        if enabled.split_whitespace().any(|c| c == *name) {
            continue;
        }
        write(&path, &format!("+{name}"))?;
        if let Some(undo) = &mut undo {
            let off = format!("-{name}");
            undo.push(
                format!("{name} controller in {}", path.display()),
                move || fs::write(&path, off),
            );
        }
    }
    Ok(())
}

/// Cgroup of our own: one path in several hierarchies.
#[derive(Clone, Debug)]
pub struct Cgroup {
    path: PathBuf,
    dirs: Vec<PathBuf>,
}

impl Cgroup {
    /// Makes the cgroup at `path` (which begins with `/`) below each of `mounts`, the v2 one first.
    pub fn make(mounts: &[PathBuf], path: &Path, undo: &mut UndoStack) -> Result<Cgroup, LabError> {
        let below = path.strip_prefix("/").unwrap_or(path);
        let dirs = mounts.iter().map(|mount| mount.join(below)).collect();
        Cgroup::make_all(path.to_owned(), dirs, undo)
    }

    /// Existing cgroup: its path below the v2 mount, and its directories, the v2 one first.
    pub fn existing(path: PathBuf, dirs: Vec<PathBuf>) -> Cgroup {
        Cgroup { path, dirs }
    }

    /// Makes a cgroup below this one.
    pub fn child(&self, name: &str, undo: &mut UndoStack) -> Result<Cgroup, LabError> {
        let dirs = self.dirs.iter().map(|dir| dir.join(name)).collect();
        Cgroup::make_all(self.path.join(name), dirs, undo)
    }

    fn make_all(
        path: PathBuf,
        dirs: Vec<PathBuf>,
        undo: &mut UndoStack,
    ) -> Result<Cgroup, LabError> {
        for dir in &dirs {
            make(dir, undo)?;
            inherit_cpuset(dir)?;
        }
        Ok(Cgroup { path, dirs })
    }

    /// Path below each mount, beginning with `/`.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Directory in the v2 tree.
    pub fn dir(&self) -> &Path {
        &self.dirs[0]
    }

    /// Directories in all hierarchies, v2 first.
    pub fn dirs(&self) -> &[PathBuf] {
        &self.dirs
    }

    /// v2 cgroup id: the inode number of the directory.
    pub fn id(&self) -> Result<u64, LabError> {
        let metadata = fs::metadata(self.dir()).map_err(LabError::host("read", self.dir()))?;
        Ok(metadata.ino())
    }

    /// Writes those of `files` (of v1 and v2) that exist in its directories.
    pub fn set(&self, files: &[(&str, String)]) -> Result<(), LabError> {
        for dir in &self.dirs {
            for (file, value) in files {
                let path = dir.join(file);
                if path.exists() {
                    write(&path, value)?;
                }
            }
        }
        Ok(())
    }

    /// CPU time used so far.
    pub fn cpu_usage(&self) -> Result<Duration, LabError> {
        let usage = CpuUsage::open(&HostFs::host(), self.dir()).and_then(|usage| usage.read_ns());
        Ok(Duration::from_nanos(usage?))
    }
}

fn make(dir: &Path, undo: &mut UndoStack) -> Result<(), LabError> {
    fs::create_dir(dir).map_err(|source| match source.kind() {
        ErrorKind::PermissionDenied => LabError::Unsupported(format!(
            "cannot create the cgroup {}: run as root (sudo)",
            dir.display()
        )),
        _ => LabError::host("make", dir)(source),
    })?;
    let owned = dir.to_owned();
    undo.push(format!("cgroup {}", dir.display()), move || remove(&owned));
    Ok(())
}

/// Gives a v1 cpuset the CPUs and memory nodes of its parent: without them it accepts no process.
fn inherit_cpuset(dir: &Path) -> Result<(), LabError> {
    if !dir.join("cpuset.memory_migrate").exists() {
        return Ok(());
    }
    for file in ["cpuset.cpus", "cpuset.mems"] {
        let above = dir.parent().map(|p| p.join(file)).unwrap_or_default();
        let value = fs::read_to_string(&above).map_err(LabError::host("read", above))?;
        write(&dir.join(file), value.trim())?;
    }
    Ok(())
}

fn write(path: &Path, value: &str) -> Result<(), LabError> {
    fs::write(path, value).map_err(LabError::host("write", path))
}

/// Removes a cgroup; a missing one is no failure. Waits for a process that has just ended, which
/// stays in it for a moment.
pub fn remove(dir: &Path) -> io::Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match fs::remove_dir(dir) {
            Err(e) if e.kind() == ErrorKind::ResourceBusy && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
            other => return other,
        }
    }
}

/// Removes the cgroups below `dir`, innermost first; a missing `dir` is no failure.
pub fn remove_below(dir: &Path) -> io::Result<()> {
    for child in children(dir)? {
        remove_below(&child)?;
        remove(&child)?;
    }
    Ok(())
}

/// Cgroups directly below `dir`.
pub fn children(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(dir) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let dirs = entries
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    Ok(dirs.map(|entry| entry.path()).collect())
}

/// Processes of a cgroup; empty if it cannot be read.
pub fn pids(dir: &Path) -> Vec<u32> {
    let text = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

/// Ends the processes of a cgroup and of its children, and removes the children. Kernel threads
/// (NAPI) cannot be ended: they move to the one of `roots` that contains `dir`.
///
/// # Errors
/// A child cannot be removed, or a process does not leave within 5 s.
pub fn empty(dir: &Path, roots: &[PathBuf]) -> io::Result<()> {
    for child in children(dir)? {
        empty(&child, roots)?;
        remove(&child)?;
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

/// Cgroups of a process.
pub struct Membership<'a> {
    layout: &'a CgroupLayout,
    /// Text of `/proc/PID/cgroup`.
    text: String,
}

impl<'a> Membership<'a> {
    /// Reads the cgroups of a process.
    pub fn of(layout: &'a CgroupLayout, pid: u32) -> Result<Membership<'a>, LabError> {
        let path = format!("/proc/{pid}/cgroup");
        let text = fs::read_to_string(&path).map_err(LabError::host("read", path))?;
        Ok(Membership { layout, text })
    }

    /// Path in the unified hierarchy, beginning with `/`.
    pub fn path(&self) -> PathBuf {
        parse::proc_cgroup_v2(&self.text).unwrap_or_else(|| "/".into())
    }

    /// Directory in the unified hierarchy.
    pub fn v2(&self) -> PathBuf {
        self.layout.v2_directory(&self.path())
    }

    /// Directory in the hierarchy of a v1 controller, if v1 has it.
    pub fn v1(&self, controller: &str) -> Option<PathBuf> {
        let path = parse::proc_cgroup_v1(&self.text, controller)?;
        self.layout.v1_directory(controller, &path)
    }

    /// Directories in the unified hierarchy and in those of these v1 controllers. Roots are left
    /// out, because a controller limits nothing there.
    pub fn dirs(&self, v1: &[&str]) -> Vec<PathBuf> {
        let v1 = v1.iter().filter_map(|name| self.v1(name));
        let dirs: Vec<PathBuf> = [self.v2()].into_iter().chain(v1).collect();
        let mut dirs = once(dirs.iter());
        let roots = all_mounts(self.layout);
        dirs.retain(|dir| !roots.contains(dir) && dir.is_dir());
        dirs
    }
}

#[cfg(test)]
mod tests;
