//! Folders for the time of a measurement.

use crate::error::BenchError;
use cofferdam_lab::names::{CGROUP_PREFIX, DATA_ROOT};
use std::fs;
use std::path::{Path, PathBuf};

/// A folder of data for nobody: removed when dropped.
pub(crate) struct Folder(PathBuf);

impl Folder {
    /// At this path, with the folders above it.
    pub fn make(path: PathBuf) -> Result<Folder, BenchError> {
        fs::create_dir_all(&path).map_err(BenchError::host("make", &path))?;
        Ok(Folder(path))
    }

    /// Where the next run's sweep finds it; `name` tells it from others of this process.
    pub fn of_this_process(name: &str) -> Result<Folder, BenchError> {
        let name = format!("{CGROUP_PREFIX}{}-{name}", std::process::id());
        Folder::make(Path::new(DATA_ROOT).join(name))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What stays harms nothing.
        let _kept = fs::remove_dir_all(&self.0);
    }
}
