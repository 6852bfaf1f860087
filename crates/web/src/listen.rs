//! Socket on which the page listens.

use crate::address::Address;
use cofferdam_host::netlink::SockDiag;
use cofferdam_paths::{Peer, SocketAccess, SocketFile, SocketKind, UnixSocket};
use std::fs;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixStream};

/// Connections that the kernel queues until they are accepted.
const BACKLOG: u32 = 128;
/// Approximate bytes that the kernel buffers per connection for a peer that does not read.
const SEND_BUFFER_BYTES: u32 = 256 << 10;

/// Reason why the page cannot be served at an address.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Another process uses the address.
    #[error("cannot listen on {0}: another process does; end it, or give another address")]
    Taken(Address),
    /// The user may not use the address.
    #[error(
        "cannot listen on {0}: permission denied; take a port above 1023 or a folder \
            that this user may write to"
    )]
    Denied(Address),
    /// Another file has the path.
    #[error("cannot listen on {0}: it exists and is not a socket; move it away")]
    Foreign(Address),
    /// Any other failure.
    #[error("cannot listen on {address}: {why}")]
    Failed {
        /// Address of the page.
        address: Address,
        /// Cause.
        why: io::Error,
    },
}

/// Listening socket. Dropping it removes the file of a socket with a path.
#[derive(Debug)]
pub(crate) enum Listener {
    Tcp(TcpListener),
    Unix(
        UnixListener,
        #[expect(dead_code, reason = "its drop removes the file")] SocketFile,
    ),
}

/// Accepted connection.
pub(crate) enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Listener {
    /// Waits for a connection. Returns it with its user, if that is one of this host.
    pub async fn accept(&self) -> io::Result<(Stream, Peer)> {
        match self {
            Listener::Tcp(tcp) => {
                let (stream, remote) = tcp.accept().await?;
                let local = stream.local_addr();
                let owner = local.ok().and_then(|local| owner_of_tcp(remote, local));
                let peer = owner.map_or_else(|| Peer::at(remote.ip()), Peer::Uid);
                Ok((Stream::Tcp(stream), peer))
            }
            Listener::Unix(unix, _) => {
                let (stream, _) = unix.accept().await?;
                let peer = Peer::Uid(stream.peer_cred()?.uid());
                Ok((Stream::Unix(stream), peer))
            }
        }
    }
}

/// User whose socket of this network namespace is at `address` and connected to `remote`.
fn owner_of_tcp(address: SocketAddr, remote: SocketAddr) -> Option<u32> {
    let mut sockets = SockDiag::open().ok()?;
    sockets.owner_of_tcp(address, remote).ok().flatten()
}

/// File that this process created. Dropping it removes the file.
#[derive(Debug)]
pub(crate) struct CreatedFile {
    path: PathBuf,
    /// Inode of the file: another process may have replaced the file since.
    inode: u64,
}

impl CreatedFile {
    pub fn of(path: &Path) -> io::Result<CreatedFile> {
        Ok(CreatedFile {
            path: path.to_owned(),
            inode: fs::symlink_metadata(path)?.ino(),
        })
    }
}

impl Drop for CreatedFile {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|meta| meta.ino() == self.inode) {
            let _ = fs::remove_file(&self.path);
            if let Some(folder) = self.path.parent() {
                let _ = fs::remove_dir(folder); // only when empty
            }
        }
    }
}

/// Listens on `address`; a socket with a path also admits `group`. Needs a tokio runtime.
pub(crate) fn listen(address: &Address, group: Option<u32>) -> Result<Listener, ListenError> {
    let failed = |why: io::Error| match why.kind() {
        ErrorKind::AddrInUse => ListenError::Taken(address.clone()),
        ErrorKind::PermissionDenied => ListenError::Denied(address.clone()),
        _ => ListenError::Failed {
            address: address.clone(),
            why,
        },
    };
    match address {
        Address::Tcp(at) => Ok(Listener::Tcp(tcp(*at).map_err(failed)?)),
        Address::Unix(path) => {
            let access = group.map_or(SocketAccess::Owner, SocketAccess::Group);
            let socket = UnixSocket::listen(path, SocketKind::Stream, access);
            let socket = socket.map_err(|why| match why {
                cofferdam_paths::ListenError::Taken(_) => ListenError::Taken(address.clone()),
                cofferdam_paths::ListenError::Foreign(_) => ListenError::Foreign(address.clone()),
                cofferdam_paths::ListenError::Failed { source, .. } => failed(source),
            })?;
            let (socket, file) = socket.into_parts();
            let listener = std::os::unix::net::UnixListener::from(socket);
            let listener = UnixListener::from_std(listener).map_err(failed)?;
            Ok(Listener::Unix(listener, file))
        }
    }
}

fn tcp(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = match address {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    // Connections of a page that has just ended must not block the port.
    socket.set_reuseaddr(true)?;
    socket.set_send_buffer_size(SEND_BUFFER_BYTES)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Writes `text` to a new file that only its owner can read, and replaces an older one. A reader
/// sees the complete text or no file: it is written at [`unfinished_path`] and renamed.
pub(crate) fn write_secret(path: &Path, text: &str) -> io::Result<CreatedFile> {
    match fs::symlink_metadata(path) {
        Ok(meta) if !meta.is_file() => {
            return Err(io::Error::new(ErrorKind::AlreadyExists, "it is not a file"));
        }
        // The old file is useless from now on, whatever follows.
        Ok(_) => fs::remove_file(path)?,
        Err(_) => {}
    }
    let unfinished_path = unfinished_path(path);
    // A killed process may have left one.
    let _ = fs::remove_file(&unfinished_path);
    let written =
        write_new(&unfinished_path, text).and_then(|()| fs::rename(&unfinished_path, path));
    if written.is_err() {
        let _ = fs::remove_file(&unfinished_path);
    }
    written.and_then(|()| CreatedFile::of(path))
}

/// Removes the file with the URL of a page whose process was killed, and an unfinished one.
pub fn remove_url_file(path: &Path) {
    let _ = fs::remove_file(unfinished_path(path));
    let _ = fs::remove_file(path);
}

/// Path of a secret file until it is written completely.
fn unfinished_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    name.into()
}

fn write_new(path: &Path, text: &str) -> io::Result<()> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = fs::OpenOptions::new();
    // `create_new` does not follow a link that another process may have put there.
    let options = options.write(true).create_new(true).mode(0o600);
    options.open(path)?.write_all(text.as_bytes())
}
