//! Storage of the journal with reserved space: writing to it needs no free space, and neither does
//! replacing it.
//!
//! Two files of the same size are allocated ahead. One is `journal`, the other its spare. When the
//! journal is full of records that are no longer needed, the two exchange names.
//! replaced by when it is full of what is no longer needed: the two change names.

use super::records::{Record, encode};
use nix::fcntl::{AT_FDCWD, RenameFlags, posix_fallocate, renameat2};
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Size of a small journal's file: some 300 records.
pub(super) const FILE_BYTES: u64 = 64 << 10;

/// File in use, and its spare.
#[derive(Debug)]
pub(super) struct Store {
    current: AllocatedFile,
    spare: Option<AllocatedFile>,
}

/// Allocated file.
#[derive(Debug)]
struct AllocatedFile {
    file: File,
    bytes: u64,
    /// Beginning of the next record.
    used: u64,
}

/// Path of the spare of the journal at `path`.
pub(super) fn spare_path(path: &Path) -> PathBuf {
    path.with_extension("spare")
}

impl Store {
    /// Creates the file at `path` with these records, and replaces any existing one.
    ///
    /// # Errors
    /// Fails if there is no free space; nothing is replaced then.
    pub fn create(path: &Path, boot: &str, records: &[Record]) -> io::Result<Store> {
        let spare = spare_path(path);
        let current = AllocatedFile::with(&spare, boot, records)?;
        fs::rename(&spare, path)?;
        let spare = AllocatedFile::allocate(&spare, current.bytes).ok();
        Ok(Store { current, spare })
    }

    /// Writes one more record; returns `false` if the file is full.
    ///
    /// # Errors
    /// Returns the file system's error; the record does not count then.
    pub fn append(&mut self, record: &Record) -> io::Result<bool> {
        self.current.append(&encode(record)?)
    }

    /// Replaces the file by one that contains only these records.
    ///
    /// # Errors
    /// Fails if there is no free space; nothing is replaced then.
    pub fn replace(&mut self, path: &Path, boot: &str, records: &[Record]) -> io::Result<()> {
        let spare_path = spare_path(path);
        let spare = self
            .spare
            .take()
            .filter(|spare| spare.bytes == self.current.bytes);
        let new = match spare.map(|spare| spare.refill(boot, records)).transpose()? {
            Some(Some(spare)) => spare,
            // There is no spare, or it is too small.
            _ => AllocatedFile::with(&spare_path, boot, records)?,
        };
        let exchanged = renameat2(
            AT_FDCWD,
            &spare_path,
            AT_FDCWD,
            path,
            RenameFlags::RENAME_EXCHANGE,
        );
        if exchanged.is_err() {
            // The file system cannot exchange names, or the journal was removed by hand.
            fs::rename(&spare_path, path)?;
        }
        let old = std::mem::replace(&mut self.current, new);
        self.spare = exchanged.is_ok().then_some(old);
        Ok(())
    }
}

impl AllocatedFile {
    /// Creates a file that is at most half full with these records.
    fn with(path: &Path, boot: &str, records: &[Record]) -> io::Result<AllocatedFile> {
        let mut bytes = FILE_BYTES;
        loop {
            let text = text_of(boot, bytes, records)?;
            if 2 * text.len() as u64 <= bytes {
                return AllocatedFile::allocate(path, bytes)?.fill(&text);
            }
            bytes *= 2;
        }
    }

    fn allocate(path: &Path, bytes: u64) -> io::Result<AllocatedFile> {
        // No other process may have it open.
        let _ = fs::remove_file(path);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            // Independent of the umask: a journal that others may write is refused.
            .mode(0o644)
            .open(path)?;
        let length = i64::try_from(bytes).map_err(io::Error::other)?;
        if let Err(errno) = posix_fallocate(&file, 0, length) {
            let _ = fs::remove_file(path);
            return Err(errno.into());
        }
        Ok(AllocatedFile {
            file,
            bytes,
            used: 0,
        })
    }

    /// Fills this file with other records; `None` if they would fill more than half of it.
    fn refill(self, boot: &str, records: &[Record]) -> io::Result<Option<AllocatedFile>> {
        let text = text_of(boot, self.bytes, records)?;
        if 2 * text.len() as u64 > self.bytes {
            return Ok(None);
        }
        self.fill(&text).map(Some)
    }

    fn fill(mut self, text: &[u8]) -> io::Result<AllocatedFile> {
        let mut all = text.to_vec();
        all.resize(usize::try_from(self.bytes).map_err(io::Error::other)?, 0);
        self.write(&all, 0)?;
        self.used = text.len() as u64;
        Ok(self)
    }

    /// Appends a record. The rest of a failed attempt is no complete line. It is overwritten, or
    /// read as the beginning of a last record.
    fn append(&mut self, text: &[u8]) -> io::Result<bool> {
        let end = self.used + text.len() as u64;
        if end > self.bytes {
            return Ok(false);
        }
        self.write(text, self.used)?;
        self.used = end;
        Ok(true)
    }

    fn write(&self, bytes: &[u8], at: u64) -> io::Result<()> {
        #[cfg(test)]
        let bytes = &bytes[..injected::take(bytes.len())];
        self.file.write_all_at(bytes, at)?;
        #[cfg(test)]
        injected::result()?;
        Ok(())
    }
}

fn text_of(boot: &str, file_bytes: u64, records: &[Record]) -> io::Result<Vec<u8>> {
    let begin = Record::Begin {
        boot: boot.to_owned(),
        file_bytes,
    };
    let mut text = encode(&begin)?;
    for record in records {
        text.extend(encode(record)?);
    }
    Ok(text)
}

/// Short writes, for tests.
#[cfg(test)]
pub(super) mod injected {
    use std::cell::Cell;
    use std::io;

    thread_local! {
        static LEFT: Cell<Option<usize>> = const { Cell::new(None) };
        static SHORT: Cell<bool> = const { Cell::new(false) };
    }

    /// Limits this thread to `bytes` more bytes; `None`: no limit.
    pub fn limit(bytes: Option<usize>) {
        LEFT.set(bytes);
    }

    pub(super) fn take(bytes: usize) -> usize {
        let Some(left) = LEFT.get() else { return bytes };
        let taken = bytes.min(left);
        LEFT.set(Some(left - taken));
        SHORT.set(taken < bytes);
        taken
    }

    pub(super) fn result() -> io::Result<()> {
        match SHORT.replace(false) {
            true => Err(io::ErrorKind::StorageFull.into()),
            false => Ok(()),
        }
    }
}
