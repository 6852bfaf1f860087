//! Errors of a report.

use crate::run::error::DataError;
use std::io;
use std::path::PathBuf;

/// Report that could not be made.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The run's data cannot be used.
    #[error(transparent)]
    Data(#[from] DataError),
    /// The documents of the directory contradict each other.
    #[error(
        "{dir}: manifest.json is of a {manifest} run, result.json of a {result} run: the files \
         come from different runs; render another directory"
    )]
    Mixed {
        /// The run directory.
        dir: PathBuf,
        /// Kind in the manifest.
        manifest: &'static str,
        /// Kind in the result.
        result: &'static str,
    },
    /// A chart could not be drawn.
    #[error(transparent)]
    Chart(#[from] cofferdam_page::DrawError),
    /// The file could not be written.
    #[error("cannot write {path}: {source}: the directory must be writable and have space left")]
    Write {
        /// File.
        path: PathBuf,
        /// Cause.
        #[source]
        source: io::Error,
    },
}
