//! The one way to listen at a path.

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

/// Option of a Unix socket: whether it takes descriptors (SCM_RIGHTS). Linux 6.16, commit
/// 0e81cfd971dc.
const SO_PASSRIGHTS: libc::c_int = 83;
/// Longest time between bind(2) and listen(2) of a process that starts.
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

/// The reason why nobody can listen at a path.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// A process listens there.
    #[error("another process listens on {}: end it, or give another path", .0.display())]
    Taken(PathBuf),
    /// There is something that is no socket.
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

/// A Unix socket that listens at a path, without blocking. Its peers cannot send descriptors.
#[derive(Debug)]
pub struct UnixSocket {
    socket: OwnedFd,
    file: SocketFile,
}

/// The file of a socket. Dropping it removes the file, unless another process has put its own
/// there.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    /// Device and inode of the file.
    id: (u64, u64),
    /// The folder did not exist before the socket.
    has_own_folder: bool,
}

impl UnixSocket {
    /// Listens at `path`, whose folder is made if it is missing. The socket of a dead process is
    /// replaced. No peer can connect before the access is in force.
    ///
    /// # Errors
    /// [`ListenError`]; whatever is at the path then stays.
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

    /// The socket, and its file, which must live as long.
    pub fn into_parts(self) -> (OwnedFd, SocketFile) {
        (self.socket, self.file)
    }
}

impl AsFd for UnixSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Makes room at `path`: removes the socket of a dead process, and refuses everything else.
fn clear(path: &Path) -> Result<(), ListenError> {
    let failed = |source: io::Error| ListenError::Failed {
        path: path.to_owned(),
        source,
    };
    let mut found = occupant(path).map_err(failed)?;
    if found == Occupant::Dead {
        // It may be about to listen.
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
    // The file gets the mode of its socket: nobody else's at any time.
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

    /// Changes who may connect from now on: of this file, and of no other that somebody puts at its
    /// path.
    ///
    /// # Errors
    /// When the file is gone, or is another process's.
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

/// Makes the kernel refuse descriptors sent to `socket`, and to the connections it will accept. The
/// receiver of a descriptor closes it even if unread, and closing may take as long as the sender
/// likes: a TCP socket lingers. False before Linux 6.16, which has no such option.
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
