//! Small cgroup files, read again and again through descriptors that stay open: a fifth of the
//! time of opening them.

use cofferdam_host::HostFs;
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// Descriptors kept at most; files beyond are opened for each reading.
const OPEN_MAX: usize = 4096;

/// Open files and when each was last requested.
#[derive(Default)]
pub(crate) struct Files {
    open: HashMap<PathBuf, (File, u64)>,
    round: u64,
}

impl Files {
    /// Text of `path`, up to 4 KiB; `None` when it cannot be read.
    pub(crate) fn text(&mut self, fs: &HostFs, path: PathBuf) -> Option<String> {
        if let Some((file, used)) = self.open.get_mut(&path) {
            *used = self.round;
            if let Some(text) = read(file) {
                return Some(text);
            }
            // Removed, and perhaps made anew.
            self.open.remove(&path);
        }
        let file = fs.open(&path).ok()?;
        let text = read(&file)?;
        if self.open.len() < OPEN_MAX {
            self.open.insert(path, (file, self.round));
        }
        Some(text)
    }

    /// Ends a round: closes files that were not requested in it.
    pub(crate) fn end_round(&mut self) {
        let round = self.round;
        self.open.retain(|_, (_, used)| *used == round);
        self.round += 1;
    }
}

fn read(file: &File) -> Option<String> {
    let mut buffer = [0u8; 4096];
    let length = file.read_at(&mut buffer, 0).ok()?;
    let text = String::from_utf8_lossy(buffer.get(..length)?);
    Some(text.into_owned())
}
