//! Unix sockets that listen at a path.

use crate::folder::{RUN_FOLDER, make_folder_of};
use crate::probe::{Occupant, occupant};
use nix::fcntl::{AtFlags, OFlag, open};
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, listen, socket,
};
use nix::sys::stat::{Mode, fchmod};
use nix::unistd::{Gid, fchownat};
use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Option of a Unix socket that controls whether it accepts descriptors (SCM_RIGHTS). Linux 6.16,
/// commit 0e81cfd971dc.
const SO_PASSRIGHTS: libc::c_int = 83;
/// Longest time between bind(2) and listen(2) of a starting process.
const STARTING: Duration = Duration::from_millis(50);

/// Users who may connect to a socket, besides root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketAccess {
    /// The owner of the process.
    Owner,
    /// Members of a group, by its number.
    Group(u32),
    /// All users.
    Everybody,
}

/// Type of a Unix socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketKind {
    /// SOCK_STREAM.
    Stream,
    /// SOCK_SEQPACKET.
    SeqPacket,
}

/// The reason why a process cannot listen at a path.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// A process listens there.
    #[error("another process listens on {}: end it, or give another path", .0.display())]
    Taken(PathBuf),
    /// The path names something other than a socket.
    #[error(
        "{} exists and is not a socket: it is left as it is; move it away, or give another path",
        .0.display()
    )]
    Foreign(PathBuf),
    /// A system call failed.
    #[error("cannot listen on {}: {source}", path.display())]
    Failed {
        /// Path of the socket.
        path: PathBuf,
        /// Error of the system call.
        source: io::Error,
    },
}

/// A Unix socket that listens at a path and does not block. Its peers cannot send descriptors.
#[derive(Debug)]
pub struct UnixSocket {
    socket: OwnedFd,
    file: SocketFile,
}

/// File of a socket. Dropping it removes the file, unless another process has replaced it.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    /// Device and inode of the file.
    id: (u64, u64),
    /// The folder did not exist before the socket.
    has_own_folder: bool,
}

impl UnixSocket {
    /// Listens at `path` and creates its folder if it is missing. Replaces the socket of a dead
    /// process. No peer can connect before `access` applies.
    ///
    /// # Errors
    /// [`ListenError`]. The file at the path stays in that case.
    pub fn listen(
        path: &Path,
        kind: SocketKind,
        access: SocketAccess,
    ) -> Result<UnixSocket, ListenError> {
        let failed = |source: io::Error| match source.kind() {
            ErrorKind::AddrInUse => ListenError::Taken(path.to_owned()),
            _ => ListenError::Failed {
                path: path.to_owned(),
                source,
            },
        };
        clear(path)?;
        let has_own_folder = make_folder_of(path).map_err(failed)?;
        bind_at(path, kind, access, has_own_folder).map_err(failed)
    }

    /// Returns the socket and its file. The file must live as long as the socket.
    pub fn into_parts(self) -> (OwnedFd, SocketFile) {
        (self.socket, self.file)
    }
}

impl AsFd for UnixSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Removes the socket of a dead process at `path`. Refuses everything else.
fn clear(path: &Path) -> Result<(), ListenError> {
    let failed = |source: io::Error| ListenError::Failed {
        path: path.to_owned(),
        source,
    };
    let mut found = occupant(path).map_err(failed)?;
    if found == Occupant::Dead {
        // The process may be about to listen.
        std::thread::sleep(STARTING);
        found = occupant(path).map_err(failed)?;
    }
    match found {
        Occupant::Nothing => Ok(()),
        Occupant::Live => Err(ListenError::Taken(path.to_owned())),
        Occupant::Foreign => Err(ListenError::Foreign(path.to_owned())),
        Occupant::Dead => fs::remove_file(path).map_err(failed),
    }
}

fn bind_at(
    path: &Path,
    kind: SocketKind,
    access: SocketAccess,
    has_own_folder: bool,
) -> io::Result<UnixSocket> {
    let kind = match kind {
        SocketKind::Stream => SockType::Stream,
        SocketKind::SeqPacket => SockType::SeqPacket,
    };
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket(AddressFamily::Unix, kind, flags, None)?;
    // The file gets the mode of its socket, so that no other user can connect at any time.
    fchmod(&socket, Mode::from_bits_truncate(0o600))?;
    refuse_descriptors(&socket);
    bind(socket.as_raw_fd(), &UnixAddr::new(path)?)?;
    let meta = fs::symlink_metadata(path)?;
    let file = SocketFile {
        path: path.to_owned(),
        id: (meta.dev(), meta.ino()),
        has_own_folder,
    };
    file.set_access(access)?;
    listen(&socket, Backlog::MAXCONN)?;
    Ok(UnixSocket { socket, file })
}

impl SocketFile {
    /// Whether the path still names this file.
    pub fn is_in_place(&self) -> bool {
        fs::symlink_metadata(&self.path).is_ok_and(|meta| (meta.dev(), meta.ino()) == self.id)
    }

    /// Changes who may connect from now on. A file that another process has put at the path is not
    /// changed.
    ///
    /// # Errors
    /// The file is missing, or another process has replaced it.
    pub fn set_access(&self, access: SocketAccess) -> io::Result<()> {
        let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        let file = open(&self.path, flags, Mode::empty())?;
        let through = format!("/proc/self/fd/{}", file.as_raw_fd());
        let meta = fs::metadata(&through)?;
        if !meta.file_type().is_socket() || (meta.dev(), meta.ino()) != self.id {
            return Err(io::Error::new(
                ErrorKind::NotFound,
                "another process has replaced the socket",
            ));
        }
        let (group, mode) = match access {
            SocketAccess::Owner => (nix::unistd::getegid(), 0o600),
            SocketAccess::Group(group) => (Gid::from_raw(group), 0o660),
            SocketAccess::Everybody => (nix::unistd::getegid(), 0o666),
        };
        if meta.gid() != group.as_raw() {
            fchownat(&file, "", None, Some(group), AtFlags::AT_EMPTY_PATH)?;
        }
        fs::set_permissions(&through, Permissions::from_mode(mode))
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if !self.is_in_place() {
            return;
        }
        let _ = fs::remove_file(&self.path);
        if let Some(folder) = self.path.parent()
            && (self.has_own_folder || folder == Path::new(RUN_FOLDER))
        {
            let _ = fs::remove_dir(folder); // only when empty
        }
    }
}

/// Makes the kernel refuse descriptors that are sent to `socket` and to the connections it accepts.
/// A receiver must close each descriptor, even an unread one, and a lingering TCP socket makes that
/// take as long as the sender likes. Returns false before Linux 6.16, which has no such option.
pub fn refuse_descriptors(socket: &impl AsFd) -> bool {
    let no: libc::c_int = 0;
    // SAFETY: `no` is an int and lives during the call; the descriptor is open.
    let outcome = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            SO_PASSRIGHTS,
            (&raw const no).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    outcome == 0
}

#[cfg(test)]
mod tests;
