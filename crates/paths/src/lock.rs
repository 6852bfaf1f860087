//! A lock of the whole host, for work that only one process may do at a time. It is a file that its
//! holder removes.

use crate::folder::{make_folder_of, refuse_foreign_folder};
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A lock of the host. Dropping it removes the file, and its folder if that is empty. The kernel
/// frees the lock when the process ends.
///
/// The lock is flock(2)'s. It belongs to the open file, so that closing another descriptor of the
/// file does not release it, as it would with fcntl(2).
#[derive(Debug)]
pub struct HostLock {
    path: PathBuf,
    _lock: Flock<File>,
}

/// The reason why a lock was not taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another process holds the lock.
    #[error("{path} is locked by process {pid}")]
    Held {
        /// Path of the lock.
        path: PathBuf,
        /// Process that holds the lock; 0 if unknown.
        pid: u32,
    },
    /// The file could not be created or locked.
    #[error("cannot lock {path}: {source}")]
    File {
        /// Path of the lock.
        path: PathBuf,
        /// Error of the system call.
        #[source]
        source: io::Error,
    },
}

impl HostLock {
    /// Takes the lock `name` in `folder`, which is created if it is missing.
    ///
    /// # Errors
    /// Another process holds the lock, or the file cannot be created or is another user's.
    pub fn take(folder: &Path, name: &str) -> Result<HostLock, LockError> {
        let path = folder.join(name);
        let failed = |source: io::Error| LockError::File {
            path: path.clone(),
            source,
        };
        loop {
            make_folder_of(&path).map_err(failed)?;
            refuse_foreign_folder(folder).map_err(failed)?;
            let file = open_lock_file(&path, 0o644).map_err(failed)?;
            let lock = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                Ok(lock) => lock,
                Err((mut file, Errno::EWOULDBLOCK)) => {
                    let mut text = String::new();
                    let _ = file.read_to_string(&mut text);
                    let pid = text.trim().parse().unwrap_or(0);
                    return Err(LockError::Held { path, pid });
                }
                Err((_, errno)) => return Err(failed(errno.into())),
            };
            // The previous holder may have removed the file between our open and our lock.
            let own = lock.metadata().map_err(failed)?.ino();
            if fs::symlink_metadata(&path).is_ok_and(|found| found.ino() == own) {
                // The line is as wide as any process id, so that nothing of an earlier one stays.
                // The lock also holds without it, as on a full file system.
                let line = format!("{:<10}\n", std::process::id());
                let _ = lock.write_all_at(line.as_bytes(), 0);
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

/// Opens a file to lock it, and creates it with `mode` if it is missing. Does not truncate it.
///
/// # Errors
/// An error of the file system. A symbolic link, a file of another user and a file with a second
/// name are refused: writing to them could change another user's data.
pub fn open_lock_file(path: &Path, mode: u32) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let options = options.read(true).write(true).create(true).truncate(false);
    let options = options
        .mode(mode)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let foreign = |why: &str| {
        let text = format!("{why}, and no lock of Cofferdam: look at it, then remove it");
        io::Error::new(ErrorKind::AlreadyExists, text)
    };
    let file = options.open(path).map_err(|e| match e.raw_os_error() {
        Some(libc::ELOOP) => foreign("it is a symbolic link"),
        Some(libc::ENXIO | libc::EISDIR) => foreign("it is no regular file"),
        _ => e,
    })?;
    let meta = file.metadata()?;
    match meta.uid() {
        _ if !meta.is_file() => Err(foreign("it is no regular file")),
        uid if uid != nix::unistd::geteuid().as_raw() => {
            Err(foreign(&format!("user {uid} owns it")))
        }
        _ if meta.nlink() > 1 => Err(foreign("it has a second name")),
        _ => Ok(file),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    /// Promise 66.
    /// Promise 76.
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

    /// Promise 77.
    #[test]
    fn a_number_replaces_a_longer_line_of_a_dead_holder() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.lock");
        fs::write(&path, "4194304\n").unwrap();
        let _lock = HostLock::take(folder.path(), "a.lock").unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text.trim(), std::process::id().to_string());
    }

    /// Promise 77.
    #[test]
    fn a_lock_never_touches_a_foreign_file() {
        let folder = tempfile::tempdir().unwrap();
        let (run, target) = (folder.path().join("run"), folder.path().join("target"));
        fs::create_dir(&run).unwrap();
        let lock = run.join("a.lock");
        let refused = || HostLock::take(&run, "a.lock").unwrap_err().to_string();
        fs::write(&target, "precious").unwrap();
        symlink(&target, &lock).unwrap();
        assert!(refused().contains("symbolic link"), "{}", refused());
        fs::remove_file(&lock).unwrap();
        symlink(folder.path().join("nothing"), &lock).unwrap();
        assert!(refused().contains("symbolic link"), "{}", refused());
        fs::remove_file(&lock).unwrap();
        fs::hard_link(&target, &lock).unwrap();
        assert!(refused().contains("second name"), "{}", refused());
        fs::remove_file(&lock).unwrap();
        nix::unistd::mkfifo(&lock, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(refused().contains("regular file"), "{}", refused());
        fs::remove_file(&lock).unwrap();
        fs::create_dir(&lock).unwrap();
        assert!(refused().contains("regular file"), "{}", refused());
        fs::remove_dir(&lock).unwrap();
        fs::write(&lock, "theirs").unwrap();
        std::os::unix::fs::chown(&lock, Some(65534), None).unwrap();
        assert!(refused().contains("user 65534"), "{}", refused());
        assert_eq!(fs::read_to_string(&lock).unwrap(), "theirs");
        assert_eq!(fs::read_to_string(&target).unwrap(), "precious");
        assert!(!folder.path().join("nothing").exists());
    }

    /// Promise 77.
    #[test]
    fn a_folder_that_others_may_change_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().join("run");
        fs::create_dir(&run).unwrap();
        let set = |mode| fs::set_permissions(&run, fs::Permissions::from_mode(mode)).unwrap();
        set(0o777);
        let refused = HostLock::take(&run, "a.lock").unwrap_err().to_string();
        assert!(refused.contains("others may write"), "{refused}");
        set(0o755);
        std::os::unix::fs::chown(&run, Some(65534), None).unwrap();
        let refused = HostLock::take(&run, "a.lock").unwrap_err().to_string();
        assert!(refused.contains("user 65534"), "{refused}");
        std::os::unix::fs::chown(&run, Some(0), None).unwrap();
        // Like /tmp: others may add files but not replace ours.
        set(0o1777);
        drop(HostLock::take(&run, "a.lock").unwrap());
    }
}
