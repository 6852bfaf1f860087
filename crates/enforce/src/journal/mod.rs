//! The journal of all changes on the host, with which they are reverted.
//!
//! Before a change is made, the former value and ours are written to a file in `/run/cofferdam`.
//! The next process can therefore revert the host, however we ended. Reverting goes in reverse
//! order, can be repeated, and touches nothing that has vanished or was created again. A later
//! value of another program is left alone and reported.
//!
//! BPF programs are not recorded: links attach them, which end with our process.

mod change;
mod closed_list;
#[cfg(test)]
pub(crate) mod fake_kernel;
mod file;
mod log;
mod outcome;
mod read_only;
mod records;
mod revert;
mod store;
mod values;

pub use crate::device::DeviceId;
pub use crate::thread::ThreadId;
pub use change::{Change, Form, Target};
pub(crate) use closed_list::{GRO, NAPI_CGROUP, is_tcp_segmentation};
pub use closed_list::{UnlistedChange, check_listed};
pub use outcome::{ChangeError, JournalError, Pending, RevertReport, WriteOutcome};
pub use records::{Contents, decode};

use cofferdam_host::HostFs;
use cofferdam_paths::{HostLock, LockError};
use log::Log;
use outcome::is_gone;
use revert::RevertedValue;
use std::collections::HashMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;
use values::{ABSENT, PRESENT};

/// Default folder of the journal and its lock.
pub const FOLDER: &str = cofferdam_paths::RUN_FOLDER;

/// The changes in force, and the only way to make one. A host has one journal: its lock ends with
/// the process.
#[derive(Debug)]
pub struct Journal {
    fs: HostFs,
    log: Log,
    by_target: HashMap<Target, u64>,
    failed_changes: u64,
    // The last field: the lock removes the folder when nothing else is in it.
    _lock: HostLock,
}

impl Journal {
    /// Takes the lock in `folder`, which is created if missing, and reverts the changes of an
    /// earlier process.
    ///
    /// # Errors
    /// Fails if another process has the lock, or the file cannot be read. If the file cannot be
    /// written, each change fails.
    pub fn open(folder: &Path) -> Result<(Journal, RevertReport), JournalError> {
        Journal::open_on(HostFs::host(), folder)
    }

    /// Opens the journal of a host below a directory; see [`Journal::open`].
    ///
    /// # Errors
    /// Fails as [`Journal::open`] does.
    pub fn open_on(fs: HostFs, folder: &Path) -> Result<(Journal, RevertReport), JournalError> {
        let path = folder.join("journal");
        let failed = |source| JournalError::File {
            path: path.clone(),
            source,
        };
        let lock = HostLock::take(folder, "enforcement.lock").map_err(|e| match e {
            LockError::Held { path, .. } => JournalError::Locked(path),
            LockError::File { source, .. } => failed(source),
        })?;
        let (mut log, found) = Log::open(&path, &boot()).map_err(failed)?;
        let refused = log.refuse(|change| check_listed(&fs, change));
        let by_target = log
            .changes
            .iter()
            .map(|(id, change)| (change.target.clone(), *id))
            .collect();
        let mut journal = Journal {
            fs,
            log,
            by_target,
            failed_changes: 0,
            _lock: lock,
        };
        let mut report = journal.revert_all();
        let saved = journal.log.finish_recovery();
        report.damage = damage(&found, &refused, saved.as_deref().unwrap_or(&path));
        Ok((journal, report))
    }

    /// Sets `target` to a value. Writes nothing if it already has that value.
    ///
    /// # Errors
    /// Fails if the value cannot be read or written; [`ChangeError::vanished`] reports whether the
    /// object is gone.
    pub fn set(
        &mut self,
        target: &Target,
        form: Form,
        value: &str,
    ) -> Result<WriteOutcome, ChangeError> {
        let set = self.try_set(target, form, value);
        set.map_err(|source| self.failed(target, value, source))
    }

    fn try_set(&mut self, target: &Target, form: Form, value: &str) -> io::Result<WriteOutcome> {
        let (pending, found) = self.record(target, form, value)?;
        if let Some(pending) = pending {
            let written = self.writable(target, |_| pending.write());
            self.record_outcome(&pending, written)?;
        }
        Ok(found)
    }

    /// Records a change that the caller makes elsewhere, because it takes the kernel long. `None`
    /// if `target` already has the value. [`Journal::finish`] must follow in any case.
    ///
    /// # Errors
    /// Fails as [`Journal::set`] does.
    pub fn begin(
        &mut self,
        target: &Target,
        form: Form,
        value: &str,
    ) -> Result<Option<Pending>, ChangeError> {
        let recorded = self.record(target, form, value);
        recorded
            .map(|(pending, _)| pending)
            .map_err(|source| self.failed(target, value, source))
    }

    /// Records the outcome of a change that [`Journal::begin`] recorded.
    ///
    /// # Errors
    /// Returns the error in `written`.
    pub fn finish(
        &mut self,
        pending: &Pending,
        written: io::Result<()>,
    ) -> Result<(), ChangeError> {
        self.record_outcome(pending, written)
            .map_err(|source| self.failed(&pending.target, &pending.value, source))
    }

    fn failed(&mut self, target: &Target, value: &str, source: io::Error) -> ChangeError {
        if !is_gone(&source) {
            self.failed_changes += 1;
        }
        ChangeError {
            target: target.to_string(),
            value: value.to_owned(),
            source,
        }
    }

    /// Records the value that is about to be written. Returns the state found on the host.
    fn record(
        &mut self,
        target: &Target,
        form: Form,
        value: &str,
    ) -> io::Result<(Option<Pending>, WriteOutcome)> {
        let found = values::read(target)?;
        let same = form.canonical(&found) == form.canonical(value);
        let pending = |id| Pending {
            id,
            target: target.clone(),
            value: value.to_owned(),
        };
        let Some(id) = self.by_target.get(target).copied() else {
            if same {
                return Ok((None, WriteOutcome::Same));
            }
            let change = Change {
                target: target.clone(),
                form,
                before: found,
                ours: vec![value.to_owned()],
            };
            // A change that would be refused at the next start must not be made.
            check_listed(&self.fs, &change)?;
            let id = self.log.begin(change)?;
            self.by_target.insert(target.clone(), id);
            return Ok((Some(pending(id)), WriteOutcome::Changed));
        };
        let change = self.log.changes.get(&id);
        let rewritten = !change.is_some_and(|c| self.is_ours(c, &found));
        // The kernel's version of our value may be the wanted value by now.
        let is_recorded = change.is_some_and(|c| c.is_ours(value));
        if rewritten {
            self.log.before(id, &found)?;
        }
        if !same || !is_recorded {
            self.log.ours(id, value)?;
        }
        let found = match (rewritten, same) {
            (true, _) => WriteOutcome::AfterRewrite(found),
            (false, true) => WriteOutcome::Same,
            (false, false) => WriteOutcome::Changed,
        };
        Ok(((!same).then(|| pending(id)), found))
    }

    fn record_outcome(&mut self, pending: &Pending, written: io::Result<()>) -> io::Result<()> {
        if written.is_err() {
            self.record_refusal(pending);
        }
        written
    }

    /// Records the current value again after a refused write: only the last two of our values are
    /// kept.
    fn record_refusal(&mut self, pending: &Pending) {
        // A refused write changed nothing; a partial one is found by reading.
        let Ok(now) = values::read(&pending.target) else {
            return;
        };
        let Some(change) = self.log.changes.get(&pending.id) else {
            return;
        };
        if change.is_before(&now) {
            self.forget(pending.id);
        } else if self.is_ours(change, &now) {
            // Without free space the next refusal is not recorded either.
            let _ = self.log.ours(pending.id, &now);
        }
    }

    /// Sets the file at `path` to a value.
    ///
    /// # Errors
    /// Fails as [`Journal::set`] does.
    pub fn set_file(
        &mut self,
        path: &Path,
        form: Form,
        value: &str,
    ) -> Result<WriteOutcome, ChangeError> {
        let target = Target::file(path).map_err(|source| ChangeError {
            target: path.display().to_string(),
            value: value.to_owned(),
            source,
        })?;
        self.set(&target, form, value)
    }

    /// Records that the file at `path` has `value` because of us, although another program wrote
    /// it, and would otherwise have `before`. Does nothing if the file is recorded already or has
    /// another value.
    ///
    /// # Errors
    /// Fails as [`Journal::set`] does.
    pub fn adopt_file(
        &mut self,
        path: &Path,
        form: Form,
        before: &str,
        value: &str,
    ) -> Result<(), ChangeError> {
        let failed = |source| ChangeError {
            target: path.display().to_string(),
            value: value.to_owned(),
            source,
        };
        let target = Target::file(path).map_err(failed)?;
        let found = values::read(&target).map_err(failed)?;
        let same = |a: &str, b: &str| form.canonical(a) == form.canonical(b);
        if self.by_target.contains_key(&target) || !same(&found, value) || same(before, value) {
            return Ok(());
        }
        let change = Change {
            target: target.clone(),
            form,
            before: before.to_owned(),
            ours: vec![value.to_owned()],
        };
        check_listed(&self.fs, &change).map_err(|e| failed(e.into()))?;
        let id = self.log.begin(change);
        self.by_target.insert(target, id.map_err(failed)?);
        Ok(())
    }

    /// Creates a directory; reverting removes it. An existing directory is an error, because it is
    /// not ours.
    ///
    /// # Errors
    /// Fails as [`Journal::set`] does, and if something exists at `path`.
    pub fn make_directory(&mut self, path: &Path) -> Result<Target, ChangeError> {
        let failed = |source| ChangeError {
            target: path.display().to_string(),
            value: PRESENT.to_owned(),
            source,
        };
        let target = Target::directory(path).map_err(failed)?;
        if self.set(&target, Form::Text, PRESENT)? == WriteOutcome::Same
            && !self.by_target.contains_key(&target)
        {
            return Err(failed(ErrorKind::AlreadyExists.into()));
        }
        Ok(target)
    }

    /// Whether `found` is our value of `target`, or derived from it by the kernel.
    pub(crate) fn wrote(&self, target: &Target, found: &str) -> bool {
        let id = self.by_target.get(target);
        let change = id.and_then(|id| self.log.changes.get(id));
        change.is_some_and(|change| self.is_ours(change, found))
    }

    /// Value of `target` before our change; `None` if we did not change it.
    pub fn before(&self, target: &Target) -> Option<&str> {
        let id = self.by_target.get(target)?;
        Some(&self.log.changes.get(id)?.before)
    }

    /// Reverts one change, if there is one.
    pub fn revert(&mut self, target: &Target) -> RevertReport {
        let mut report = RevertReport::default();
        if let Some(id) = self.by_target.get(target).copied() {
            self.revert_change(id, false, &mut report);
        }
        report
    }

    /// Reverts all changes, latest first. Repeats that while each round lets the kernel accept
    /// values that it refused before.
    pub fn revert_all(&mut self) -> RevertReport {
        let mut report = RevertReport::default();
        for exact in [true, false] {
            let mut progress = true;
            while progress && self.in_force() > 0 {
                let before = self.in_force();
                let ids: Vec<u64> = self.log.changes.keys().rev().copied().collect();
                report.failed.clear();
                let mut later = false;
                for id in ids {
                    later |= self.revert_change(id, exact, &mut report);
                }
                progress = later || self.in_force() < before;
            }
        }
        report
    }

    /// Reverts one change. Returns whether it must be retried after others.
    fn revert_change(&mut self, id: u64, exact: bool, report: &mut RevertReport) -> bool {
        let Some(change) = self.log.changes.get(&id) else {
            return false;
        };
        let change = change.clone();
        let target = &change.target;
        match self.writable(target, |journal| journal.try_revert(&change, exact)) {
            Ok(RevertOutcome::Value(RevertedValue::Former)) => report.reverted += 1,
            Ok(RevertOutcome::Value(RevertedValue::Substitute(value))) => {
                report.reverted += 1;
                report.instead.push(format!(
                    "{target} is {value} now: the kernel refuses the previous value ('{}') at \
                     present",
                    change.before
                ));
            }
            Ok(RevertOutcome::Value(RevertedValue::Later)) => {
                report.failed.push(format!(
                    "cannot restore {target} to '{}': a cgroup below it has other CPUs; it keeps \
                     both until then",
                    change.before
                ));
                return true;
            }
            Ok(RevertOutcome::Unchanged) => report.unchanged += 1,
            Ok(RevertOutcome::Foreign(found)) => report.foreign.push(format!(
                "{target} is '{found}' by now, neither Cofferdam's value nor the previous one \
                 ('{}')",
                change.before
            )),
            Err(e) if is_gone(&e) => report.vanished += 1,
            Err(e) => {
                report.failed.push(format!(
                    "cannot restore {target} to '{}': {e}",
                    change.before
                ));
                return false;
            }
        }
        self.forget(id);
        false
    }

    fn try_revert(&self, change: &Change, exact: bool) -> io::Result<RevertOutcome> {
        let found = values::read(&change.target)?;
        if change.is_before(&found) {
            return Ok(RevertOutcome::Unchanged);
        }
        if !self.is_ours(change, &found) {
            return Ok(RevertOutcome::Foreign(found));
        }
        if let (Target::Directory { path, .. }, ABSENT) = (&change.target, change.before.as_str()) {
            remove_directory(path)?;
            return Ok(RevertOutcome::Value(RevertedValue::Former));
        }
        Ok(RevertOutcome::Value(revert::revert_value(
            &self.fs, change, &found, exact,
        )?))
    }

    fn is_ours(&self, change: &Change, found: &str) -> bool {
        change.is_ours(found)
            || revert::online(&self.fs)
                .is_some_and(|online| change.derives_from_ours(found, &online))
    }

    fn forget(&mut self, id: u64) {
        if let Some(change) = self.log.changes.get(&id) {
            self.by_target.remove(&change.target);
        }
        self.log.done(id);
    }

    /// Number of changes in force.
    pub fn in_force(&self) -> u64 {
        self.log.changes.len() as u64
    }

    /// Targets of the changes in force, oldest first.
    pub fn targets(&self) -> impl Iterator<Item = &Target> {
        self.log.changes.values().map(|change| &change.target)
    }

    /// Number of failed changes since the start, without those whose object was gone.
    pub fn failed_changes(&self) -> u64 {
        self.failed_changes
    }
}

impl Drop for Journal {
    /// Leaves the changes in force. An empty journal is removed. The lock file stays, because
    /// another process may be about to lock it.
    fn drop(&mut self) {
        self.log.remove();
    }
}

enum RevertOutcome {
    Value(RevertedValue),
    Unchanged,
    Foreign(String),
}

/// Removes a directory. A cgroup stays busy for a moment after its last thread has left.
fn remove_directory(path: &Path) -> io::Result<()> {
    let mut last = Ok(());
    for _ in 0..50 {
        last = crate::thread::empty_cgroup(path).and_then(|()| fs::remove_dir(path));
        match &last {
            Err(e) if e.raw_os_error() == Some(libc::EBUSY) => {
                std::thread::sleep(std::time::Duration::from_millis(2));
            }
            _ => return last,
        }
    }
    last
}

/// Most refused changes that are named; further ones are counted.
const MOST_REFUSED: usize = 20;

/// Lines about changes whose records at `path` are unreadable, or not ours.
fn damage(found: &Contents, refused: &[String], path: &Path) -> Vec<String> {
    let path = path.display();
    let named = refused.iter().take(MOST_REFUSED);
    let mut lines: Vec<String> = named
        .map(|change| format!("the journal says to restore {change}; the file is kept as {path}"))
        .collect();
    if refused.len() > MOST_REFUSED {
        let rest = refused.len() - MOST_REFUSED;
        lines.push(format!("{rest} more of its changes were refused"));
    }
    if found.unreadable > 0 {
        lines.push(format!(
            "{} places of the journal cannot be read: changes recorded there are still in force; \
             the file is kept as {path}",
            found.unreadable
        ));
    }
    if found.cut {
        lines.push(format!(
            "the journal was cut short: changes recorded in the missing part are still in force; \
             the file is kept as {path}"
        ));
    }
    lines
}

fn boot() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}

#[cfg(test)]
mod tests;
