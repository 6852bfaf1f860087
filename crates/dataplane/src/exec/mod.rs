//! Preparation of `cofferdam dataplane exec`: checks whether a program can be served, and the
//! filter that it runs under.

mod filter;
mod program;

pub use filter::refuse_io_uring;
pub use program::{check, find};

use std::path::PathBuf;

/// A program that cannot be served, or does not exist.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// The program was not found.
    #[error("no program '{0}' in PATH")]
    NotFound(String),
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// Path of the program.
        path: PathBuf,
        /// Error of the read.
        source: std::io::Error,
    },
    /// The program would bypass the dataplane.
    #[error("{path}: {why}")]
    Refused {
        /// Path of the program, or of its interpreter.
        path: PathBuf,
        /// Reason and remedy.
        why: String,
    },
}
