//! CPU time of a container's cgroup, read through files that stay open.

use super::{Directory, Place};
use cofferdam_host::{CpuUsage, HostFs};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// File in which the kernel counts a cgroup's CPU time.
#[derive(Debug)]
pub(in crate::network) enum UsageFile {
    /// `cpuacct.usage_percpu` of v1.
    ByCpu(File),
    /// The sum, where only v2 counts.
    Sum(CpuUsage),
}

/// CPU time that a cgroup was billed, nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::network) struct BilledTime {
    /// Time on each CPU; empty where only v2 counts.
    pub by_cpu_ns: Vec<u64>,
    pub all_ns: u64,
}

impl Place {
    /// Opens the file with its CPU time; `None` if there is none, as when the cgroup is gone.
    pub fn open_usage(&self) -> Option<UsageFile> {
        let mut directories = self.directories.iter().map(Directory::full);
        let by_cpu = directories.find_map(|d| File::open(d.join("cpuacct.usage_percpu")).ok());
        by_cpu.map(UsageFile::ByCpu).or_else(|| {
            let directory = self.directories.first()?.full();
            open_sum(&directory).map(UsageFile::Sum)
        })
    }
}

/// Opens the file with the CPU time of a cgroup's directory.
pub(in crate::network) fn open_sum(directory: &Path) -> Option<CpuUsage> {
    CpuUsage::open(&HostFs::host(), directory).ok()
}

impl UsageFile {
    /// Reads the file; `None` once the cgroup is gone.
    pub fn read(&self) -> Option<BilledTime> {
        match self {
            UsageFile::ByCpu(file) => by_cpu(&read_all(file)?),
            UsageFile::Sum(usage) => Some(BilledTime {
                by_cpu_ns: Vec::new(),
                all_ns: usage.read_ns().ok()?,
            }),
        }
    }
}

fn by_cpu(text: &[u8]) -> Option<BilledTime> {
    let text = std::str::from_utf8(text).ok()?;
    let numbers = text.split_whitespace().map(str::parse);
    let by_cpu_ns = numbers.collect::<Result<Vec<u64>, _>>().ok()?;
    Some(BilledTime {
        all_ns: by_cpu_ns.iter().sum(),
        by_cpu_ns,
    })
}

/// Content of a kernel file from its beginning.
fn read_all(file: &File) -> Option<Vec<u8>> {
    let mut text = vec![0; 1024];
    let mut length = 0;
    loop {
        match file.read_at(text.get_mut(length..)?, length as u64).ok()? {
            0 => break,
            read => length += read,
        }
        if length == text.len() {
            text.resize(2 * length, 0);
        }
    }
    text.truncate(length);
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn place(mount: &Path) -> Place {
        Place {
            directories: vec![Directory {
                mount: mount.to_owned(),
                path: "/one".into(),
            }],
            cpu: None,
            cpuset: None,
            is_pods: false,
        }
    }

    /// More CPUs than one read returns.
    #[test]
    fn the_time_on_each_cpu_is_read_repeatedly() {
        let mount = tempfile::tempdir().unwrap();
        let file = mount.path().join("one/cpuacct.usage_percpu");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        assert!(place(mount.path()).open_usage().is_none());
        let write = |ns: u64| fs::write(&file, format!("{ns} ").repeat(300) + "\n").unwrap();
        write(1_000_000_000);
        let open = place(mount.path()).open_usage().unwrap();
        for ns in [1_000_000_000, 9_999_999_999] {
            write(ns);
            let read = open.read().unwrap();
            assert_eq!((read.by_cpu_ns, read.all_ns), (vec![ns; 300], 300 * ns));
        }
        fs::write(&file, "none\n").unwrap();
        assert_eq!(open.read(), None);
    }

    #[test]
    fn only_the_sum_is_read_from_v2() {
        let mount = tempfile::tempdir().unwrap();
        let file = mount.path().join("one/cpu.stat");
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "usage_usec 7\nuser_usec 5\n").unwrap();
        let open = place(mount.path()).open_usage().unwrap();
        let read = open.read().unwrap();
        assert_eq!((read.by_cpu_ns, read.all_ns), (vec![], 7_000));
        fs::write(&file, "").unwrap();
        assert_eq!(open.read(), None);
    }
}
