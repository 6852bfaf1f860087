//! Reasons why an experiment ended early.

use cofferdam_lab::LabError;
use std::io;
use std::path::PathBuf;

/// Failure of an experiment. All its changes to the host are reverted all the same.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// The host lacks something; the message names the remedy. Exit code 3.
    #[error("{0}")]
    Unsupported(String),
    /// The options contradict each other or the host. Exit code 2.
    #[error("{0}")]
    Usage(String),
    /// SIGINT or SIGTERM; the samples so far are in `dir`. Exit code 130.
    #[error("interrupted: all changes are reverted; the samples so far are in {dir}")]
    Interrupted {
        /// The run directory.
        dir: PathBuf,
    },
    /// The run directory could not be written.
    #[error("cannot write {path}: {source}: {}", remedy(source))]
    Output {
        /// File or directory.
        path: PathBuf,
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// A file of the host could not be read or written, or one of its tools refused.
    #[error(transparent)]
    Lab(LabError), // not what the host lacks: see `From<LabError>`
    /// A worker process failed.
    #[error("the worker '{worker}' failed: {reason}")]
    Worker {
        /// Task of the worker.
        worker: String,
        /// Reason that the worker gave.
        reason: String,
    },
    /// The enforcement could not begin, or could not revert all its changes.
    #[error("enforcement: {0}")]
    Enforcement(String),
    /// The latency measurement failed.
    #[error("{0}")]
    Latency(String),
    /// The accounting could not be read.
    #[error("{0}")]
    Ledger(String),
}

fn remedy(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "free some space, or give another directory with --output"
        }
        io::ErrorKind::AlreadyExists | io::ErrorKind::DirectoryNotEmpty => {
            "give a directory that is new or empty with --output"
        }
        _ => "give a writable directory with --output",
    }
}

impl BenchError {
    /// Makes the error of an `action` (`read`, `write`, `make`, …) on `path`, for `map_err`.
    pub(crate) fn host(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> BenchError {
        let path = path.into();
        move |source| {
            BenchError::Lab(LabError::Host {
                action,
                path,
                source,
            })
        }
    }

    /// Exit code that the manual documents.
    pub fn exit_code(&self) -> i32 {
        match self {
            BenchError::Unsupported(_) => 3,
            BenchError::Usage(_) => 2,
            BenchError::Interrupted { .. } => 130,
            _ => 1,
        }
    }
}

impl From<LabError> for BenchError {
    fn from(error: LabError) -> BenchError {
        match error {
            LabError::Unsupported(_) | LabError::Missing { .. } => {
                BenchError::Unsupported(error.to_string())
            }
            other => BenchError::Lab(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lab_errors_keep_their_text_and_get_an_exit_code() {
        let error = |lab: LabError| {
            let words = lab.to_string();
            let bench = BenchError::from(lab);
            assert_eq!(bench.to_string(), words);
            bench.exit_code()
        };
        let missing = cofferdam_lab::run("cofferdam-no-such-tool x").unwrap_err();
        assert_eq!(error(missing), 3);
        let refused = cofferdam_lab::run("ls /no-such-directory").unwrap_err();
        assert_eq!(error(refused), 1);
        let file = LabError::Host {
            action: "write",
            path: "/sys/fs/cgroup/x".into(),
            source: io::ErrorKind::PermissionDenied.into(),
        };
        assert_eq!(error(file), 1);
        assert_eq!(error(LabError::Unsupported("no cgroup2".to_owned())), 3);
    }
}
