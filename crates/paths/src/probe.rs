//! Detection of what stands at the path of a socket.

use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// State of a path at which a process wants to listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occupant {
    /// The path names nothing.
    Nothing,
    /// A socket of any type at which a process listens.
    Live,
    /// A socket at which no process listens.
    Dead,
    /// Something other than a socket; a symbolic link too.
    Foreign,
}

/// Looks at `path` and changes nothing. A process that has bound its socket but does not listen yet
/// counts as dead.
///
/// # Errors
/// The path cannot be read, or this user may not connect.
pub fn occupant(path: &Path) -> io::Result<Occupant> {
    match fs::symlink_metadata(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Occupant::Nothing),
        Err(e) => return Err(e),
        Ok(meta) if !meta.file_type().is_socket() => return Ok(Occupant::Foreign),
        Ok(_) => {}
    }
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let probe = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    match connect(probe.as_raw_fd(), &UnixAddr::new(path)?) {
        // EAGAIN: the backlog is full. EPROTOTYPE: the socket has another type.
        Ok(()) | Err(Errno::EAGAIN | Errno::EPROTOTYPE) => Ok(Occupant::Live),
        Err(Errno::ECONNREFUSED) => Ok(Occupant::Dead),
        Err(Errno::ENOENT) => Ok(Occupant::Nothing),
        Err(errno) => Err(errno.into()),
    }
}
