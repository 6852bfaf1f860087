//! Reads a journal file that only the user of this process can have written.

use std::fs::{self, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Largest file that is read, bytes: some 100,000 changes in force.
const MOST_BYTES: u64 = 256 << 20;
/// Write permission of the group and of others.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Reads the file at `path`.
///
/// # Errors
/// Fails if it cannot be opened or read. The error is of kind `InvalidData` if the file is a link,
/// not an ordinary file, too large, owned by another user, or writable by others.
pub(super) fn read_own(path: &Path) -> io::Result<Vec<u8>> {
    let mut options = OpenOptions::new();
    // A FIFO in its place must not block.
    options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let file = match options.read(true).open(path) {
        Err(e) if e.raw_os_error() == Some(libc::ELOOP) => {
            return Err(foreign("is a symbolic link"));
        }
        opened => opened?,
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(foreign("is no ordinary file"));
    }
    // The directory in procfs belongs to the user as whom this process acts.
    if metadata.uid() != fs::metadata("/proc/self")?.uid() {
        return Err(foreign(&format!("belongs to user {}", metadata.uid())));
    }
    if metadata.mode() & WRITABLE_BY_OTHERS != 0 {
        return Err(foreign("may be written by other users"));
    }
    if metadata.len() > MOST_BYTES {
        return Err(foreign("is larger than any journal"));
    }
    let mut bytes = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn foreign(why: &str) -> io::Error {
    let text = format!("it {why}, so that no agent wrote it: look at it, then move it away");
    io::Error::new(io::ErrorKind::InvalidData, text)
}
