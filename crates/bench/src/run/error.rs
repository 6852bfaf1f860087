//! A run directory that cannot be read.

use crate::data::SCHEMA;
use std::io;
use std::path::PathBuf;

/// A run directory could not be read.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// A file is missing or unreadable.
    #[error(
        "cannot read {path}: {source}: give a directory that 'cofferdam bench' or 'cofferdam demo' wrote"
    )]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A document does not have the form it should.
    #[error("{path}, line {line}: {reason}: the file is damaged; render another run")]
    Malformed {
        /// Which file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// The parser's words.
        reason: String,
    },
    /// Written by a newer Cofferdam.
    #[error("{path} has schema {found}, this build reads up to {SCHEMA}: use a newer cofferdam")]
    NewerSchema {
        /// Which file.
        path: PathBuf,
        /// Its schema.
        found: u32,
    },
}
