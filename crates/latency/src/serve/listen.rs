//! The socket's file.

use cofferdam_paths::{ListenError, SocketAccess, SocketFile, SocketKind, UnixSocket};
use std::os::unix::net::UnixListener;
use std::path::Path;

/// Listens at `path` for every user of a container. The socket of a killed server is replaced.
///
/// # Errors
/// [`ListenError`], with what to do.
pub fn bind(path: &Path) -> Result<(UnixListener, SocketFile), ListenError> {
    let socket = UnixSocket::listen(path, SocketKind::Stream, SocketAccess::Everybody)?;
    let (socket, file) = socket.into_parts();
    Ok((UnixListener::from(socket), file))
}
