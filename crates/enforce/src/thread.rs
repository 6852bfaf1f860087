//! Threads: identity, cgroup and CPUs.

use crate::tuning::thread::{MOVE_RETRY_PAUSE, MOVE_TRIES};
use cofferdam_affinity::Affinity;
use cofferdam_host::parse;
use serde::{Deserialize, Serialize};
use std::fs;
use std::io;
use std::path::Path;

/// Thread; its start time distinguishes it from a later one with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ThreadId {
    /// Thread number.
    pub tid: u32,
    /// Start time in clock ticks since boot, field 22 of `/proc/TID/stat`.
    pub started_ticks: u64,
}

impl ThreadId {
    /// Returns the thread that has this number now.
    ///
    /// # Errors
    /// Fails if there is none, or `/proc` cannot be read.
    pub fn of(tid: u32) -> io::Result<ThreadId> {
        Ok(ThreadId {
            tid,
            started_ticks: started_ticks(tid)?,
        })
    }
}

fn started_ticks(tid: u32) -> io::Result<u64> {
    let stat = fs::read_to_string(format!("/proc/{tid}/stat")).map_err(not_found_if_ended)?;
    // The name is in brackets and may contain brackets itself.
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let field = rest.split_whitespace().nth(19);
    field
        .and_then(|text| text.parse().ok())
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no start time in /proc/…/stat"))
}

/// Flag of a kernel thread (include/linux/sched.h, `PF_KTHREAD`).
const PF_KTHREAD: u32 = 0x0020_0000;

/// Whether the thread is a kernel thread that polls a network device.
///
/// # Errors
/// Fails if the thread is gone, or `/proc` cannot be read.
pub(crate) fn is_napi(thread: ThreadId) -> io::Result<bool> {
    check(thread)?;
    let stat =
        fs::read_to_string(format!("/proc/{}/stat", thread.tid)).map_err(not_found_if_ended)?;
    let (head, rest) = stat.rsplit_once(')').unwrap_or_default();
    let flags = rest.split_whitespace().nth(6).and_then(|f| f.parse().ok());
    let is_kernels = flags.is_some_and(|flags: u32| flags & PF_KTHREAD != 0);
    Ok(is_kernels && head.contains("(napi/"))
}

fn not_found_if_ended(e: io::Error) -> io::Error {
    match e.raw_os_error() {
        Some(libc::ESRCH) => io::ErrorKind::NotFound.into(),
        _ => e,
    }
}

fn check(thread: ThreadId) -> io::Result<()> {
    if started_ticks(thread.tid)? == thread.started_ticks {
        Ok(())
    } else {
        Err(io::Error::new(
            io::ErrorKind::NotFound,
            "this number belongs to another thread by now",
        ))
    }
}

/// Path of the thread's cgroup in the hierarchy mounted at `mount`, beginning with `/`.
pub(crate) fn cgroup(thread: ThreadId, mount: &Path) -> io::Result<String> {
    check(thread)?;
    let text =
        fs::read_to_string(format!("/proc/{}/cgroup", thread.tid)).map_err(not_found_if_ended)?;
    cgroup_in(&text, mount).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            format!(
                "/proc/{}/cgroup names no cgroup in {}",
                thread.tid,
                mount.display()
            ),
        )
    })
}

/// Cgroup in the text of `/proc/PID/cgroup` for the hierarchy mounted at `mount`.
pub(crate) fn cgroup_in(text: &str, mount: &Path) -> Option<String> {
    let v2 = mount.join("cgroup.controllers").exists();
    let name = mount.file_name()?.to_str()?;
    text.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (id, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let same = if v2 {
            id == "0" && controllers.is_empty()
        } else {
            // A hierarchy of several controllers is mounted as `cpu,cpuacct`.
            !controllers.is_empty()
                && controllers
                    .split(',')
                    .any(|c| name.split(',').any(|n| n == c))
        };
        same.then(|| path.to_owned())
    })
}

/// Moves the thread into the cgroup at `path` below `mount`. If that cgroup is gone, or outside of
/// our cgroup namespace (`/..`), moves it into the hierarchy's root.
pub(crate) fn set_cgroup(thread: ThreadId, mount: &Path, path: &str) -> io::Result<()> {
    check(thread)?;
    if path.split('/').any(|name| name == "..") {
        return move_into(thread.tid, mount);
    }
    let directory = mount.join(path.trim_start_matches('/'));
    let moved = move_into(thread.tid, &directory);
    match moved {
        Err(e) if e.kind() == io::ErrorKind::NotFound => move_into(thread.tid, mount),
        other => other,
    }
}

/// Moves a thread: in v1 through `tasks`; in v2 a kernel thread is a process.
fn move_into(tid: u32, directory: &Path) -> io::Result<()> {
    let tasks = directory.join("tasks");
    let file = if tasks.exists() {
        tasks
    } else {
        directory.join("cgroup.procs")
    };
    let write = || {
        let mut file = fs::OpenOptions::new().write(true).open(&file)?;
        io::Write::write_all(&mut file, tid.to_string().as_bytes())
    };
    // The kernel refuses a thread that was just created and has not run yet.
    let refused = |moved: &io::Result<()>| {
        moved
            .as_ref()
            .is_err_and(|e| e.raw_os_error() == Some(libc::EINVAL))
    };
    let mut moved = write();
    for _ in 0..MOVE_TRIES {
        if !refused(&moved) {
            break;
        }
        std::thread::sleep(MOVE_RETRY_PAUSE);
        moved = write();
    }
    moved.map_err(not_found_if_ended)
}

/// Moves the remaining tasks of our cgroup to its parent, so that it can be removed. There should
/// be none, but a task may have been moved in.
pub(crate) fn empty_cgroup(directory: &Path) -> io::Result<()> {
    let Ok(text) = fs::read_to_string(directory.join("cgroup.procs")) else {
        return Ok(());
    };
    let above = directory.parent().unwrap_or(directory);
    for tid in text.lines().filter_map(|line| line.parse().ok()) {
        match move_into(tid, above) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => {}
        }
    }
    Ok(())
}

/// CPUs that the thread may run on, as a list. It includes offline CPUs, which `sched_getaffinity`
/// omits.
pub(crate) fn cpus(thread: ThreadId) -> io::Result<String> {
    check(thread)?;
    let status =
        fs::read_to_string(format!("/proc/{}/status", thread.tid)).map_err(not_found_if_ended)?;
    let line = status
        .lines()
        .find_map(|l| l.strip_prefix("Cpus_allowed_list:"));
    line.map(|list| list.trim().to_owned()).ok_or_else(|| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "no list of CPUs in /proc/…/status",
        )
    })
}

/// Restricts the thread to a list of CPUs.
pub(crate) fn set_cpus(thread: ThreadId, cpus: &str) -> io::Result<()> {
    check(thread)?;
    let list = parse::cpu_list(cpus)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no list of CPUs"))?;
    let affinity = Affinity::to(list)?;
    affinity.bind_thread(thread.tid).map_err(not_found_if_ended)
}

/// Kernel threads whose name begins with `prefix`.
pub(crate) fn kernel_threads(prefix: &str) -> Vec<u32> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let pids = entries.filter_map(|e| e.ok()?.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| {
        let comm = fs::read_to_string(format!("/proc/{pid}/comm"));
        comm.is_ok_and(|comm| comm.starts_with(prefix))
            && fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.is_empty())
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cgroup_of_a_hierarchy_is_found_by_its_mount() {
        let text = "9:name=systemd:/s\n3:cpu,cpuacct:/pods/a:b\n2:cpuset:/c\n0::/v2\n";
        let find = |mount: &str| cgroup_in(text, Path::new(mount));
        assert_eq!(find("/m/cpu").as_deref(), Some("/pods/a:b"));
        assert_eq!(find("/m/cpu,cpuacct").as_deref(), Some("/pods/a:b"));
        assert_eq!(find("/m/cpuset").as_deref(), Some("/c"));
        assert_eq!(find("/m/memory"), None);
    }

    #[test]
    fn a_thread_that_started_at_another_time_is_not_there() {
        let mut me = ThreadId::of(std::process::id()).unwrap();
        assert!(cpus(me).is_ok());
        me.started_ticks += 1;
        assert_eq!(cpus(me).unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
