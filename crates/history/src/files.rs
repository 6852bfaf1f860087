//! Watch of an open store's files, for interference by other programs.
//!
//! Nothing here opens them. SQLite's locks are POSIX record locks: a process that closes any
//! descriptor of a file loses all of its locks on it. The next program that closes the store would
//! then consider itself the last one and delete the log.

use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Suffixes of the write-ahead log and its index.
pub(crate) const LOG_SUFFIXES: [&str; 2] = ["-wal", "-shm"];
/// Suffix of the lock file that excludes a second writer.
pub(crate) const LOCK_SUFFIX: &str = "-lock";

/// Path with a suffix appended to its name.
pub(crate) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Paths of the write-ahead log of the store at `path`, and of its index.
pub(crate) fn log_files(path: &Path) -> [PathBuf; 2] {
    LOG_SUFFIXES.map(|suffix| with_suffix(path, suffix))
}

/// Effect of another program on the files of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// No effect.
    Nothing,
    /// A file has other contents: a checkpoint by another program, or something worse.
    Written,
    /// A path no longer names the open file.
    Gone(PathBuf),
}

/// Files of a store, in the state after its last write.
#[derive(Debug)]
pub(crate) struct Files(Vec<WatchedFile>);

#[derive(Debug)]
struct WatchedFile {
    path: PathBuf,
    state: FileState,
    /// Whether only the store writes to it, so that its times mean something. Readers write to the
    /// index.
    is_written_here_alone: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileState {
    /// Device and inode.
    id: (u64, u64),
    bytes: u64,
    /// Time of the last write: seconds and nanoseconds.
    written: (i64, i64),
}

impl FileState {
    fn of(path: &Path) -> io::Result<FileState> {
        let meta = std::fs::metadata(path)?;
        Ok(FileState {
            id: (meta.dev(), meta.ino()),
            bytes: meta.len(),
            written: (meta.mtime(), meta.mtime_nsec()),
        })
    }
}

impl Files {
    /// Reads the state of the files of the open store at `path`. The log may be missing: on some
    /// file systems SQLite works without one.
    ///
    /// # Errors
    /// The store's file or its lock does not exist.
    pub fn of(path: &Path) -> io::Result<Files> {
        let mut files = Vec::new();
        let mut watch = |suffix: &str, is_needed: bool| {
            let path = with_suffix(path, suffix);
            match FileState::of(&path) {
                Ok(state) => files.push(WatchedFile {
                    path,
                    state,
                    is_written_here_alone: matches!(suffix, "" | "-wal"),
                }),
                Err(e) if e.kind() == ErrorKind::NotFound && !is_needed => {}
                Err(e) => return Err(e),
            }
            Ok(())
        };
        watch("", true)?;
        for suffix in LOG_SUFFIXES {
            watch(suffix, false)?;
        }
        watch(LOCK_SUFFIX, true)?;
        Ok(Files(files))
    }

    /// Compares the files with their recorded state.
    pub fn compare(&self) -> Change {
        let mut change = Change::Nothing;
        for file in &self.0 {
            match FileState::of(&file.path) {
                Ok(now) if now.id != file.state.id => return Change::Gone(file.path.clone()),
                Ok(now) if now != file.state && file.is_written_here_alone => {
                    change = Change::Written;
                }
                Ok(_) => {}
                Err(_) => return Change::Gone(file.path.clone()),
            }
        }
        change
    }

    /// Records the state after a write of the store itself.
    pub fn update(&mut self) {
        for file in &mut self.0 {
            if let Ok(now) = FileState::of(&file.path)
                && now.id == file.state.id
            {
                file.state = now;
            }
        }
    }
}
