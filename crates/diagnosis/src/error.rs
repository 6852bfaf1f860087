//! Errors of the diagnosis.

use cofferdam_bpf::LoadError;
use cofferdam_host::HostError;

/// The diagnosis could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// This host lacks something; the text names it and the remedy.
    #[error("{0}")]
    Unsupported(String),
    /// The host supports the diagnosis, and yet it failed.
    #[error("the diagnosis cannot be started: {0}")]
    Failed(String),
}

impl From<LoadError> for StartError {
    fn from(error: LoadError) -> StartError {
        match error.is_unsupported() {
            true => StartError::Unsupported(error.to_string()),
            false => StartError::Failed(error.to_string()),
        }
    }
}

impl From<HostError> for StartError {
    fn from(error: HostError) -> StartError {
        StartError::Failed(error.to_string())
    }
}

/// A running diagnosis could not be read or changed.
#[derive(Debug, thiserror::Error)]
#[error("the diagnosis cannot be read: {0}")]
pub struct DiagnosisError(pub(crate) String);
