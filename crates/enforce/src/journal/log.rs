//! The journal's changes in force, and its file, which is written before the host is changed.
//!
//! A record is one `write` to a file in tmpfs. It survives the end of the process. A reboot reverts
//! all changes by itself. Reverting does not depend on any write, so it needs no free space: an
//! existing file is only read until all of its changes are reverted.

use super::change::Change;
use super::closed_list::UnlistedChange;
use super::file;
use super::records::{Contents, Record, decode};
use super::store::{Store, spare_path};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Most damaged journals that are saved, one file each; further ones replace the last.
const MOST_SAVED: u32 = 9;

/// Journal file and its content.
#[derive(Debug)]
pub(super) struct Log {
    path: PathBuf,
    boot: String,
    /// Open file; created with the first change.
    store: Option<Store>,
    /// Whether the existing file has unreadable places.
    damaged: bool,
    next: u64,
    /// Changes in force, in the order in which they were made.
    pub changes: BTreeMap<u64, Change>,
}

impl Log {
    /// Reads the file, if there is one. Returns its contents with the unreadable places. Writes
    /// nothing.
    pub fn open(path: &Path, boot: &str) -> io::Result<(Log, Contents)> {
        let mut contents = match file::read_own(path) {
            Ok(bytes) => decode(&bytes, boot),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Contents::default(),
            Err(e) => return Err(e),
        };
        let changes = std::mem::take(&mut contents.changes);
        let log = Log {
            path: path.to_owned(),
            boot: boot.to_owned(),
            store: None,
            damaged: contents.is_damaged(),
            next: changes
                .keys()
                .next_back()
                .map_or(1, |last| last.saturating_add(1)),
            changes,
        };
        Ok((log, contents))
    }

    /// Drops changes that `check` refuses, and returns each with the reason. They count as damage.
    pub fn refuse(&mut self, check: impl Fn(&Change) -> Result<(), UnlistedChange>) -> Vec<String> {
        let mut refused = Vec::new();
        self.changes.retain(|_, change| match check(change) {
            Ok(()) => true,
            Err(why) => {
                refused.push(format!("{}: {why}", printable(&change.target.to_string())));
                false
            }
        });
        self.damaged |= !refused.is_empty();
        refused
    }

    /// Finishes the recovery, once all existing changes are reverted as far as possible. Saves a
    /// damaged file under another name, which it returns, and removes an empty one.
    pub fn finish_recovery(&mut self) -> Option<PathBuf> {
        let saved = if self.damaged {
            self.save_damaged().ok()
        } else {
            None
        };
        match self.changes.is_empty() {
            true => self.remove(),
            // Without free space the existing file stays in place: it contains these changes too.
            false => drop(self.replace()),
        }
        saved
    }

    pub fn begin(&mut self, change: Change) -> io::Result<u64> {
        let id = self.next;
        self.append(&Record::Change(id, change.clone()))?;
        self.next += 1;
        self.changes.insert(id, change);
        Ok(id)
    }

    pub fn ours(&mut self, id: u64, value: &str) -> io::Result<()> {
        self.append(&Record::Ours(id, value.to_owned()))?;
        if let Some(change) = self.changes.get_mut(&id) {
            change.add_value(value);
        }
        Ok(())
    }

    pub fn before(&mut self, id: u64, value: &str) -> io::Result<()> {
        self.append(&Record::Before(id, value.to_owned()))?;
        if let Some(change) = self.changes.get_mut(&id) {
            change.revert_to(value);
        }
        Ok(())
    }

    /// Removes a change. If the record cannot be written, the next process only checks the change
    /// once more.
    pub fn done(&mut self, id: u64) {
        self.changes.remove(&id);
        if let Some(store) = &mut self.store {
            let _ = store.append(&Record::Done(id));
        }
    }

    fn append(&mut self, record: &Record) -> io::Result<()> {
        if self.store.is_none() {
            self.replace().map_err(|e| self.storage_error(e))?;
        }
        for _ in 0..2 {
            if let Some(store) = &mut self.store
                && store.append(record).map_err(|e| self.storage_error(e))?
            {
                return Ok(());
            }
            self.replace().map_err(|e| self.storage_error(e))?;
        }
        Err(self.storage_error(io::ErrorKind::FileTooLarge.into()))
    }

    fn storage_error(&self, e: io::Error) -> io::Error {
        io::Error::new(
            e.kind(),
            format!(
                "the journal {} cannot be written, so nothing is changed: {e}; free some space \
                 there",
                self.path.display()
            ),
        )
    }

    /// Replaces the file by one that contains only the changes in force.
    fn replace(&mut self) -> io::Result<()> {
        if self.damaged {
            self.save_damaged()?;
        }
        let changes = self.changes.iter();
        let records: Vec<Record> = changes
            .map(|(id, c)| Record::Change(*id, c.clone()))
            .collect();
        match &mut self.store {
            Some(store) => store.replace(&self.path, &self.boot, &records),
            None => {
                self.store = Some(Store::create(&self.path, &self.boot, &records)?);
                Ok(())
            }
        }
    }

    /// Gives the damaged file a second name that is never overwritten.
    fn save_damaged(&mut self) -> io::Result<PathBuf> {
        let name = |n: u32| self.path.with_extension(format!("unreadable-{n}"));
        let free = (1..MOST_SAVED).map(name).find(|path| !path.exists());
        let saved = free.unwrap_or_else(|| name(MOST_SAVED));
        let _ = fs::remove_file(&saved);
        if self.changes.is_empty() {
            // A rename needs no free space.
            fs::rename(&self.path, &saved)?;
        } else {
            fs::hard_link(&self.path, &saved)?;
        }
        self.damaged = false;
        Ok(saved)
    }

    /// Removes the file if nothing is left to be reverted.
    pub fn remove(&mut self) {
        // The file still contains every change that was not reverted, if only as damage.
        if self.changes.is_empty() && !self.damaged {
            self.store = None;
            let _ = fs::remove_file(&self.path);
            let _ = fs::remove_file(spare_path(&self.path));
        }
    }
}

/// Longest name in a message, characters.
const MOST_NAME: usize = 200;

/// Name from a file, without characters that control a terminal.
fn printable(name: &str) -> String {
    let plain: String = name.escape_debug().take(MOST_NAME).collect();
    match name.len() > MOST_NAME {
        true => plain + "…",
        false => plain,
    }
}

#[cfg(test)]
mod tests {
    use super::super::change::{Form, Target};
    use super::super::store::injected;
    use super::*;

    const BOOT: &str = "b";

    fn change(path: &str) -> Change {
        Change {
            target: Target::File {
                path: path.into(),
                directory_inode: 7,
            },
            form: Form::Text,
            before: "1024".to_owned(),
            ours: vec!["512".to_owned()],
        }
    }

    fn open(path: &Path) -> (Log, Contents) {
        Log::open(path, BOOT).unwrap()
    }

    /// Promise 65.
    #[test]
    fn the_file_stays_small_however_often_a_value_changes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let mut log = open(&path).0;
        let id = log.begin(change("/a")).unwrap();
        for i in 0..100_000 {
            log.ours(id, &i.to_string()).unwrap();
        }
        assert_eq!(fs::metadata(&path).unwrap().len(), 64 << 10);
        let (again, contents) = open(&path);
        assert!(!contents.is_damaged());
        assert_eq!(again.changes[&id].ours, ["99998", "99999"]);
        assert_eq!(again.changes[&id].before, "1024");
    }

    /// Promise 65.
    #[test]
    fn the_file_grows_with_the_changes_in_force() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let mut log = open(&path).0;
        let ids: Vec<u64> = (0..3_000)
            .map(|i| log.begin(change(&format!("/{i}"))).unwrap())
            .collect();
        assert_eq!(open(&path).0.changes, log.changes);
        ids.iter().for_each(|id| log.done(*id));
        let (again, contents) = open(&path);
        assert!(again.changes.is_empty() && !contents.is_damaged());
    }

    /// A write may end short at any byte: the record does not count, and the next one does not
    /// continue it.
    /// Promise 65.
    #[test]
    fn a_short_write_is_as_if_never_made() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        for bytes in 0..200 {
            let mut log = open(&path).0;
            let first = log.begin(change("/a")).unwrap();
            injected::limit(Some(bytes));
            let second = log.begin(change("/a/rather/longer/than/what/follows"));
            injected::limit(None);
            let (torn, contents) = open(&path);
            assert!(!contents.is_damaged(), "{bytes}: {contents:?}");
            assert_eq!(torn.changes.len(), 1 + usize::from(second.is_ok()));
            if second.is_err() {
                log.ours(first, "2").unwrap();
                let (after, contents) = open(&path);
                assert!(!contents.is_damaged(), "{bytes}: {contents:?}");
                assert_eq!(after.changes[&first].ours, ["512", "2"]);
            }
            log.changes.clear();
            log.remove();
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    /// Promise 65.
    #[test]
    fn an_unreadable_journal_is_saved_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let mut log = open(&path).0;
        log.begin(change("/a")).unwrap();
        let mut bytes = fs::read(&path).unwrap();
        let middle = bytes.iter().position(|b| *b == b'\n').unwrap() + 30;
        bytes[middle] ^= 1;
        fs::write(&path, &bytes).unwrap();
        let (mut log, contents) = open(&path);
        assert_eq!(contents.unreadable, 1);
        let saved = log.finish_recovery().unwrap();
        assert_eq!(fs::read(saved).unwrap(), bytes);
        assert!(!path.exists());
        // With changes that could not be reverted yet, the journal itself continues.
        fs::write(&path, &bytes).unwrap();
        let (mut log, _) = open(&path);
        log.begin(change("/b")).unwrap();
        drop(log);
        let (log, contents) = open(&path);
        assert!(!contents.is_damaged() && log.changes.len() == 1);
        assert!(path.with_extension("unreadable-2").exists());
    }
}
