//! Errors that keep enforcement from starting.

use crate::journal::JournalError;
use cofferdam_host::HostError;

/// Enforcement cannot start; nothing on the host was changed.
#[derive(Debug, thiserror::Error)]
pub enum EnforceError {
    /// The journal cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The host cannot be read.
    #[error(transparent)]
    Host(#[from] HostError),
}
