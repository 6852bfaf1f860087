//! `host.json` and `tenants.json`: read, checked, refused with line and remedy.

mod check;
mod document;
mod host;
mod tenants;
#[cfg(test)]
mod tests;

pub use check::check;
pub use host::{HOST, host, host_json};
pub use tenants::{TENANTS, tenants};

/// Most threads that are simulated.
pub const MOST_THREADS: usize = 100_000;
/// Most cgroups, times CPUs: each has a run queue there.
pub const MOST_RUNQUEUES: usize = 2_000_000;
/// Cgroups above each other, at most.
pub const DEEPEST: usize = 16;
/// Longest time in a file: an hour.
pub const LONGEST_US: f64 = 3_600e6;

/// A file that is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InputError {
    /// It is no JSON, or not of the form of the document.
    #[error(
        "line {line}, column {column}: {what}; its fields are described in the book, 'simulate'"
    )]
    Form {
        /// From 1.
        line: usize,
        /// From 1.
        column: usize,
        /// What is wrong.
        what: String,
    },
    /// It cannot be simulated.
    #[error("line {line}: {what}")]
    Content {
        /// From 1.
        line: usize,
        /// What is wrong, and what to do.
        what: String,
    },
}

impl InputError {
    fn form(error: &serde_json::Error) -> InputError {
        let text = error.to_string();
        let what = text.split(" at line ").next().unwrap_or(&text);
        InputError::Form {
            line: error.line(),
            column: error.column(),
            what: what.split_whitespace().collect::<Vec<_>>().join(" "),
        }
    }
}
