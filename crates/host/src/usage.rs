//! CPU use of cgroups, read through descriptors that stay open.

use crate::fs::HostFs;
use crate::layout::CgroupLayout;
use crate::{HostError, procfs};
use cofferdam_types::{CgroupId, Container};
use nix::sys::resource::{Resource, getrlimit};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// File in which a cgroup counts the CPU time billed to it and all below it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpuUsageFile {
    /// v1's `cpuacct.usage`, nanoseconds.
    V1,
    /// v2's `cpu.stat`, microseconds after `usage_usec`.
    V2,
}

impl CpuUsageFile {
    /// Returns its name in the cgroup's directory.
    pub fn name(self) -> &'static str {
        match self {
            CpuUsageFile::V1 => "cpuacct.usage",
            CpuUsageFile::V2 => "cpu.stat",
        }
    }

    /// Parses the CPU time in the file's text, nanoseconds.
    pub fn parse_ns(self, text: &str) -> Option<u64> {
        match self {
            CpuUsageFile::V1 => text.trim().parse().ok(),
            CpuUsageFile::V2 => procfs::cpu_stat_usage_us(text)?.checked_mul(1000),
        }
    }
}

/// CPU time of one cgroup, read through a descriptor that stays open.
#[derive(Debug)]
pub struct CpuUsage {
    path: PathBuf,
    file: File,
    kind: CpuUsageFile,
}

impl CpuUsage {
    /// Opens the file of the cgroup in `directory`: `cpuacct.usage` or, if that is missing,
    /// `cpu.stat`.
    ///
    /// # Errors
    /// Neither can be opened.
    pub fn open(fs: &HostFs, directory: &Path) -> Result<CpuUsage, HostError> {
        CpuUsage::open_kind(fs, directory, CpuUsageFile::V1)
            .or_else(|_| CpuUsage::open_kind(fs, directory, CpuUsageFile::V2))
    }

    fn open_kind(fs: &HostFs, directory: &Path, kind: CpuUsageFile) -> Result<CpuUsage, HostError> {
        let path = directory.join(kind.name());
        let file = fs.open(&path).map_err(HostError::reading(&path))?;
        Ok(CpuUsage { path, file, kind })
    }

    /// Reads the CPU time so far, nanoseconds.
    ///
    /// # Errors The cgroup was removed, or the file has no CPU time: a v2 cgroup without the cpu
    /// controller, before Linux 4.15.
    pub fn read_ns(&self) -> Result<u64, HostError> {
        let mut buffer = [0; 1024];
        let read = self.file.read_at(&mut buffer, 0);
        let length = read.map_err(HostError::reading(&self.path))?;
        let text = String::from_utf8_lossy(buffer.get(..length).unwrap_or(&[]));
        self.kind.parse_ns(&text).ok_or_else(|| {
            let none = io::Error::new(io::ErrorKind::InvalidData, "no CPU time in it");
            HostError::reading(&self.path)(none)
        })
    }
}

/// Open files, one per container.
pub(crate) struct Usage {
    sources: HashMap<CgroupId, CpuUsage>,
    /// Most descriptors to keep; beyond that a file is opened for each reading.
    limit: usize,
}

impl Usage {
    pub fn new() -> Usage {
        // Half of the process's limit: the rest is for maps, programs and sockets.
        let soft = getrlimit(Resource::RLIMIT_NOFILE).map_or(1024, |(soft, _)| soft);
        Usage {
            sources: HashMap::new(),
            limit: usize::try_from(soft / 2).unwrap_or(usize::MAX),
        }
    }

    pub fn forget(&mut self, cgroup: CgroupId) {
        self.sources.remove(&cgroup);
    }

    /// Reads the CPU time billed to the container's cgroup and all below it, nanoseconds.
    pub fn read_ns(
        &mut self,
        fs: &HostFs,
        layout: &CgroupLayout,
        container: &Container,
    ) -> Result<u64, HostError> {
        let cgroup = container.cgroup;
        if let Some(source) = self.sources.get(&cgroup) {
            if let Ok(ns) = source.read_ns() {
                return Ok(ns);
            }
            // Removed, or (v1) made again: one more try from the path.
            self.sources.remove(&cgroup);
        }
        let source = open(fs, layout, container)?;
        let ns = source.read_ns()?;
        if self.sources.len() < self.limit {
            self.sources.insert(cgroup, source);
        }
        Ok(ns)
    }
}

/// Reads the CPU time of the v2 cgroup at `path` and all below it, nanoseconds, through a temporary
/// descriptor.
pub(crate) fn once_ns(fs: &HostFs, layout: &CgroupLayout, path: &Path) -> Option<u64> {
    let usage = CpuUsage::open_kind(fs, &layout.v2_directory(path), CpuUsageFile::V2);
    usage.and_then(|usage| usage.read_ns()).ok()
}

fn open(fs: &HostFs, layout: &CgroupLayout, container: &Container) -> Result<CpuUsage, HostError> {
    let directory = layout.v2_directory(&container.cgroup_path);
    let v2 = CpuUsage::open_kind(fs, &directory, CpuUsageFile::V2);
    if !layout.is_hybrid() || v2.as_ref().is_ok_and(|usage| usage.read_ns().is_ok()) {
        return v2;
    }
    v1(fs, layout, container).ok_or_else(|| {
        let path = directory.join(CpuUsageFile::V2.name());
        HostError::reading(path)(io::ErrorKind::NotFound.into())
    })
}

fn v1(fs: &HostFs, layout: &CgroupLayout, container: &Container) -> Option<CpuUsage> {
    let text = fs
        .read_text(format!("/proc/{}/cgroup", container.pid?))
        .ok()?;
    let cgroup = procfs::proc_cgroup_v1(&text, "cpuacct")?;
    // The root's own count is the whole host's.
    let directory = layout
        .v1_directory("cpuacct", &cgroup)
        .filter(|_| cgroup.parent().is_some())?;
    CpuUsage::open_kind(fs, &directory, CpuUsageFile::V1).ok()
}

#[cfg(test)]
mod tests;
