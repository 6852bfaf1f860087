//! Folders of sockets and locks.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;

/// Folder that the daemons of this host share, with locks, sockets and the journal.
pub const RUN_FOLDER: &str = "/run/cofferdam";

/// Permission bits of a folder that let users other than its owner change its entries.
const OTHERS_WRITE: u32 = 0o022;
/// Permission bit of a folder whose entries only their owners may remove.
const STICKY: u32 = 0o1000;

/// Creates the folder of `path` with its parents. Returns whether it was missing.
pub(crate) fn make_folder_of(path: &Path) -> io::Result<bool> {
    let Some(folder) = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    else {
        return Ok(false);
    };
    let is_new = !folder.exists();
    DirBuilder::new()
        .mode(0o755)
        .recursive(true)
        .create(folder)?;
    Ok(is_new)
}

/// Refuses a folder in which another user can replace files. Its owner must be root or this user,
/// and others must not be able to write to it, except with the sticky bit.
pub(crate) fn refuse_foreign_folder(folder: &Path) -> io::Result<()> {
    let meta = fs::metadata(folder)?;
    let own = nix::unistd::geteuid().as_raw();
    let is_shared = meta.mode() & OTHERS_WRITE != 0 && meta.mode() & STICKY == 0;
    let why = match meta.uid() {
        uid if uid != 0 && uid != own => format!("user {uid} owns its folder"),
        _ if is_shared => "others may write to its folder".to_owned(),
        _ => return Ok(()),
    };
    let remedy = format!("{why}: make {} root's, with mode 755", folder.display());
    Err(io::Error::other(remedy))
}

/// Removes [`RUN_FOLDER`] if `path`, which was just removed, was the last file in it. A folder that
/// the user chose stays.
pub fn leave_run_folder(path: &Path) {
    leave_if_empty(path, Path::new(RUN_FOLDER));
}

fn leave_if_empty(path: &Path, folder: &Path) {
    if path.parent() == Some(folder) {
        let _ = fs::remove_dir(folder); // only when empty
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_file_removes_the_shared_folder_and_no_other() {
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
