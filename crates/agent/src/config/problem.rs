//! Problems of a configuration, and their places in the file.

use cofferdam_types::{Problem, Severity};
use std::io;
use std::path::PathBuf;
use std::str::Utf8Error;

/// Reason why a configuration cannot be used. The text is one line; `problems` has all.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// The named file does not exist.
    #[error(
        "cannot read {}: it does not exist; give the right --config, or none to observe only",
        .0.display()
    )]
    Missing(PathBuf),
    /// The file is larger than [`LARGEST_FILE_BYTES`](super::LARGEST_FILE_BYTES).
    #[error("cannot read {}: it is larger than 4 MiB", .0.display())]
    TooLarge(PathBuf),
    /// The file is not text.
    #[error("cannot read {}: byte {} is not valid UTF-8", path.display(), source.valid_up_to() + 1)]
    NotText {
        /// Path of the file.
        path: PathBuf,
        /// Position of the first invalid byte.
        source: Utf8Error,
    },
    /// The file has errors.
    #[error("{}", summary(path, problems))]
    Wrong {
        /// Path of the file.
        path: PathBuf,
        /// All problems, errors first.
        problems: Vec<Problem>,
    },
}

fn summary(path: &std::path::Path, problems: &[Problem]) -> String {
    let errors = problems
        .iter()
        .filter(|p| p.severity == Severity::Error)
        .count();
    let mut text = match problems.first() {
        Some(p) => format!("{}:{}:{}: {}", path.display(), p.line, p.column, p.text),
        None => format!("{}: refused", path.display()),
    };
    if errors > 1 {
        let more = errors - 1;
        text += &format!(" (and {more} more; 'cofferdam agent --check-config' lists all)");
    }
    text
}
