//! Outcomes of a change: made, refused or reverted.

use super::change::Target;
use super::values;
use std::io::{self, ErrorKind};
use std::path::PathBuf;

/// Errors because of which the journal cannot be used and nothing may be changed.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// Another process enforces on this host.
    #[error("enforcement is already running ({0} is locked): stop the other cofferdam first")]
    Locked(PathBuf),
    /// The journal could not be read or locked.
    #[error("cannot use the journal {path}: {source}; nothing was changed")]
    File {
        /// File of the journal.
        path: PathBuf,
        /// Cause.
        #[source]
        source: io::Error,
    },
}

/// Change that could not be made.
#[derive(Debug, thiserror::Error)]
#[error("cannot set {target} to {value}: {source}")]
pub struct ChangeError {
    /// Setting that the change is about.
    pub target: String,
    /// Value that the journal tried to write.
    pub value: String,
    /// Cause.
    #[source]
    pub source: io::Error,
}

impl ChangeError {
    /// Whether the object is gone because its container ended. That is no failure.
    pub fn vanished(&self) -> bool {
        is_gone(&self.source)
    }
}

/// Outcome of [`super::Journal::set`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WriteOutcome {
    /// The target already had the value.
    Same,
    /// The target has the value now.
    Changed,
    /// The target has the value now. Before, another program had written this one, to which it will
    /// be reverted.
    AfterRewrite(String),
}

/// Change that is in the journal and not made yet.
#[derive(Clone, Debug)]
pub struct Pending {
    pub(super) id: u64,
    pub(super) target: Target,
    pub(super) value: String,
}

impl Pending {
    /// Makes the change, on any thread.
    ///
    /// # Errors
    /// Returns the kernel's error.
    pub fn write(&self) -> io::Result<()> {
        values::write(&self.target, &self.value)
    }
}

/// Report of reverted changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RevertReport {
    /// Number of reverted values.
    pub reverted: u64,
    /// Targets that still had their former values: the change had not been made.
    pub unchanged: u64,
    /// Objects that are gone or were created again.
    pub vanished: u64,
    /// Reverted targets that have another value of the same effect, with the reason.
    pub instead: Vec<String>,
    /// Targets that another program has written since, and that stay as they are.
    pub foreign: Vec<String>,
    /// Targets that could not be reverted, with the reason. They stay in the journal.
    pub failed: Vec<String>,
    /// Unreadable parts of the journal, and the file in which they are saved.
    pub damage: Vec<String>,
}

impl RevertReport {
    /// Whether each of our changes is reverted, or was overwritten by another program.
    pub fn is_clean(&self) -> bool {
        self.failed.is_empty() && self.damage.is_empty()
    }

    /// Adds the counts of another report.
    pub fn add(&mut self, other: RevertReport) {
        self.reverted += other.reverted;
        self.unchanged += other.unchanged;
        self.vanished += other.vanished;
        self.instead.extend(other.instead);
        self.foreign.extend(other.foreign);
        self.failed.extend(other.failed);
        self.damage.extend(other.damage);
    }
}

/// Whether the object itself is gone, as opposed to a failed write.
pub(super) fn is_gone(e: &io::Error) -> bool {
    e.kind() == ErrorKind::NotFound
        || matches!(
            e.raw_os_error(),
            Some(libc::ENODEV | libc::ESRCH | libc::ENXIO)
        )
}
