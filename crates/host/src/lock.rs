//! A lock of the whole host, for what only one process may do: a file that its holder removes.

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Holds a lock of the host. Dropping it removes the file, and its folder when that is empty; the
/// kernel frees the lock when the process ends, however it ends.
#[derive(Debug)]
pub struct HostLock {
    path: PathBuf,
    _lock: Flock<File>,
}

/// A lock that was not taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process has it.
    #[error("{path} is locked by process {pid}")]
    Held {
        /// The lock.
        path: PathBuf,
        /// Its process id; 0 when unknown.
        pid: u32,
    },
    /// The file could not be made or locked.
    #[error("cannot lock {path}: {source}")]
    File {
        /// The lock.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

impl HostLock {
    /// Takes the lock `name` in `folder`, which is made when missing.
    ///
    /// # Errors
    /// When another process has it (said by its id), or the file cannot be made.
    pub fn take(folder: &Path, name: &str) -> Result<HostLock, LockError> {
        let path = folder.join(name);
        let failed = |source: io::Error| LockError::File {
            path: path.clone(),
            source,
        };
        loop {
            fs::DirBuilder::new()
                .mode(0o755)
                .recursive(true)
                .create(folder)
                .map_err(failed)?;
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o644)
                .open(&path)
                .map_err(failed)?;
            let mut lock = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                Ok(lock) => lock,
                Err((mut file, Errno::EWOULDBLOCK)) => {
                    let mut text = String::new();
                    let _ = file.read_to_string(&mut text);
                    let pid = text.trim().parse().unwrap_or(0);
                    return Err(LockError::Held { path, pid });
                }
                Err((_, errno)) => return Err(failed(errno.into())),
            };
            // The owner before us may have removed the file between our open and our lock.
            let held = lock.metadata().map_err(failed)?.ino();
            if fs::metadata(&path).is_ok_and(|there| there.ino() == held) {
                lock.set_len(0).map_err(failed)?;
                // The lock holds without a number in the file too: on a full file system.
                let _ = writeln!(lock, "{}", std::process::id());
                return Ok(HostLock { path, _lock: lock });
            }
        }
    }
}

impl Drop for HostLock {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
        if let Some(folder) = self.path.parent() {
            let _ = fs::remove_dir(folder); // only when empty
        }
    }
}

/// What the daemons of this host share: locks, sockets, the journal.
pub const RUN_FOLDER: &str = "/run/cofferdam";

/// Removes [`RUN_FOLDER`] if the socket that has just been removed was the last thing in it. A
/// folder that the user chose stays.
pub fn leave_run_folder(socket: &Path) {
    leave_if_empty(socket, Path::new(RUN_FOLDER));
}

fn leave_if_empty(socket: &Path, folder: &Path) {
    if socket.parent() == Some(folder) {
        let _ = fs::remove_dir(folder); // only when empty
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_instance_names_the_holder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run");
        let first = HostLock::take(&path, "a.lock").unwrap();
        match HostLock::take(&path, "a.lock") {
            Err(LockError::Held { pid, .. }) => assert_eq!(pid, std::process::id()),
            other => panic!("expected Held, got {other:?}"),
        }
        drop(first);
        assert!(!path.exists(), "nothing is left behind");
        drop(HostLock::take(&path, "a.lock").unwrap());
    }

    #[test]
    fn the_last_socket_takes_the_shared_folder_along_and_no_other() {
        let folder = tempfile::tempdir().unwrap();
        let (shared, chosen) = (folder.path().join("shared"), folder.path().join("chosen"));
        fs::create_dir(&shared).unwrap();
        fs::create_dir(&chosen).unwrap();
        let other = shared.join("other.sock");
        fs::write(&other, "").unwrap();
        leave_if_empty(&shared.join("own.sock"), &shared);
        assert!(other.exists(), "another daemon is there");
        fs::remove_file(&other).unwrap();
        leave_if_empty(&chosen.join("own.sock"), &shared);
        assert!(chosen.exists() && shared.exists(), "it had no socket there");
        leave_if_empty(&shared.join("own.sock"), &shared);
        assert!(!shared.exists());
    }
}
