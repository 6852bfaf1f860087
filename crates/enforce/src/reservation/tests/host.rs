//! Synthetic host in a temporary directory.

use crate::cpus::read_list;
use crate::journal::fake_kernel::FakeKernel;
use crate::journal::{Journal, RevertReport};
use crate::reservation::{ReservationOptions, Reservations};
use cofferdam_host::HostFs;
use cofferdam_types::{CgroupId, Container, CpuAmount};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

pub struct Fake {
    root: TempDir,
    journal: TempDir,
    v1: bool,
}

pub fn cpus(text: &str) -> CpuAmount {
    text.parse().unwrap()
}

/// Temporary directory, in memory if possible: histories write many small files.
fn folder() -> TempDir {
    tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap()
}

impl Fake {
    pub fn v2(cpus: u32) -> Fake {
        Fake::new(cpus, false)
    }

    pub fn hybrid(cpus: u32) -> Fake {
        Fake::new(cpus, true)
    }

    /// One host of each layout. Each is created, and its kernel installed, when its turn comes.
    pub fn both(cpus: u32) -> impl Iterator<Item = Fake> {
        [true, false].into_iter().map(move |v1| Fake::new(cpus, v1))
    }

    fn new(cpus: u32, v1: bool) -> Fake {
        let fake = Fake {
            root: folder(),
            journal: folder(),
            v1,
        };
        let mut mounts = "1 0 0:1 / /sys/fs/cgroup/unified rw - cgroup2 none rw\n".to_owned();
        if v1 {
            for name in ["cpu", "cpuset"] {
                mounts += &format!("2 0 0:2 / /sys/fs/cgroup/{name} rw - cgroup none rw,{name}\n");
            }
        }
        fake.write_host("/proc/self/mountinfo", &mounts);
        let controllers = if v1 { "" } else { "cpuset cpu" };
        fake.write_host("/sys/fs/cgroup/unified/cgroup.controllers", controllers);
        let all = format!("0-{}", cpus - 1);
        fake.write_host("/sys/devices/system/cpu/possible", &all);
        for file in ["cpuset.cpus.effective", "cpuset.effective_cpus"] {
            fake.write(file, &all);
        }
        fake.online(&all);
        fake
    }

    /// Sets the online CPUs; the kernel refuses other CPUs from then on.
    pub fn online(&self, list: &str) {
        self.write_host("/sys/devices/system/cpu/online", list);
        let possible = self.read_host("/sys/devices/system/cpu/possible");
        let kernel = FakeKernel {
            v1: self.v1,
            possible: read_list(&possible).unwrap(),
            online: read_list(list).unwrap(),
            ..FakeKernel::default()
        };
        kernel.install();
    }

    /// Makes the kernel write the effective CPUs of each cgroup from now on.
    pub fn write_effective(&self) {
        let mount = self.host_path(&self.mount("cpuset"));
        FakeKernel::change(|kernel| kernel.effective = Some(mount));
    }

    /// Directory of a cgroup in the cpuset hierarchy.
    pub fn cpuset_folder(&self, path: &str) -> PathBuf {
        self.host_path(&format!("{}/{path}", self.mount("cpuset")))
    }

    fn host_path(&self, path: &str) -> PathBuf {
        self.root.path().join(path.trim_start_matches('/'))
    }

    pub fn write_host(&self, path: &str, text: &str) {
        let path = self.host_path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub fn read_host(&self, path: &str) -> String {
        let text = std::fs::read_to_string(self.host_path(path)).unwrap();
        text.trim().to_owned()
    }

    fn mount(&self, controller: &str) -> String {
        let name = if self.v1 { controller } else { "unified" };
        format!("/sys/fs/cgroup/{name}")
    }

    pub fn container(&self, id: u64, cpuset: &str) -> Arc<Container> {
        self.container_at(id, &id.to_string(), cpuset)
    }

    pub fn container_at(&self, id: u64, path: &str, cpuset: &str) -> Arc<Container> {
        self.write_host(
            &format!("{}/{path}/cpuset.cpus", self.mount("cpuset")),
            cpuset,
        );
        let (file, weight) = if self.v1 {
            ("cpu.shares", "1024")
        } else {
            ("cpu.weight", "100")
        };
        self.write_host(&format!("{}/{path}/{file}", self.mount("cpu")), weight);
        self.write_host(
            &format!("/sys/fs/cgroup/unified/{path}/cpu.stat"),
            "usage_usec 0\n",
        );
        let pid = 1000 + u32::try_from(id).unwrap();
        let line = format!("3:cpu:/{path}\n2:cpuset:/{path}\n0::/{path}\n");
        self.write_host(&format!("/proc/{pid}/cgroup"), &line);
        Arc::new(Container {
            pid: Some(pid),
            ..Container::plain(CgroupId(id), Path::new("/").join(path), format!("c{id}"))
        })
    }

    pub fn child(&self, of: u64, name: &str, cpuset: &str) {
        self.write(&format!("{of}/{name}/cpuset.cpus"), cpuset);
    }

    /// Writes a file of the cpuset controller (v1) or of the single hierarchy (v2).
    pub fn write(&self, file: &str, text: &str) {
        self.write_host(&format!("{}/{file}", self.mount("cpuset")), text);
    }

    pub fn remove(&self, file: &str) {
        std::fs::remove_file(self.host_path(&format!("{}/{file}", self.mount("cpuset")))).unwrap();
    }

    pub fn remove_all(&self, path: &str) {
        std::fs::remove_dir_all(self.host_path(&format!("{}/{path}", self.mount("cpu")))).unwrap();
    }

    /// Removes a container's cgroup in all hierarchies.
    pub fn remove_cgroup(&self, id: u64) {
        for directory in self.directories(id) {
            std::fs::remove_dir_all(directory).unwrap();
        }
    }

    /// Removes the files of a container's cgroup, and leaves its directories.
    pub fn remove_files(&self, id: u64) {
        for directory in self.directories(id) {
            for file in std::fs::read_dir(directory).unwrap().flatten() {
                std::fs::remove_file(file.path()).unwrap();
            }
        }
    }

    /// Renames a cgroup, so that a new one at its path has another inode.
    pub fn rename_cgroup(&self, id: u64) {
        for directory in self.directories(id) {
            std::fs::rename(&directory, directory.with_extension("old")).unwrap();
        }
    }

    fn directories(&self, id: u64) -> BTreeSet<PathBuf> {
        let directory = |c| self.host_path(&format!("{}/{id}", self.mount(c)));
        ["cpu", "cpuset"].map(directory).into()
    }

    pub fn cpuset(&self, id: u64) -> String {
        self.cpuset_at(&id.to_string())
    }

    pub fn cpuset_at(&self, path: &str) -> String {
        self.read_host(&format!("{}/{path}/cpuset.cpus", self.mount("cpuset")))
    }

    /// CPUs that the kernel gives a cgroup.
    pub fn effective(&self, path: &str) -> String {
        let name = if self.v1 {
            "cpuset.effective_cpus"
        } else {
            "cpuset.cpus.effective"
        };
        self.read_host(&format!("{}/{path}/{name}", self.mount("cpuset")))
    }

    pub fn weight(&self, path: &str) -> String {
        let name = if self.v1 { "cpu.shares" } else { "cpu.weight" };
        self.read_host(&format!("{}/{path}/{name}", self.mount("cpu")))
    }

    pub fn shares(&self, id: u64) -> String {
        self.read_host(&format!("{}/{id}/cpu.shares", self.mount("cpu")))
    }

    pub fn used(&self, id: u64, ms: u64) {
        let text = format!("usage_usec {}\n", ms * 1000);
        self.write_host(&format!("/sys/fs/cgroup/unified/{id}/cpu.stat"), &text);
    }

    pub fn journal(&self) -> (Journal, RevertReport) {
        Journal::open_on(HostFs::below(self.root.path()), self.journal.path()).unwrap()
    }

    pub fn start(&self, options: ReservationOptions) -> (Journal, Reservations) {
        let reservations = Reservations::new(HostFs::below(self.root.path()), options).unwrap();
        (self.journal().0, reservations)
    }

    /// All files of the host with their content.
    pub fn everything(&self) -> BTreeMap<PathBuf, String> {
        let mut files = BTreeMap::new();
        let mut folders = vec![self.root.path().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap().flatten() {
                if entry.path().is_dir() {
                    folders.push(entry.path());
                } else {
                    let text = std::fs::read_to_string(entry.path()).unwrap();
                    files.insert(entry.path(), text.trim().to_owned());
                }
            }
        }
        files
    }
}
