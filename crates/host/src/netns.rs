//! Runs work inside another network namespace, on a thread of its own.

use crate::HostError;
use crate::fs::HostFs;
use cofferdam_types::NetnsId;
use nix::sched::{CloneFlags, setns};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Directory of the names that `ip netns add` makes.
pub(crate) const NAMED: &str = "/run/netns";

/// File of the caller's own namespace.
pub(crate) const OWN: &str = "/proc/self/ns/net";

/// Returns the host's network namespace: that of init or, if init is not accessible, the caller's.
pub fn host_netns(fs: &HostFs) -> Result<NetnsId, HostError> {
    host(fs).map(|(_, netns)| netns)
}

/// Returns the host's namespace, and a file of it.
pub(crate) fn host(fs: &HostFs) -> Result<(&'static str, NetnsId), HostError> {
    let init = "/proc/1/ns/net";
    if let Some(netns) = fs.netns_link(init) {
        return Ok((init, netns));
    }
    let missing = || HostError::reading(OWN)(io::ErrorKind::NotFound.into());
    fs.netns_link(OWN)
        .map(|netns| (OWN, netns))
        .ok_or_else(missing)
}

/// Runs `work` in the namespace `file`. The calling thread stays in its own: a thread that failed
/// to come back would run later work in the wrong namespace.
pub fn in_namespace<T: Send>(file: &File, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name("cofferdam-netns".into());
        let handle = thread.spawn_scoped(scope, || {
            setns(file, CloneFlags::CLONE_NEWNET)?;
            Ok(work())
        })?;
        handle
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Opens the file of a namespace, if it still belongs to `expected`: a process id may have been
/// reused.
pub fn open(file: &Path, expected: NetnsId) -> io::Result<File> {
    let file = File::open(file)?;
    if file.metadata()?.ino() == u64::from(expected.0) {
        Ok(file)
    } else {
        Err(io::Error::new(
            io::ErrorKind::NotFound,
            "a different namespace by now",
        ))
    }
}

/// Lists the namespaces that have a name under `/run/netns`, with their files.
pub(crate) fn named(fs: &HostFs) -> Vec<(PathBuf, NetnsId)> {
    let names = fs.names(NAMED).unwrap_or_default();
    let files = names.into_iter().map(|name| Path::new(NAMED).join(name));
    files
        .filter_map(|file| netns_of_file(fs, &file).map(|netns| (file, netns)))
        .collect()
}

/// Returns the namespace that is mounted on `file`.
pub(crate) fn netns_of_file(fs: &HostFs, file: &Path) -> Option<NetnsId> {
    u32::try_from(fs.inode(file).ok()?).ok().map(NetnsId)
}

/// Finds a file of a namespace: of the process `pid` if it is in it, of a name, or of any process
/// in it.
///
/// # Errors
/// The namespace has ended.
pub fn find_namespace(netns: NetnsId, pid: Option<u32>) -> io::Result<File> {
    let expected = pid.map(of_process).into_iter();
    for path in expected.chain(files_of_namespaces()) {
        let matches = fs::metadata(&path).is_ok_and(|m| m.ino() == u64::from(netns.0));
        // The file is checked again after opening: a process id may have been reused.
        if matches && let Ok(file) = open(&path, netns) {
            return Ok(file);
        }
    }
    let message = "the network namespace is gone";
    Err(io::Error::new(io::ErrorKind::NotFound, message))
}

fn of_process(pid: u32) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/ns/net"))
}

/// Iterates over files of namespaces: the caller's, named ones, and those of all processes. One
/// namespace may have many.
fn files_of_namespaces() -> impl Iterator<Item = PathBuf> {
    let named = names(NAMED).map(|name| Path::new(NAMED).join(name));
    let processes =
        names("/proc").filter_map(|name| Some(of_process(name.to_str()?.parse().ok()?)));
    std::iter::once(PathBuf::from(OWN))
        .chain(named)
        .chain(processes)
}

/// Lists all network namespaces that have a name or a process, with a file of each.
pub fn namespaces() -> BTreeMap<NetnsId, PathBuf> {
    let mut found = BTreeMap::new();
    for path in files_of_namespaces() {
        let inode = fs::metadata(&path).map(|m| u32::try_from(m.ino()));
        if let Ok(Ok(inode)) = inode {
            found.entry(NetnsId(inode)).or_insert(path);
        }
    }
    found
}

fn names(directory: &str) -> impl Iterator<Item = std::ffi::OsString> + use<> {
    let entries = fs::read_dir(directory).into_iter().flatten();
    entries.filter_map(|entry| Some(entry.ok()?.file_name()))
}
