//! Work inside another network namespace, on a thread that exists only for that.

use crate::HostError;
use crate::fs::HostFs;
use cofferdam_types::NetnsId;
use nix::sched::{CloneFlags, setns};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Directory in which `ip netns add` keeps names.
pub(crate) const NAMED: &str = "/run/netns";

/// The caller's own namespace.
pub(crate) const OWN: &str = "/proc/self/ns/net";

/// The host's network namespace: that of its init or, if init is not accessible, the caller's own.
pub fn host_netns(fs: &HostFs) -> Result<NetnsId, HostError> {
    host(fs).map(|(_, netns)| netns)
}

/// The host's namespace, and the file that stands for it.
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

/// Runs `work` in the namespace that `file` stands for. The calling thread stays where it is:
/// a thread that failed to come back would poison whatever runs on it next.
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

/// Opens the file of a namespace, if it still stands for `expected`: a process id may have
/// been given to another process since.
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

/// The namespaces that have a name under `/run/netns`, with their files.
pub(crate) fn named(fs: &HostFs) -> Vec<(PathBuf, NetnsId)> {
    let names = fs.names(NAMED).unwrap_or_default();
    let files = names.into_iter().map(|name| Path::new(NAMED).join(name));
    files
        .filter_map(|file| netns_of_file(fs, &file).map(|netns| (file, netns)))
        .collect()
}

/// The namespace that is mounted on `file`.
pub(crate) fn netns_of_file(fs: &HostFs, file: &Path) -> Option<NetnsId> {
    u32::try_from(fs.inode(file).ok()?).ok().map(NetnsId)
}

/// A file that stands for a namespace: that of a process expected in it, one with a name, or
/// that of whatever process is in it.
///
/// # Errors
/// None is left.
pub fn find_namespace(netns: NetnsId, pid: Option<u32>) -> io::Result<File> {
    let expected = pid.map(of_process).into_iter();
    for path in expected.chain(files_of_namespaces()) {
        let matches = fs::metadata(&path).is_ok_and(|m| m.ino() == u64::from(netns.0));
        // Opened, then looked at again: a process id may have changed hands.
        if matches && let Ok(file) = open(&path, netns) {
            return Ok(file);
        }
    }
    let gone = "the network namespace is gone";
    Err(io::Error::new(io::ErrorKind::NotFound, gone))
}

fn of_process(pid: u32) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/ns/net"))
}

/// The caller's, those that have a name, and those of all processes; one namespace may have many.
fn files_of_namespaces() -> impl Iterator<Item = PathBuf> {
    let named = names(NAMED).map(|name| Path::new(NAMED).join(name));
    let processes =
        names("/proc").filter_map(|name| Some(of_process(name.to_str()?.parse().ok()?)));
    std::iter::once(PathBuf::from(OWN))
        .chain(named)
        .chain(processes)
}

/// All network namespaces that have a name or a process, with a file that stands for each now.
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
