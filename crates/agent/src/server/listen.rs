//! The sockets that the agent listens on.

use crate::config::SocketConfig;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, listen, socket,
};
use nix::unistd::{Gid, Group, chown};
use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// The control socket cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Another agent answers there.
    #[error(
        "another agent listens on {}: stop it first, or give this one another [socket] path",
        .0.display()
    )]
    Taken(PathBuf),
    /// The path is taken by something else.
    #[error(
        "{} exists and is not a socket: move it away, or give another [socket] path",
        .0.display()
    )]
    Foreign(PathBuf),
    /// No such group.
    #[error(
        "no group '{0}' on this host: create it (groupadd --system {0}), or change [socket] group"
    )]
    NoGroup(String),
    /// Anything else.
    #[error("cannot listen on {}: {why}", path.display())]
    Failed {
        /// Where.
        path: PathBuf,
        /// Why.
        why: io::Error,
    },
}

/// The control socket; its file goes when this is dropped.
#[derive(Debug)]
pub(crate) struct ControlSocket {
    pub listener: UnixListener,
    path: PathBuf,
    /// Of the file we made: another agent may have put its own there since.
    inode: u64,
}

/// Refuses early, before anything is loaded, when an agent answers on `path`.
pub(crate) fn refuse_taken(path: &Path) -> Result<(), ListenError> {
    match UnixStream::connect(path) {
        Ok(_) => Err(ListenError::Taken(path.to_owned())),
        // Full backlog: another process listens, if slowly.
        Err(e) if e.kind() == ErrorKind::WouldBlock => Err(ListenError::Taken(path.to_owned())),
        Err(_) => Ok(()),
    }
}

impl ControlSocket {
    /// Opens it, replacing the file of an agent that was killed. Nobody but root can connect
    /// before the group has been set.
    pub fn open(config: &SocketConfig) -> Result<ControlSocket, ListenError> {
        let path = &config.path;
        let failed = |why: io::Error| ListenError::Failed {
            path: path.clone(),
            why,
        };
        let group = config.group.as_deref().map(find_group).transpose()?;
        refuse_taken(path)?;
        if let Some(folder) = path.parent() {
            fs::DirBuilder::new()
                .mode(0o755)
                .recursive(true)
                .create(folder)
                .map_err(failed)?;
        }
        match fs::symlink_metadata(path) {
            Ok(meta) if meta.file_type().is_socket() => fs::remove_file(path).map_err(failed)?,
            Ok(_) => return Err(ListenError::Foreign(path.clone())),
            Err(e) if e.kind() == ErrorKind::NotFound => {}
            Err(e) => return Err(failed(e)),
        }
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = socket(AddressFamily::Unix, SockType::Stream, flags, None)
            .map_err(|e| failed(e.into()))?;
        cofferdam_host::refuse_descriptors(&socket);
        let address = UnixAddr::new(path).map_err(|e| failed(e.into()))?;
        bind(socket.as_raw_fd(), &address).map_err(|e| failed(e.into()))?;
        // Bound but not yet listening: no client can connect while the permissions are set.
        let inode = fs::symlink_metadata(path).map_err(failed)?.ino();
        rights(path, group).map_err(failed)?;
        listen(&socket, Backlog::MAXCONN).map_err(|e| failed(e.into()))?;
        Ok(ControlSocket {
            listener: UnixListener::from(socket),
            path: path.clone(),
            inode,
        })
    }

    /// Lets another group in.
    pub fn set_group(&self, group: Option<&str>) -> Result<(), ListenError> {
        let group = group.map(find_group).transpose()?;
        rights(&self.path, group).map_err(|why| ListenError::Failed {
            path: self.path.clone(),
            why,
        })
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|meta| meta.ino() == self.inode) {
            let _ = fs::remove_file(&self.path);
            if let Some(folder) = self.path.parent() {
                let _ = fs::remove_dir(folder); // only when empty
            }
        }
    }
}

fn rights(path: &Path, group: Option<Gid>) -> io::Result<()> {
    chown(path, None, Some(group.unwrap_or(Gid::from_raw(0))))?;
    let mode = if group.is_some() { 0o660 } else { 0o600 };
    fs::set_permissions(path, Permissions::from_mode(mode))
}

/// A group by name or number.
pub(crate) fn find_group(name: &str) -> Result<Gid, ListenError> {
    let unknown = || ListenError::NoGroup(name.to_owned());
    if let Ok(number) = name.parse() {
        return Ok(Gid::from_raw(number));
    }
    match Group::from_name(name) {
        Ok(Some(group)) => Ok(group.gid),
        Ok(None) | Err(_) => Err(unknown()),
    }
}
