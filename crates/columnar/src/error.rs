//! What goes wrong.

use parquet::errors::ParquetError;
use std::io;
use std::path::PathBuf;

/// A record that cannot become rows.
#[derive(Debug, thiserror::Error)]
pub enum RowError {
    /// Its time is none.
    #[error("the record's time '{0}' is not an RFC 3339 time in UTC")]
    Time(String),
    /// Its length is none.
    #[error("the record at {time} lasts {interval_s} s: not a length of time")]
    Length {
        /// Its time.
        time: String,
        /// What it says.
        interval_s: f64,
    },
    /// The host's name cannot be one.
    #[error("'{}' is no name of a host: 1 to {} bytes", .0.escape_debug(), crate::LONGEST_HOST_BYTES)]
    Host(String),
}

/// A file that cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// What the file should hold.
    #[error(transparent)]
    Row(#[from] RowError),
    /// It is there already.
    #[error("{} exists: remove it or name another file", .0.display())]
    Exists(PathBuf),
    /// It cannot be created.
    #[error("cannot create {}", path.display())]
    Create {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Nothing more can be written.
    #[error("cannot write rows to {}", path.display())]
    Write {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: ParquetError,
    },
}

/// A file that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It cannot be opened.
    #[error("cannot open {}", path.display())]
    Open {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It holds nothing.
    #[error("{} is empty: its writer was stopped; export it again", .0.display())]
    Empty(PathBuf),
    /// It has no whole Parquet footer.
    #[error("{} is no whole Parquet file (truncated?): export or copy it again", path.display())]
    Broken {
        /// Which.
        path: PathBuf,
        /// Why.
        source: ParquetError,
    },
    /// It is Parquet, but nobody says of what.
    #[error("{} is Parquet, but not of Cofferdam: its metadata lack '{key}'", path.display())]
    Foreign {
        /// Which.
        path: PathBuf,
        /// What is missing.
        key: &'static str,
    },
    /// It is of another version.
    #[error(
        "the schema of {} is '{found}' and not '{}': use the cofferdam of the version that wrote it",
        path.display(), crate::SCHEMA
    )]
    OtherSchema {
        /// Which.
        path: PathBuf,
        /// What it names.
        found: String,
    },
    /// A column is missing, or of another type.
    #[error("{} has no column '{column}' of type {expected}", path.display())]
    Column {
        /// Which file.
        path: PathBuf,
        /// Which column.
        column: String,
        /// Of which type it should be.
        expected: String,
    },
    /// A row group does not say of which kind its rows are.
    #[error(
        "{}: row group {group} mixes kinds of rows: the file was written by another program; export it again",
        path.display()
    )]
    Mixed {
        /// Which file.
        path: PathBuf,
        /// Number of the row group, from 0.
        group: usize,
    },
    /// Rows cannot be decoded.
    #[error("cannot read the rows of {} (damaged?): export or copy it again", path.display())]
    Rows {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: ParquetError,
    },
}
