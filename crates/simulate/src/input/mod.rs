//! Reader of `host.json` and `tenants.json`, which refuses faults with line and remedy.

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
/// Most run queues: one for each cgroup and CPU.
pub const MOST_RUNQUEUES: usize = 2_000_000;
/// Deepest nesting of cgroups.
pub const DEEPEST: usize = 16;
/// Longest time in a file, microseconds: one hour.
pub const LONGEST_US: f64 = 3_600e6;

/// Refusal of a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InputError {
    /// The file is no JSON, or does not have the document's form.
    #[error(
        "line {line}, column {column}: {what}; its fields are described in the book, 'simulate'"
    )]
    Form {
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// Description of the fault.
        what: String,
    },
    /// The content cannot be simulated.
    #[error("line {line}: {what}")]
    Content {
        /// Line, from 1.
        line: usize,
        /// Description of the fault, with a remedy.
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
