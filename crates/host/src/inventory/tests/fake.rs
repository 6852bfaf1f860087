//! A synthetic host: files in a temporary directory, and a network of two tables.

use crate::HostError;
use crate::fs::HostFs;
use crate::inventory::Inventory;
use crate::layout::CgroupLayout;
use crate::links::{Door, Inside, LinkEvent, Network, Others};
use crate::netlink::LinkMessage;
use cofferdam_types::{CgroupId, NetnsId};
use std::collections::HashMap;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use tempfile::TempDir;

/// The host's network namespace.
pub const HOST: u32 = 1;

/// Returns a runtime's id for container number `n`.
pub fn hex_id(n: u64) -> String {
    format!("{n:016x}{:048x}", 0xabc)
}

#[derive(Default)]
pub struct Tables {
    pub host: Vec<LinkMessage>,
    pub inside: HashMap<NetnsId, Inside>,
    pub events: Vec<LinkEvent>,
    /// Number of namespaces visited so far.
    pub visits: usize,
}

pub struct FakeHost {
    root: TempDir,
    mount: &'static str,
    tables: Arc<Mutex<Tables>>,
    /// Start time of the next process.
    started: AtomicU64,
}

impl FakeHost {
    pub fn new(hybrid: bool) -> FakeHost {
        // In memory: thousands of tiny files would wait for a disk.
        let root = tempfile::tempdir_in("/dev/shm").unwrap();
        let mount = if hybrid {
            "/sys/fs/cgroup/unified"
        } else {
            "/sys/fs/cgroup"
        };
        let host = FakeHost {
            root,
            mount,
            tables: Arc::default(),
            started: AtomicU64::new(1),
        };
        std::fs::create_dir_all(host.path("/proc/1/ns")).unwrap();
        host.set_pid_namespace(1, HOST);
        let v2 = format!("38 31 0:31 / {mount} rw,relatime shared:9 - cgroup2 cgroup2 rw\n");
        let v1 = "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n";
        host.write(
            "/proc/self/mountinfo",
            &if hybrid { v1.to_owned() + &v2 } else { v2 },
        );
        let controllers = if hybrid {
            ""
        } else {
            "cpuset cpu io memory pids\n"
        };
        host.write(&format!("{mount}/cgroup.controllers"), controllers);
        host
    }

    pub fn inventory(&self) -> Inventory {
        let fs = HostFs::below(self.root.path());
        let layout = CgroupLayout::read(&fs).unwrap();
        let network = FakeNetwork {
            tables: self.tables.clone(),
            never: File::open("/dev/null").unwrap(),
        };
        Inventory::new(fs, layout, NetnsId(HOST), Box::new(network)).unwrap()
    }

    pub fn network(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap()
    }

    fn path(&self, absolute: &str) -> PathBuf {
        self.root.path().join(absolute.strip_prefix('/').unwrap())
    }

    fn directory(&self, cgroup: &str) -> PathBuf {
        self.path(&format!("{}{cgroup}", self.mount))
    }

    pub fn write(&self, absolute: &str, text: &str) {
        let path = self.path(absolute);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub fn cgroup(&self, cgroup: &str) {
        std::fs::create_dir_all(self.directory(cgroup)).unwrap();
    }

    pub fn has_cgroup(&self, cgroup: &str) -> bool {
        self.directory(cgroup).exists()
    }

    pub fn id(&self, cgroup: &str) -> CgroupId {
        CgroupId(std::fs::metadata(self.directory(cgroup)).unwrap().ino())
    }

    /// Adds a process to a cgroup, which is made if it does not exist.
    pub fn process(&self, cgroup: &str, pid: u32, netns: u32) {
        self.cgroup(cgroup);
        let procs = self.directory(cgroup).join("cgroup.procs");
        let text = std::fs::read_to_string(&procs).unwrap_or_default();
        std::fs::write(procs, format!("{text}{pid}\n")).unwrap();
        self.write(&format!("/proc/{pid}/cgroup"), &format!("0::{cgroup}\n"));
        let start = self.started.fetch_add(1, Ordering::Relaxed);
        let stat = format!("{pid} (a) b) S {} {start} 0", ["0"; 18].join(" "));
        self.write(&format!("/proc/{pid}/stat"), &stat);
        std::fs::create_dir_all(self.path(&format!("/proc/{pid}/ns"))).unwrap();
        self.set_pid_namespace(pid, HOST);
        symlink(
            format!("net:[{netns}]"),
            self.path(&format!("/proc/{pid}/ns/net")),
        )
        .unwrap();
    }

    /// Puts a process into another PID namespace.
    pub fn set_pid_namespace(&self, pid: u32, namespace: u32) {
        let link = self.path(&format!("/proc/{pid}/ns/pid"));
        let _ = std::fs::remove_file(&link);
        symlink(format!("pid:[{namespace}]"), link).unwrap();
    }

    /// Moves a process to another cgroup.
    pub fn move_to(&self, pid: u32, cgroup: &str) {
        let file = self.path(&format!("/proc/{pid}/cgroup"));
        let text = std::fs::read_to_string(&file).unwrap();
        let before = text.trim().strip_prefix("0::").unwrap();
        self.leave(pid, before);
        let procs = self.directory(cgroup).join("cgroup.procs");
        let others = std::fs::read_to_string(&procs).unwrap_or_default();
        std::fs::write(procs, format!("{others}{pid}\n")).unwrap();
        std::fs::write(file, format!("0::{cgroup}\n")).unwrap();
    }

    /// Moves a process to another namespace.
    pub fn move_process(&self, pid: u32, netns: u32) {
        let link = self.path(&format!("/proc/{pid}/ns/net"));
        std::fs::remove_file(&link).unwrap();
        symlink(format!("net:[{netns}]"), link).unwrap();
    }

    pub fn end_process(&self, pid: u32) {
        let proc = format!("/proc/{pid}");
        let text = std::fs::read_to_string(self.path(&format!("{proc}/cgroup"))).unwrap();
        self.leave(pid, text.trim().strip_prefix("0::").unwrap());
        std::fs::remove_dir_all(self.path(&proc)).unwrap();
    }

    fn leave(&self, pid: u32, cgroup: &str) {
        let procs = self.directory(cgroup).join("cgroup.procs");
        let all = std::fs::read_to_string(&procs).unwrap();
        let others = all.lines().filter(|line| *line != pid.to_string());
        let others: String = others.map(|line| format!("{line}\n")).collect();
        std::fs::write(procs, others).unwrap();
    }

    pub fn remove_cgroup(&self, cgroup: &str) {
        std::fs::remove_dir_all(self.directory(cgroup)).unwrap();
    }
}

struct FakeNetwork {
    tables: Arc<Mutex<Tables>>,
    never: File,
}

impl Network for FakeNetwork {
    fn fd(&self) -> BorrowedFd<'_> {
        self.never.as_fd()
    }

    fn drain(&mut self) -> Vec<LinkEvent> {
        std::mem::take(&mut self.tables.lock().unwrap().events)
    }

    fn host_links(&mut self) -> Result<Vec<LinkMessage>, HostError> {
        Ok(self.tables.lock().unwrap().host.clone())
    }

    fn look_inside(&mut self, doors: &[Door], _others: Others<'_>) -> HashMap<NetnsId, Inside> {
        let mut tables = self.tables.lock().unwrap();
        tables.visits += doors.len();
        let look = |door: &Door| {
            assert!(door.file.starts_with(Path::new("/proc")));
            (
                door.netns,
                tables.inside.get(&door.netns).cloned().unwrap_or_default(),
            )
        };
        doors.iter().map(look).collect()
    }
}
