//! Sockets on which the agent listens.

use crate::config::SocketConfig;
use cofferdam_paths::{Occupant, SocketAccess, SocketFile, SocketKind, UnixSocket, occupant};
use nix::unistd::{Gid, Group};
use std::io;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

/// Reason why the control socket cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Another agent answers on the path.
    #[error(
        "another agent listens on {}: stop it first, or give this one another [socket] path",
        .0.display()
    )]
    Taken(PathBuf),
    /// Another file has the path.
    #[error(
        "{} exists and is not a socket: move it away, or give another [socket] path",
        .0.display()
    )]
    Foreign(PathBuf),
    /// The group does not exist.
    #[error(
        "no group '{0}' on this host: create it (groupadd --system {0}), or change [socket] group"
    )]
    NoGroup(String),
    /// Any other failure.
    #[error("cannot listen on {}: {why}", path.display())]
    Failed {
        /// Path of the socket.
        path: PathBuf,
        /// Cause.
        why: io::Error,
    },
}

impl From<cofferdam_paths::ListenError> for ListenError {
    fn from(error: cofferdam_paths::ListenError) -> ListenError {
        use cofferdam_paths::ListenError as Error;
        match error {
            Error::Taken(path) => ListenError::Taken(path),
            Error::Foreign(path) => ListenError::Foreign(path),
            Error::Failed { path, source } => ListenError::Failed { path, why: source },
        }
    }
}

/// Control socket. Dropping it removes the file.
#[derive(Debug)]
pub(crate) struct ControlSocket {
    pub listener: UnixListener,
    file: SocketFile,
    path: PathBuf,
}

/// Fails early, before anything is loaded, if an agent answers on `path`.
pub(crate) fn refuse_taken(path: &Path) -> Result<(), ListenError> {
    match occupant(path) {
        Ok(Occupant::Live) => Err(ListenError::Taken(path.to_owned())),
        _ => Ok(()),
    }
}

impl ControlSocket {
    /// Opens the socket, and replaces the file of a killed agent. Only root can connect before the
    /// group has been set.
    pub fn open(config: &SocketConfig) -> Result<ControlSocket, ListenError> {
        let access = access(config.group.as_deref())?;
        let socket = UnixSocket::listen(&config.path, SocketKind::Stream, access)?;
        let (socket, file) = socket.into_parts();
        Ok(ControlSocket {
            listener: UnixListener::from(socket),
            file,
            path: config.path.clone(),
        })
    }

    /// Grants access to another group.
    pub fn set_group(&self, group: Option<&str>) -> Result<(), ListenError> {
        let access = access(group)?;
        self.file
            .set_access(access)
            .map_err(|why| ListenError::Failed {
                path: self.path.clone(),
                why,
            })
    }
}

fn access(group: Option<&str>) -> Result<SocketAccess, ListenError> {
    let group = group.map(find_group).transpose()?;
    Ok(group.map_or(SocketAccess::Owner, |group| {
        SocketAccess::Group(group.as_raw())
    }))
}

/// Finds a group by name or number.
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
