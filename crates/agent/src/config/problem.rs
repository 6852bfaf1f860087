//! What is wrong with a configuration, and where.

use cofferdam_types::{Problem, Severity};
use std::path::PathBuf;

/// The configuration cannot be used. The text is one line; `problems` has every one.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {}: {why}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why, and what to do.
        why: String,
    },
    /// The file is wrong.
    #[error("{}", summary(path, problems))]
    Wrong {
        /// Which.
        path: PathBuf,
        /// All that is wrong, errors first.
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
