//! Errors of reading and writing.

use parquet::errors::ParquetError;
use std::io;
use std::path::PathBuf;

/// Reason why a record cannot become rows.
#[derive(Debug, thiserror::Error)]
pub enum RowError {
    /// The time is invalid.
    #[error("the record's time '{0}' is not an RFC 3339 time in UTC")]
    Time(String),
    /// The length is invalid.
    #[error("the record at {time} lasts {interval_s} s: not a length of time")]
    Length {
        /// Time of the record.
        time: String,
        /// Length in the record, seconds.
        interval_s: f64,
    },
    /// The name of the host is invalid.
    #[error(
            "'{}' is no name of a host: 1 to {} bytes",
            .0.escape_debug(),
            crate::LONGEST_HOST_BYTES
        )]
    Host(String),
}

/// Reason why a file cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// A record cannot become rows.
    #[error(transparent)]
    Row(#[from] RowError),
    /// The file exists already.
    #[error("{} exists: remove it or name another file", .0.display())]
    Exists(PathBuf),
    /// The file cannot be created.
    #[error("cannot create {}", path.display())]
    Create {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// No more rows can be written.
    #[error("cannot write rows to {}", path.display())]
    Write {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        source: ParquetError,
    },
}

/// Reason why a file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The file cannot be opened.
    #[error("cannot open {}", path.display())]
    Open {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// The file is empty.
    #[error("{} is empty: its writer was stopped; export it again", .0.display())]
    Empty(PathBuf),
    /// The file has no complete Parquet footer.
    #[error("{} is no whole Parquet file (truncated?): export or copy it again", path.display())]
    Broken {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        source: ParquetError,
    },
    /// The file is Parquet, but its metadata do not name our schema.
    #[error("{} is Parquet, but not of Cofferdam: its metadata lack '{key}'", path.display())]
    Foreign {
        /// Path of the file.
        path: PathBuf,
        /// Missing key.
        key: &'static str,
    },
    /// The file has another version of the schema.
    #[error(
        "the schema of {} is '{found}' and not '{}': \
                use the cofferdam of the version that wrote it",
                path.display(), crate::SCHEMA
    )]
    OtherSchema {
        /// Path of the file.
        path: PathBuf,
        /// Schema of the file.
        found: String,
    },
    /// A column is missing, or has another type.
    #[error("{} has no column '{column}' of type {expected}", path.display())]
    Column {
        /// Path of the file.
        path: PathBuf,
        /// Name of the column.
        column: String,
        /// Type that it should have.
        expected: String,
    },
    /// A row group does not name the kind of its rows.
    #[error(
        "{}: row group {group} mixes kinds of rows: \
                the file was written by another program; export it again",
        path.display()
    )]
    Mixed {
        /// Path of the file.
        path: PathBuf,
        /// Number of the row group, from 0.
        group: usize,
    },
    /// Rows cannot be decoded.
    #[error("cannot read the rows of {} (damaged?): export or copy it again", path.display())]
    Rows {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        source: ParquetError,
    },
}
