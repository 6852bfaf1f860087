//! Errors of the accounting.

use cofferdam_bpf::LoadError;
use cofferdam_paths::LockError;
use std::io::ErrorKind;

/// The accounting could not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// This host lacks something; the text names it, the reason and the remedy. Exit code 3.
    #[error("{0}")]
    Unsupported(String),
    /// Another instance is running.
    #[error(
        "another cofferdam (pid {pid}) is accounting on this host: stop it first; \
         two would cost twice the overhead"
    )]
    AlreadyRunning {
        /// Process id of that instance; 0 if unknown.
        pid: u32,
    },
    /// Anything else.
    #[error("the accounting could not start: {0}")]
    Failed(String),
}

impl From<LockError> for StartError {
    fn from(error: LockError) -> Self {
        match error {
            LockError::Held { pid, .. } => StartError::AlreadyRunning { pid },
            LockError::File { source, .. } if source.kind() == ErrorKind::PermissionDenied => {
                StartError::Unsupported(
                    "the accounting needs root (CAP_BPF and CAP_PERFMON): run it with sudo"
                        .to_owned(),
                )
            }
            LockError::File { .. } => StartError::Failed(error.to_string()),
        }
    }
}

impl From<LoadError> for StartError {
    fn from(error: LoadError) -> Self {
        match error.is_unsupported() {
            true => StartError::Unsupported(error.to_string()),
            false => StartError::Failed(error.to_string()),
        }
    }
}

/// A reading failed.
#[derive(Debug, thiserror::Error)]
#[error("the accounting could not be read: {0}")]
pub struct ReadError(pub String);
