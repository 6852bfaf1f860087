//! Folders that last as long as a measurement.

use crate::error::BenchError;
use cofferdam_lab::names::{CGROUP_PREFIX, DATA_ROOT};
use std::fs;
use std::path::{Path, PathBuf};

/// Temporary folder, removed when dropped.
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// Makes the folder at `path`, and those above it.
    pub fn make(path: PathBuf) -> Result<Folder, BenchError> {
        fs::create_dir_all(&path).map_err(BenchError::host("make", &path))?;
        Ok(Folder(path))
    }

    /// Makes a folder below [`DATA_ROOT`], where the next run's sweep finds it. `name`
    /// distinguishes it from other folders of this process.
    pub fn of_this_process(name: &str) -> Result<Folder, BenchError> {
        let name = format!("{CGROUP_PREFIX}{}-{name}", std::process::id());
        let path = Path::new(DATA_ROOT).join(name);
        make_new(&path)?;
        Ok(Folder(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

/// Makes a folder that must not exist yet. Every user may write to [`DATA_ROOT`], and the owner of
/// an existing folder could replace our files in it.
pub(crate) fn make_new(path: &Path) -> Result<(), BenchError> {
    fs::create_dir(path).map_err(BenchError::host("make", path))
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A folder that stays does no harm.
        let _kept = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Promise 77.
    #[test]
    fn a_folder_that_somebody_made_before_is_refused() {
        let first = Folder::of_this_process("folder-test").unwrap();
        let refused = Folder::of_this_process("folder-test").err().unwrap();
        assert!(refused.to_string().contains("exists"), "{refused}");
        assert!(first.path().exists());
    }
}
