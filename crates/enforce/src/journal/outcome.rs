//! What became of a change: made, refused, taken back.

use super::change::Target;
use super::values;
use std::io::{self, ErrorKind};
use std::path::PathBuf;

/// The journal cannot be used, so nothing may be changed.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// Another process enforces on this host.
    #[error("enforcement is already running ({0} is locked): stop the other cofferdam first")]
    Locked(PathBuf),
    /// The journal could not be read, or not be locked.
    #[error("cannot use the journal {path}: {source}; nothing was changed")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
}

/// A change that could not be made.
#[derive(Debug, thiserror::Error)]
#[error("cannot set {target} to {value}: {source}")]
pub struct ChangeError {
    /// What.
    pub target: String,
    /// The value that it should have got.
    pub value: String,
    /// Why not.
    #[source]
    pub source: io::Error,
}

impl ChangeError {
    /// True when the object is gone: no failure, its container ended.
    pub fn vanished(&self) -> bool {
        is_gone(&self.source)
    }
}

/// What [`super::Journal::set`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// It had that value already.
    Same,
    /// It has it now.
    Changed,
    /// It has it now; meanwhile another program had written this other value, which is what it
    /// goes back to.
    AfterRewrite(String),
}

/// A change that is in the journal and not made yet.
#[derive(Clone, Debug)]
pub struct Pending {
    pub(super) id: u64,
    pub(super) target: Target,
    pub(super) value: String,
}

impl Pending {
    /// Makes it, on any thread.
    ///
    /// # Errors
    /// The kernel's.
    pub fn write(&self) -> io::Result<()> {
        values::write(&self.target, &self.value)
    }
}

/// What taking back found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UndoReport {
    /// Values put back.
    pub restored: u64,
    /// Already as they were before: the change had not been made yet.
    pub unchanged: u64,
    /// Objects that are gone, or made anew since.
    pub vanished: u64,
    /// Of those put back: the ones that have another value than before, of the same effect, with
    /// the reason.
    pub instead: Vec<String>,
    /// Left alone, because another program has written them since.
    pub foreign: Vec<String>,
    /// Not put back, with the reason. They stay in the journal.
    pub failed: Vec<String>,
    /// What of the journal could not be read, and where it is kept.
    pub damage: Vec<String>,
}

impl UndoReport {
    /// Everything that we changed is back, or has been rewritten by another program.
    pub fn is_clean(&self) -> bool {
        self.failed.is_empty() && self.damage.is_empty()
    }

    /// Adds the counts of another report.
    pub fn add(&mut self, other: UndoReport) {
        self.restored += other.restored;
        self.unchanged += other.unchanged;
        self.vanished += other.vanished;
        self.instead.extend(other.instead);
        self.foreign.extend(other.foreign);
        self.failed.extend(other.failed);
        self.damage.extend(other.damage);
    }
}

/// The object itself is gone, as opposed to a write that failed.
pub(super) fn is_gone(e: &io::Error) -> bool {
    e.kind() == ErrorKind::NotFound
        || matches!(
            e.raw_os_error(),
            Some(libc::ENODEV | libc::ESRCH | libc::ENXIO)
        )
}
