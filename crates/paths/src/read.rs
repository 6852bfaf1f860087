//! Reading of files that a user names: a configuration, a token, a list.

use nix::sys::statfs::{FsType, fstatfs};
use std::fs::{File, FileType, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// File systems of the kernel. Their regular files may have no end, or reading may have an effect
/// (`/proc/kmsg`, `trace_pipe`). Numbers of `linux/magic.h`.
const KERNEL_FILE_SYSTEMS: [(i64, &str); 4] = [
    (0x9fa0, "a file of proc"),
    (0x6265_6572, "a file of sysfs"),
    (0x7472_6163, "a file of tracefs"),
    (0x6462_6720, "a file of debugfs"),
];

/// The reason why a file is not read.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// A system call failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The path names something other than a regular file.
    #[error("it is {0}, not a regular file")]
    Irregular(&'static str),
    /// The file is too large.
    #[error("it is larger than {most_bytes} bytes")]
    TooLarge {
        /// Largest size that is read.
        most_bytes: u64,
    },
    /// The bytes are not text.
    #[error("it is not UTF-8 text: {0}")]
    NotText(std::str::Utf8Error),
}

impl From<FileError> for io::Error {
    fn from(error: FileError) -> io::Error {
        match error {
            FileError::Io(error) => error,
            other => io::Error::new(io::ErrorKind::InvalidInput, other.to_string()),
        }
    }
}

/// Opens a regular file for reading. Refuses, without blocking, a FIFO, a device, a folder, a
/// socket and a file of the kernel's own file systems.
///
/// # Errors
/// [`FileError::Io`] and [`FileError::Irregular`].
pub fn open_regular(path: &Path) -> Result<File, FileError> {
    // The type is checked before the open, because opening a device may have an effect.
    refuse_irregular(std::fs::metadata(path)?.file_type())?;
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)?;
    refuse_irregular(file.metadata()?.file_type())?;
    let found: FsType = fstatfs(&file).map_err(io::Error::from)?.filesystem_type();
    let of_kernel = KERNEL_FILE_SYSTEMS
        .iter()
        .find(|(number, _)| *number == found.0);
    match of_kernel {
        Some((_, name)) => Err(FileError::Irregular(name)),
        None => Ok(file),
    }
}

/// Reads a regular file of at most `most_bytes`.
///
/// # Errors
/// [`FileError`], except [`FileError::NotText`].
pub fn read_bytes(path: &Path, most_bytes: u64) -> Result<Vec<u8>, FileError> {
    let file = open_regular(path)?;
    let too_large = || FileError::TooLarge { most_bytes };
    if file.metadata()?.len() > most_bytes {
        return Err(too_large());
    }
    // The file may grow while it is read.
    let mut bytes = Vec::new();
    file.take(most_bytes.saturating_add(1))
        .read_to_end(&mut bytes)?;
    match bytes.len() as u64 > most_bytes {
        true => Err(too_large()),
        false => Ok(bytes),
    }
}

/// Reads a regular file of at most `most_bytes` as UTF-8.
///
/// # Errors
/// [`FileError`].
pub fn read_text(path: &Path, most_bytes: u64) -> Result<String, FileError> {
    let bytes = read_bytes(path, most_bytes)?;
    String::from_utf8(bytes).map_err(|e| FileError::NotText(e.utf8_error()))
}

fn refuse_irregular(kind: FileType) -> Result<(), FileError> {
    let name = match kind {
        _ if kind.is_file() => return Ok(()),
        _ if kind.is_dir() => "a folder",
        _ if kind.is_fifo() => "a pipe",
        _ if kind.is_socket() => "a socket",
        _ => "a device",
    };
    Err(FileError::Irregular(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::os::unix::net::UnixListener;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    /// Result of reading `path`, which must not take long.
    fn read(path: &Path) -> Result<String, String> {
        let (sender, outcome) = channel();
        let path = path.to_owned();
        std::thread::spawn(move || {
            let text = read_text(&path, 100).map_err(|e| e.to_string());
            let _ = sender.send(text);
        });
        outcome
            .recv_timeout(Duration::from_secs(10))
            .expect("reading ends")
    }

    /// Promise 75.
    #[test]
    fn only_a_regular_file_is_read_and_nothing_blocks() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let link = folder.path().join("link");
        symlink(&path, &link).unwrap();
        assert!(read(&path).unwrap_err().contains("No such file"));
        fs::write(&path, "text").unwrap();
        assert_eq!(read(&link).unwrap(), "text");
        fs::write(&path, [0xff]).unwrap();
        assert!(read(&path).unwrap_err().contains("UTF-8"));
        fs::remove_file(&path).unwrap();
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(read(&link).unwrap_err().contains("a pipe"));
        fs::remove_file(&path).unwrap();
        let _socket = UnixListener::bind(&path).unwrap();
        assert!(read(&link).unwrap_err().contains("a socket"));
        assert!(read(folder.path()).unwrap_err().contains("a folder"));
        for device in ["/dev/zero", "/dev/null", "/dev/tty"] {
            assert!(read(Path::new(device)).unwrap_err().contains("a device"));
        }
        for file in [
            "/proc/kmsg",
            "/proc/self/environ",
            "/sys/kernel/uevent_seqnum",
        ] {
            let refused = read(Path::new(file)).unwrap_err();
            assert!(refused.contains("not a regular file"), "{file}: {refused}");
        }
    }

    /// Promise 75.
    #[test]
    fn size_is_bounded_before_anything_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, [b'x'; 100]).unwrap();
        assert_eq!(read(&path).unwrap().len(), 100);
        File::create(&path).unwrap().set_len(1 << 40).unwrap();
        assert!(read(&path).unwrap_err().contains("larger than 100 bytes"));
    }
}
