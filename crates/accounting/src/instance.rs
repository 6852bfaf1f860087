//! One accounting a host: two would count the same and cost double.

use crate::StartError;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Holds the host's lock; dropping it removes the file.
#[derive(Debug)]
pub(crate) struct Instance {
    path: PathBuf,
    _lock: Flock<File>,
}

impl Instance {
    /// Takes the lock in `folder`, or says who has it.
    pub(crate) fn take(folder: &Path) -> Result<Instance, StartError> {
        let path = folder.join("accounting.lock");
        let failed = |source: io::Error| match source.kind() {
            io::ErrorKind::PermissionDenied => StartError::Unsupported(
                "the accounting needs root (CAP_BPF and CAP_PERFMON): run it with sudo".to_owned(),
            ),
            _ => StartError::Failed(format!("cannot lock {}: {source}", path.display())),
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
                    return Err(StartError::AlreadyRunning {
                        pid: text.trim().parse().unwrap_or(0),
                    });
                }
                Err((_, errno)) => return Err(failed(errno.into())),
            };
            // The owner before us may have removed the file between our open and our lock.
            let held = lock.metadata().map_err(failed)?.ino();
            if fs::metadata(&path).is_ok_and(|there| there.ino() == held) {
                lock.set_len(0).map_err(failed)?;
                writeln!(lock, "{}", std::process::id()).map_err(failed)?;
                return Ok(Instance { path, _lock: lock });
            }
        }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
        if let Some(folder) = self.path.parent() {
            let _ = fs::remove_dir(folder); // only when empty
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_instance_is_told_who_has_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run");
        let first = Instance::take(&path).unwrap();
        match Instance::take(&path) {
            Err(StartError::AlreadyRunning { pid }) => assert_eq!(pid, std::process::id()),
            other => panic!("expected AlreadyRunning, got {other:?}"),
        }
        drop(first);
        assert!(!path.exists(), "nothing is left behind");
        drop(Instance::take(&path).unwrap());
    }
}
