//! CPU use of cgroups, read through descriptors that stay open.

use crate::fs::HostFs;
use crate::layout::CgroupLayout;
use crate::{HostError, parse};
use cofferdam_types::{CgroupId, Container};
use nix::sys::resource::{Resource, getrlimit};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

struct Source {
    path: PathBuf,
    file: File,
    version: Version,
}

#[derive(Clone, Copy)]
enum Version {
    /// `cpu.stat`, microseconds after `usage_usec`.
    V2,
    /// `cpuacct.usage`, nanoseconds.
    V1,
}

/// Open files, one a container.
pub(crate) struct Usage {
    sources: HashMap<CgroupId, Source>,
    /// Descriptors to keep at most; beyond that a file is opened for each reading.
    limit: usize,
}

impl Usage {
    pub fn new() -> Usage {
        // Half of what the process may have: the rest is for maps, programs and sockets.
        let soft = getrlimit(Resource::RLIMIT_NOFILE).map_or(1024, |(soft, _)| soft);
        Usage {
            sources: HashMap::new(),
            limit: usize::try_from(soft / 2).unwrap_or(usize::MAX),
        }
    }

    pub fn forget(&mut self, cgroup: CgroupId) {
        self.sources.remove(&cgroup);
    }

    /// CPU time billed to the container's cgroup and all below it, nanoseconds.
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
            // Gone, or (v1) made anew: try once more from the path.
            self.sources.remove(&cgroup);
        }
        let source = open(fs, layout, container)?;
        let ns = source.read_ns().map_err(HostError::reading(&source.path))?;
        if self.sources.len() < self.limit {
            self.sources.insert(cgroup, source);
        }
        Ok(ns)
    }
}

impl Source {
    fn read_ns(&self) -> io::Result<u64> {
        let mut buffer = [0u8; 1024];
        let length = self.file.read_at(&mut buffer, 0)?;
        let text = String::from_utf8_lossy(buffer.get(..length).unwrap_or(&[]));
        let ns = match self.version {
            Version::V2 => parse::cpu_stat_usage_us(&text).and_then(|us| us.checked_mul(1000)),
            Version::V1 => text.trim().parse().ok(),
        };
        ns.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "no CPU time in it"))
    }
}

fn open(fs: &HostFs, layout: &CgroupLayout, container: &Container) -> Result<Source, HostError> {
    let path = layout.v2_directory(&container.cgroup_path).join("cpu.stat");
    let v2 = fs.open(&path).map(|file| Source {
        path: path.clone(),
        file,
        version: Version::V2,
    });
    // Without the cpu controller, kernels before 4.15 have no usage in the v2 hierarchy.
    match v2 {
        Ok(source) if source.read_ns().is_ok() => Ok(source),
        Ok(_) | Err(_) if layout.is_hybrid() => v1(fs, layout, container)
            .ok_or_else(|| HostError::reading(&path)(io::ErrorKind::NotFound.into())),
        Ok(source) => Ok(source),
        Err(e) => Err(HostError::reading(&path)(e)),
    }
}

fn v1(fs: &HostFs, layout: &CgroupLayout, container: &Container) -> Option<Source> {
    let text = fs
        .read_text(format!("/proc/{}/cgroup", container.pid?))
        .ok()?;
    let cgroup = parse::proc_cgroup_v1(&text, "cpuacct")?;
    // The root's own count is the whole host's.
    let directory = layout
        .v1_directory("cpuacct", &cgroup)
        .filter(|_| cgroup.parent().is_some())?;
    let path = directory.join("cpuacct.usage");
    let file = fs.open(&path).ok()?;
    Some(Source {
        path,
        file,
        version: Version::V1,
    })
}

#[cfg(test)]
mod tests;
