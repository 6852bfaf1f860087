//! Sockets at which clients connect.
//!
//! A flood of connections fills the backlog of a socket, so that new clients have to wait. Root has
//! a socket of its own, which no other user can open, so that a flood does not delay its requests.

use crate::attach::root_socket;
use cofferdam_paths::{SocketAccess, SocketKind, UnixSocket};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

/// A socket of the control plane. Dropping it removes its file.
pub(super) struct Door(UnixSocket);

impl Door {
    /// Opens the socket of all users. The configuration says who may attach. The socket of a killed
    /// dataplane is replaced.
    ///
    /// # Errors
    /// A process listens there; the path names something other than a socket; missing rights.
    pub fn open(path: &Path) -> io::Result<Door> {
        Door::open_for(path, SocketAccess::Everybody)
    }

    /// Opens the socket of root and of the dataplane's own user, next to the one at `path`.
    ///
    /// # Errors
    /// Errors of [`Door::open`].
    pub fn open_for_root(path: &Path) -> io::Result<Door> {
        Door::open_for(&root_socket(path), SocketAccess::Owner)
    }

    fn open_for(path: &Path, access: SocketAccess) -> io::Result<Door> {
        let socket = UnixSocket::listen(path, SocketKind::SeqPacket, access);
        socket.map(Door).map_err(io::Error::other)
    }
}

impl AsFd for Door {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
