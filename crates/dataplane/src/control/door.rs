//! The socket at which applications attach.

use cofferdam_paths::{SocketAccess, SocketKind, UnixSocket};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

/// The socket; its file goes when this is dropped.
pub(super) struct Door(UnixSocket);

impl Door {
    /// Opens it: any user may connect, and the configuration says which may attach. The socket of a
    /// killed dataplane is replaced.
    ///
    /// # Errors
    /// A process listens there; the path has something that is no socket; no rights.
    pub fn open(path: &Path) -> io::Result<Door> {
        let socket = UnixSocket::listen(path, SocketKind::SeqPacket, SocketAccess::Everybody);
        socket.map(Door).map_err(io::Error::other)
    }
}

impl AsFd for Door {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
