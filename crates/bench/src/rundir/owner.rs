//! Owner of a run directory. Under sudo, a new directory goes to the calling user if the directory
//! above is that user's. So the owner of a clone can remove its `runs/`.

use nix::unistd::{Gid, Uid, fchown};
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// User that gets new directories and files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    uid: u32,
    gid: u32,
}

impl Owner {
    /// The user who called sudo, if `path` (existing or not) lies in that user's directory.
    pub fn of(path: &Path) -> Option<Owner> {
        let number = |name: &str| std::env::var(name).ok()?.parse().ok();
        let (uid, gid) = (number("SUDO_UID")?, number("SUDO_GID")?);
        Uid::effective()
            .is_root()
            .then_some(Owner { uid, gid })?
            .in_place(path)
    }

    fn in_place(self, path: &Path) -> Option<Owner> {
        let path = std::path::absolute(path).ok()?;
        let there = path.ancestors().find_map(|p| fs::metadata(p).ok())?;
        (there.uid() == self.uid).then_some(self)
    }

    /// Makes `path` and the missing directories above it, and gives them to the owner.
    pub fn make_directories(self, path: &Path) -> io::Result<()> {
        let path = std::path::absolute(path)?;
        let missing: Vec<_> = path.ancestors().take_while(|p| !p.exists()).collect();
        for directory in missing.iter().rev() {
            match fs::create_dir(directory) {
                Ok(()) => self.take(&File::open(directory)?)?,
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Gives an open file to the owner, if root owns it: we have just made it.
    pub fn take(self, file: &File) -> io::Result<()> {
        if file.metadata()?.uid() != 0 || self.uid == 0 {
            return Ok(());
        }
        let (uid, gid) = (Uid::from_raw(self.uid), Gid::from_raw(self.gid));
        Ok(fchown(file, Some(uid), Some(gid))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::chown;

    /// Ids of another user than root.
    const OWNER: Owner = Owner {
        uid: 65_534,
        gid: 65_534,
    };

    /// Promise 45.
    #[test]
    fn what_lies_in_the_callers_place_is_the_callers() {
        assert!(Uid::effective().is_root(), "run the tests as root (sudo)");
        let temp = tempfile::tempdir().unwrap();
        chown(temp.path(), Some(OWNER.uid), Some(OWNER.gid)).unwrap();
        let run = temp.path().join("runs/one");
        let owner = OWNER.in_place(&run).unwrap();
        owner.make_directories(&run).unwrap();
        let file = File::create(run.join("manifest.json")).unwrap();
        owner.take(&file).unwrap();
        for path in ["runs", "runs/one", "runs/one/manifest.json"] {
            let metadata = fs::metadata(temp.path().join(path)).unwrap();
            assert_eq!((metadata.uid(), metadata.gid()), (65_534, 65_534), "{path}");
        }
    }

    /// Promise 45.
    #[test]
    fn a_place_of_another_owner_is_left_alone() {
        assert!(Uid::effective().is_root(), "run the tests as root (sudo)");
        let temp = tempfile::tempdir().unwrap();
        assert_eq!(OWNER.in_place(&temp.path().join("runs/one")), None);
        // An existing file of another user stays that user's.
        let path = temp.path().join("theirs");
        fs::write(&path, "x").unwrap();
        chown(&path, Some(1), Some(1)).unwrap();
        OWNER.take(&File::open(&path).unwrap()).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().uid(), 1);
    }
}
