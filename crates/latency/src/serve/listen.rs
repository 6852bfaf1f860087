//! The socket's file.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// The socket cannot be made.
#[derive(Debug, thiserror::Error)]
#[error("cannot create the socket {}: {source}", path.display())]
pub struct BindError {
    path: PathBuf,
    source: io::Error,
}

/// The socket's file; removed when dropped, unless another server has put its own there.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    inode: u64,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if fs::symlink_metadata(&self.path).is_ok_and(|m| m.ino() == self.inode) {
            let _ = fs::remove_file(&self.path);
            cofferdam_host::leave_run_folder(&self.path);
        }
    }
}

/// Makes the socket, which every user of a container may use. One that a killed server left
/// behind is replaced; one that answers is not.
///
/// # Errors
/// [`BindError`], with what to do.
pub fn bind(path: &Path) -> Result<(UnixListener, SocketFile), BindError> {
    make(path).map_err(|source| BindError {
        path: path.to_owned(),
        source,
    })
}

fn make(path: &Path) -> io::Result<(UnixListener, SocketFile)> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let listener = match UnixListener::bind(path) {
        Err(e) if e.kind() == ErrorKind::AddrInUse => {
            replace_dead(path)?;
            UnixListener::bind(path)?
        }
        other => other?,
    };
    cofferdam_host::refuse_descriptors(&listener);
    let file = SocketFile {
        path: path.to_owned(),
        inode: fs::symlink_metadata(path)?.ino(),
    };
    fs::set_permissions(path, Permissions::from_mode(0o666))?;
    Ok((listener, file))
}

fn replace_dead(path: &Path) -> io::Result<()> {
    if !fs::symlink_metadata(path)?.file_type().is_socket() {
        return Err(io::Error::other(
            "the path exists and is not a socket; give another path",
        ));
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(io::Error::other(
            "another 'cofferdam latency serve' or agent answers there; stop it, or give another path",
        )),
        Err(_) => fs::remove_file(path),
    }
}
