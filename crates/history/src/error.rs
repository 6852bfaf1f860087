//! What can go wrong, in words for a person.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Why a store cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file cannot be opened or made.
    #[error("history {path}: {source}", path = .path.display())]
    Io {
        /// The store.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Another program's file.
    #[error(
        "{path} is not a history of cofferdam: it is left as it is; name another file",
        path = .0.display()
    )]
    NotAStore(PathBuf),
    /// Written by a newer version.
    #[error(
        "history {path} is of format {found}, this version knows up to {known}: it is left as it \
         is; use the newer cofferdam, or name another file",
        path = .path.display()
    )]
    Newer {
        /// The store.
        path: PathBuf,
        /// Its format.
        found: i64,
        /// The newest format that this version knows.
        known: i64,
    },
    /// Another process appends to it.
    #[error("history {path} is in use: another agent appends to it", path = .0.display())]
    InUse(PathBuf),
    /// Cut off or overwritten.
    #[error("history {path} is damaged: {why}", path = .path.display())]
    Damaged {
        /// The store.
        path: PathBuf,
        /// What the database says.
        why: String,
    },
    /// Anything else.
    #[error("history {path} cannot be opened: {source}", path = .path.display())]
    Database {
        /// The store.
        path: PathBuf,
        /// Why.
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

/// Why a frame could not be appended. The store is as it was, and may be tried again.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// A frame without length, or whose time cannot be expressed.
    #[error("a frame of no length cannot be kept")]
    Empty,
    /// The disk, or the quota of the file system, is full.
    #[error("history {path}: no space left: free some, or lower [history] limit", path = .0.display())]
    Full(PathBuf),
    /// Its file is damaged.
    #[error("history {path} is damaged: {why}", path = .path.display())]
    Damaged {
        /// The store.
        path: PathBuf,
        /// What the database says.
        why: String,
    },
    /// One of its files was moved or removed while it was open: the store, its log, its lock.
    #[error("history {path} was removed or replaced by another program", path = .0.display())]
    Gone(PathBuf),
    /// Anything else.
    #[error("history {path} cannot be written: {source}", path = .path.display())]
    Database {
        /// The store.
        path: PathBuf,
        /// Why.
        source: rusqlite::Error,
    },
}

impl AppendError {
    /// Whether the store is of no more use and must be opened anew.
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

/// A store cannot be read further.
#[derive(Debug, thiserror::Error)]
#[error("history {path} cannot be read: {source}", path = .path.display())]
pub struct ReadError {
    /// The store.
    pub path: PathBuf,
    /// Why.
    pub source: rusqlite::Error,
}

/// A frame that was left out because its bytes are not those that were written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Damage {
    /// When it ended, as far as that can be read.
    pub end: SystemTime,
    /// The length of frames of its tier.
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

/// A record whose time or length is not one.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
#[error("a record cannot be dated: time '{time}', length {interval_s} s")]
pub struct BadTime {
    /// Its time.
    pub time: String,
    /// Its length, seconds, as text.
    pub interval_s: String,
}
