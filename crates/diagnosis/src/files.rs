//! Reader of small cgroup files that keeps their descriptors open: opening a file takes five times
//! as long as reading it.

use cofferdam_host::HostFs;
use std::collections::HashMap;
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// Most descriptors that stay open. Files beyond are opened for each reading.
const OPEN_MAX: usize = 4096;
/// Rounds after which a missing file is tried again. Many cgroups have no cpuset, and a failed open
/// costs several reads.
const ABSENT: u64 = 10;

/// Open files, with the round of their last use.
#[derive(Default)]
pub(crate) struct Files {
    open: HashMap<PathBuf, (File, u64)>,
    /// Missing files, with the round in which their open failed.
    absent: HashMap<PathBuf, u64>,
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
            // The file was removed; a new one may have its path.
            self.open.remove(&path);
        }
        if self.absent.contains_key(&path) {
            return None;
        }
        let file = match fs.open(&path) {
            Ok(file) => file,
            Err(e) => {
                if e.kind() == ErrorKind::NotFound {
                    self.absent.insert(path, self.round);
                }
                return None;
            }
        };
        let text = read(&file)?;
        if self.open.len() < OPEN_MAX {
            self.open.insert(path, (file, self.round));
        }
        Some(text)
    }

    /// Ends a round: closes the files that neither this round nor the one before has used. Two
    /// rounds, because every other round reads only the usage files.
    pub(crate) fn end_round(&mut self) {
        let round = self.round;
        self.open.retain(|_, (_, used)| *used + 1 >= round);
        self.absent.retain(|_, since| round < *since + ABSENT);
        self.round += 1;
    }
}

fn read(file: &File) -> Option<String> {
    let mut buffer = [0u8; 4096];
    let length = file.read_at(&mut buffer, 0).ok()?;
    let text = String::from_utf8_lossy(buffer.get(..length)?);
    Some(text.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_unused_for_two_rounds_is_closed() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("cpu.weight"), "100").unwrap();
        let (fs, mut files) = (HostFs::below(root.path()), Files::default());
        files.text(&fs, PathBuf::from("/cpu.weight")).unwrap();
        let open = [(); 3].map(|()| {
            files.end_round();
            files.open.len()
        });
        assert_eq!(open, [1, 1, 0]);
    }

    #[test]
    fn a_missing_file_is_tried_again_some_rounds_later() {
        let root = tempfile::tempdir().unwrap();
        let (fs, mut files) = (HostFs::below(root.path()), Files::default());
        let path = PathBuf::from("/cpuset.cpus");
        let text = |files: &mut Files| {
            let text = files.text(&fs, path.clone());
            files.end_round();
            text
        };
        assert_eq!(text(&mut files), None);
        std::fs::write(root.path().join("cpuset.cpus"), "0-1").unwrap();
        let rounds = (0..100).find(|_| text(&mut files).is_some());
        assert!(rounds.is_some_and(|n| n <= ABSENT), "{rounds:?}");
        std::fs::remove_file(root.path().join("cpuset.cpus")).unwrap();
        std::fs::write(root.path().join("cpuset.cpus"), "1").unwrap();
        // The kernel refuses reads of a removed cgroup's file; this temporary directory does not.
        files.open.clear();
        assert_eq!(text(&mut files).as_deref(), Some("1"));
    }
}
