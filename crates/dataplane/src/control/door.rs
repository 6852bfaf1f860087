//! The socket at which applications attach.

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, listen, socket,
};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The socket, and its file.
pub(super) struct Door {
    socket: OwnedFd,
    path: PathBuf,
}

impl Door {
    /// Opens it. A socket file that a killed dataplane left is replaced.
    ///
    /// # Errors
    /// Another dataplane listens there; no rights.
    pub fn open(path: &Path) -> io::Result<Door> {
        Ok(Door {
            socket: open_socket(path)?,
            path: path.to_owned(),
        })
    }

    /// Nobody can attach any more: the file goes, and its folder if it is empty.
    pub fn close(self) {
        let _ = std::fs::remove_file(&self.path);
        cofferdam_host::leave_run_folder(&self.path);
    }
}

impl AsFd for Door {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Listens at `path`, in place of a socket file that a killed dataplane left.
fn open_socket(path: &Path) -> io::Result<OwnedFd> {
    let named = |e: io::Error| io::Error::new(e.kind(), format!("{}: {e}", path.display()));
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let make = || socket(AddressFamily::Unix, SockType::SeqPacket, flags, None);
    let address = UnixAddr::new(path)
        .map_err(io::Error::from)
        .map_err(named)?;
    let probe = make()?;
    match nix::sys::socket::connect(probe.as_raw_fd(), &address) {
        Ok(()) | Err(Errno::EAGAIN) => {
            let text =
                "another dataplane listens there: stop it first, or set another `socket` here";
            return Err(named(io::Error::new(io::ErrorKind::AddrInUse, text)));
        }
        Err(_) => {}
    }
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(named)?;
    }
    if let Err(e) = std::fs::remove_file(path)
        && e.kind() != io::ErrorKind::NotFound
    {
        return Err(named(e));
    }
    let fd = make()?;
    bind(fd.as_raw_fd(), &address)
        .map_err(io::Error::from)
        .map_err(named)?;
    // Any user may connect; the configuration says which may attach.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666)).map_err(named)?;
    cofferdam_host::refuse_descriptors(&fd);
    listen(&fd, Backlog::MAXCONN)?;
    Ok(fd)
}
