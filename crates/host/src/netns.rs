//! Work inside another network namespace, on a thread that exists only for that.

use crate::HostError;
use crate::fs::HostFs;
use cofferdam_types::NetnsId;
use nix::sched::{CloneFlags, setns};
use std::fs::File;
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
pub(crate) fn open(file: &Path, expected: NetnsId) -> io::Result<File> {
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
