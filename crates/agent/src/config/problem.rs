//! What is wrong with a configuration, and where.

use std::fmt;
use std::ops::Range;
use std::path::PathBuf;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The file is refused.
    Error,
    /// The file is taken; something in it has no effect.
    Warning,
}

/// One thing that is wrong, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// How bad.
    pub severity: Severity,
    /// Line, counted from 1.
    pub line: usize,
    /// Column in characters, counted from 1.
    pub column: usize,
    /// What is wrong and what to do, in one line.
    pub text: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        write!(f, "{}:{}: {word}: {}", self.line, self.column, self.text)
    }
}

impl Problem {
    pub(super) fn at(text: &str, span: &Range<usize>, severity: Severity, what: String) -> Problem {
        let (line, column) = place(text, span.start);
        Problem {
            severity,
            line,
            column,
            text: what.split_whitespace().collect::<Vec<_>>().join(" "),
        }
    }
}

/// Line and column of a byte offset.
pub(super) fn place(text: &str, offset: usize) -> (usize, usize) {
    let mut end = offset.min(text.len());
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let before = &text[..end];
    let line = before.matches('\n').count() + 1;
    let column = before
        .rsplit('\n')
        .next()
        .map_or(0, |last| last.chars().count())
        + 1;
    (line, column)
}

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
