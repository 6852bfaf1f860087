//! Bounded, non-blocking reads below a root directory: `/` on a host, a temporary directory in
//! tests. Counts its own work, so that tests can distinguish an event from a scan.

use cofferdam_types::NetnsId;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Size limit for small files: procfs, cgroupfs, one container's state.
pub(crate) const SMALL_BYTES: u64 = 4 << 20;

/// Files of a host, seen through a root directory.
#[derive(Debug)]
pub struct HostFs {
    root: PathBuf,
    operations: AtomicU64,
}

impl HostFs {
    /// Returns the files of this process's host.
    pub fn host() -> HostFs {
        HostFs::below("/")
    }

    /// Returns a copy of a host's files below `root`; absolute paths start there.
    pub fn below(root: impl Into<PathBuf>) -> HostFs {
        HostFs {
            root: root.into(),
            operations: AtomicU64::new(0),
        }
    }

    /// Converts `absolute` to a path that this process can open.
    pub fn path(&self, absolute: impl AsRef<Path>) -> PathBuf {
        let absolute = absolute.as_ref();
        self.root
            .join(absolute.strip_prefix("/").unwrap_or(absolute))
    }

    /// Returns the number of files opened, directories read, links and inodes looked up so far.
    pub fn operations(&self) -> u64 {
        self.operations.load(Ordering::Relaxed)
    }

    fn count(&self) {
        self.operations.fetch_add(1, Ordering::Relaxed);
    }

    /// Reads the first `max_bytes` of a regular file. Never blocks on a FIFO or a device in its
    /// place.
    pub fn read(&self, absolute: impl AsRef<Path>, max_bytes: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.open(absolute)?
            .take(max_bytes)
            .read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Reads text of up to 4 MiB as [`HostFs::read`] does; replaces bytes that are not UTF-8.
    pub fn read_text(&self, absolute: impl AsRef<Path>) -> io::Result<String> {
        let bytes = self.read(absolute, SMALL_BYTES)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Opens a regular file for reading.
    pub fn open(&self, absolute: impl AsRef<Path>) -> io::Result<File> {
        self.count();
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_CLOEXEC)
            .open(self.path(absolute))?;
        if file.metadata()?.is_file() {
            Ok(file)
        } else {
            Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "not a regular file",
            ))
        }
    }

    /// Lists the directories (links not followed) in a directory, in no order.
    pub fn directories(&self, absolute: impl AsRef<Path>) -> io::Result<Vec<PathBuf>> {
        self.count();
        let mut names = Vec::new();
        for entry in std::fs::read_dir(self.path(absolute))? {
            let Ok(entry) = entry else { continue };
            if entry.file_type().is_ok_and(|t| t.is_dir()) {
                names.push(PathBuf::from(entry.file_name()));
            }
        }
        Ok(names)
    }

    /// Lists everything in a directory, sorted.
    pub fn names(&self, absolute: impl AsRef<Path>) -> io::Result<Vec<PathBuf>> {
        self.count();
        let mut names: Vec<PathBuf> = std::fs::read_dir(self.path(absolute))?
            .filter_map(|e| e.ok().map(|e| PathBuf::from(e.file_name())))
            .collect();
        names.sort();
        Ok(names)
    }

    /// Returns the inode number of a file or directory, links followed.
    pub fn inode(&self, absolute: impl AsRef<Path>) -> io::Result<u64> {
        self.count();
        Ok(std::fs::metadata(self.path(absolute))?.ino())
    }

    /// Whether the path exists.
    pub fn exists(&self, absolute: impl AsRef<Path>) -> bool {
        self.count();
        self.path(absolute).symlink_metadata().is_ok()
    }

    /// Returns the network namespace of a process; `None` if it has ended or is not accessible.
    pub fn netns_of(&self, pid: u32) -> Option<NetnsId> {
        self.netns_link(format!("/proc/{pid}/ns/net"))
    }

    /// Returns the link to the PID namespace of a process; `None` if it has ended or is not
    /// accessible.
    pub(crate) fn pid_namespace_of(&self, pid: u32) -> Option<PathBuf> {
        self.count();
        std::fs::read_link(self.path(format!("/proc/{pid}/ns/pid"))).ok()
    }

    /// Returns the start of a process, in ticks since the boot; `None` if it has ended.
    pub fn start_of(&self, pid: u32) -> Option<u64> {
        let stat = self.read(format!("/proc/{pid}/stat"), SMALL_BYTES);
        crate::procfs::stat_start(&stat.ok()?)
    }

    /// Returns the network namespace that a `/proc/…/ns/net` link names.
    pub fn netns_link(&self, absolute: impl AsRef<Path>) -> Option<NetnsId> {
        self.count();
        let target = std::fs::read_link(self.path(absolute)).ok()?;
        crate::procfs::netns_link(target.to_str()?)
    }
}
