//! What `cofferdam dataplane exec` does before a program runs: whether it can be served, and the
//! filter that it runs under.

mod filter;
mod program;

pub use filter::refuse_io_uring;
pub use program::{check, find};

use std::path::PathBuf;

/// A program that cannot be served, or is not there.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// Not found.
    #[error("no program '{0}' in PATH")]
    NotFound(String),
    /// Not readable.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The program.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// It would run past the dataplane.
    #[error("{path}: {why}")]
    Refused {
        /// The program, or the interpreter of it.
        path: PathBuf,
        /// Why, and what to do.
        why: String,
    },
}
