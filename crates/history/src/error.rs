//! Errors, with texts for a person.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Reason why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file cannot be opened or created.
    #[error("history {path}: {source}", path = .path.display())]
    Io {
        /// Path of the store.
        path: PathBuf,
        /// Cause.
        source: std::io::Error,
    },
    /// The file belongs to another program.
    #[error(
        "{path} is not a history of cofferdam: it is left as it is; name another file",
        path = .0.display()
    )]
    NotAStore(PathBuf),
    /// A newer version wrote the file.
    #[error(
        "history {path} is of format {found}, this version knows up to {known}: it is left as it \
         is; use the newer cofferdam, or name another file",
        path = .path.display()
    )]
    Newer {
        /// Path of the store.
        path: PathBuf,
        /// Format of the file.
        found: i64,
        /// Newest format that this version knows.
        known: i64,
    },
    /// Another process appends to it.
    #[error("history {path} is in use: another agent appends to it", path = .0.display())]
    InUse(PathBuf),
    /// The file was cut off or overwritten.
    #[error("history {path} is damaged: {why}", path = .path.display())]
    Damaged {
        /// Path of the store.
        path: PathBuf,
        /// Error of the database.
        why: String,
    },
    /// Any other failure.
    #[error("history {path} cannot be opened: {source}", path = .path.display())]
    Database {
        /// Path of the store.
        path: PathBuf,
        /// Cause.
        source: rusqlite::Error,
    },
}

impl OpenError {
    pub(crate) fn database(path: &Path, source: rusqlite::Error) -> OpenError {
        use rusqlite::ErrorCode;
        let path = path.to_owned();
        match source.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => OpenError::NotAStore(path),
            Some(ErrorCode::DatabaseCorrupt) => OpenError::Damaged {
                path,
                why: source.to_string(),
            },
            _ => OpenError::Database { path, source },
        }
    }
}

/// Reason why a frame could not be appended. The store is unchanged, and the next frame may be
/// tried.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// The frame has no length, or its time cannot be expressed.
    #[error("a frame of no length cannot be kept")]
    Empty,
    /// The disk, or the quota of the file system, is full.
    #[error(
            "history {path}: no space left: free some, or lower [history] limit",
            path = .0.display()
        )]
    Full(PathBuf),
    /// The file is damaged.
    #[error("history {path} is damaged: {why}", path = .path.display())]
    Damaged {
        /// Path of the store.
        path: PathBuf,
        /// Error of the database.
        why: String,
    },
    /// A file of the open store was moved or removed: the store, its log or its lock.
    #[error("history {path} was removed or replaced by another program", path = .0.display())]
    Gone(PathBuf),
    /// Any other failure.
    #[error("history {path} cannot be written: {source}", path = .path.display())]
    Database {
        /// Path of the store.
        path: PathBuf,
        /// Cause.
        source: rusqlite::Error,
    },
}

impl AppendError {
    /// Whether the store is unusable and must be opened again.
    pub fn needs_new_store(&self) -> bool {
        matches!(self, AppendError::Gone(_) | AppendError::Damaged { .. })
    }

    pub(crate) fn database(path: &Path, source: rusqlite::Error) -> AppendError {
        use rusqlite::ErrorCode;
        let path = path.to_owned();
        match source.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => AppendError::Full(path),
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => AppendError::Damaged {
                path,
                why: source.to_string(),
            },
            _ => AppendError::Database { path, source },
        }
    }
}

/// Reason why a store cannot be read further.
#[derive(Debug, thiserror::Error)]
#[error("history {path} cannot be read: {source}", path = .path.display())]
pub struct ReadError {
    /// Path of the store.
    pub path: PathBuf,
    /// Cause.
    pub source: rusqlite::Error,
}

/// Frame that was skipped because its bytes do not match their checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Damage {
    /// End of the frame, as far as it can be read.
    pub end: SystemTime,
    /// Length of the frames of its tier.
    pub resolution: std::time::Duration,
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "the frame that ended at {} ({}) is damaged and left out",
            humantime::format_rfc3339_millis(self.end),
            humantime::format_duration(self.resolution)
        )
    }
}

/// Record whose time or length cannot be parsed.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("a record cannot be dated: time '{time}', length {interval_s} s")]
pub struct BadTime {
    /// Time, as text.
    pub time: String,
    /// Length in seconds, as text.
    pub interval_s: String,
}
