//! Errors of reading a run directory.

use crate::data::SCHEMA;
use std::io;
use std::path::PathBuf;

/// Run directory that could not be read.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// A file is missing or unreadable.
    #[error(
        "cannot read {path}: {source}: give a directory that 'cofferdam bench' or 'cofferdam demo' \
         wrote"
    )]
    Read {
        /// File.
        path: PathBuf,
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// A document does not have the expected form.
    #[error("{path}, line {line}: {reason}: the file is damaged; render another run")]
    Malformed {
        /// File.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// Message of the parser.
        reason: String,
    },
    /// A newer Cofferdam wrote the document.
    #[error("{path} has schema {found}, this build reads up to {SCHEMA}: use a newer cofferdam")]
    NewerSchema {
        /// File.
        path: PathBuf,
        /// Schema of the document.
        found: u32,
    },
}
