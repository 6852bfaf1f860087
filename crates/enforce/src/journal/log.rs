//! The journal's file: one JSON object a line, written before the host is changed.
//!
//! A record is one `write` to a file in tmpfs: it survives the death of the process, not that of
//! the host, and a reboot undoes everything by itself. A record cut short can only be the last
//! one, and its change was not made yet.

use super::change::Change;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Lines that are no longer needed, from which on the file is written anew; and it must be
/// mostly such lines.
const DEAD_LINES: usize = 256;

/// One line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    /// First line: the boot it belongs to.
    Boot(String),
    /// A change is about to be made.
    Change(u64, Change),
    /// The same target is about to get another value.
    Ours(u64, String),
    /// Somebody else has written the target; this is what it goes back to now.
    Before(u64, String),
    /// The change was taken back.
    Done(u64),
}

/// The file and what it says.
#[derive(Debug)]
pub(super) struct Log {
    path: PathBuf,
    file: File,
    boot: String,
    lines: usize,
    next: u64,
    /// Changes in force, in the order they were made.
    pub changes: BTreeMap<u64, Change>,
    /// Lines that could not be read, other than a last one cut short.
    pub unreadable_lines: usize,
}

impl Log {
    /// Opens or makes the file; forgets one of an earlier boot.
    pub fn open(path: &Path, boot: &str) -> io::Result<Log> {
        let text = match fs::read(path) {
            Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(e) if e.kind() == io::ErrorKind::NotFound => String::new(),
            Err(e) => return Err(e),
        };
        let (changes, unreadable_lines) = parse(&text, boot);
        let mut log = Log {
            path: path.to_owned(),
            // Replaced at once: what is read is written anew, without a torn last line.
            file: OpenOptions::new().create(true).append(true).open(path)?,
            boot: boot.to_owned(),
            lines: 0,
            next: changes.keys().next_back().map_or(1, |last| last + 1),
            changes,
            unreadable_lines,
        };
        log.rewrite()?;
        Ok(log)
    }

    pub fn begin(&mut self, change: Change) -> io::Result<u64> {
        let id = self.next;
        self.append(&Line::Change(id, change.clone()))?;
        self.next += 1;
        self.changes.insert(id, change);
        Ok(id)
    }

    pub fn ours(&mut self, id: u64, value: &str) -> io::Result<()> {
        self.append(&Line::Ours(id, value.to_owned()))?;
        if let Some(change) = self.changes.get_mut(&id) {
            change.will_be(value);
        }
        Ok(())
    }

    pub fn before(&mut self, id: u64, value: &str) -> io::Result<()> {
        self.append(&Line::Before(id, value.to_owned()))?;
        if let Some(change) = self.changes.get_mut(&id) {
            change.before = value.to_owned();
        }
        Ok(())
    }

    /// Forgets a change. A failed write only means that it is looked at once more later.
    pub fn done(&mut self, id: u64) -> io::Result<()> {
        self.changes.remove(&id);
        self.append(&Line::Done(id))
    }

    fn append(&mut self, line: &Line) -> io::Result<()> {
        if self.lines > DEAD_LINES && self.lines > 4 * self.changes.len() {
            self.rewrite()?;
        }
        let mut text = serde_json::to_string(line)?;
        text.push('\n');
        self.file.write_all(text.as_bytes())?;
        self.lines += 1;
        Ok(())
    }

    /// Replaces the file by one that holds only what is in force.
    fn rewrite(&mut self) -> io::Result<()> {
        let new = self.path.with_extension("new");
        let mut text = serde_json::to_string(&Line::Boot(self.boot.clone()))? + "\n";
        for (id, change) in &self.changes {
            text += &serde_json::to_string(&Line::Change(*id, change.clone()))?;
            text.push('\n');
        }
        fs::write(&new, &text)?;
        let file = OpenOptions::new().append(true).open(&new)?;
        fs::rename(&new, &self.path)?;
        self.file = file;
        self.lines = self.changes.len() + 1;
        Ok(())
    }

    /// Removes the file, when nothing is left to be taken back.
    pub fn remove(&self) {
        if self.changes.is_empty() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Changes in force, and the number of lines that say nothing.
fn parse(text: &str, boot: &str) -> (BTreeMap<u64, Change>, usize) {
    let mut changes: BTreeMap<u64, Change> = BTreeMap::new();
    let mut unreadable = 0;
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    for line in whole.lines() {
        match serde_json::from_str(line) {
            Ok(Line::Boot(other)) if other != boot => return (BTreeMap::new(), 0),
            Ok(Line::Boot(_)) => {}
            Ok(Line::Change(id, change)) => {
                changes.insert(id, change);
            }
            Ok(Line::Ours(id, value)) => {
                if let Some(change) = changes.get_mut(&id) {
                    change.will_be(&value);
                }
            }
            Ok(Line::Before(id, value)) => {
                if let Some(change) = changes.get_mut(&id) {
                    change.before = value;
                }
            }
            Ok(Line::Done(id)) => {
                changes.remove(&id);
            }
            Err(_) => unreadable += 1,
        }
    }
    (changes, unreadable)
}

#[cfg(test)]
mod tests {
    use super::super::change::{Form, Target};
    use super::*;

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

    #[test]
    fn a_torn_last_line_is_as_if_never_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let mut log = Log::open(&path, "b").unwrap();
        log.begin(change("/a")).unwrap();
        let whole = fs::read(&path).unwrap();
        log.begin(change("/b")).unwrap();
        let all = fs::read(&path).unwrap();
        for end in whole.len()..all.len() {
            fs::write(&path, &all[..end]).unwrap();
            let log = Log::open(&path, "b").unwrap();
            assert_eq!((log.changes.len(), log.unreadable_lines), (1, 0), "{end}");
        }
    }

    #[test]
    fn it_stays_small_however_often_a_value_changes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let mut log = Log::open(&path, "b").unwrap();
        let id = log.begin(change("/a")).unwrap();
        for i in 0..100_000 {
            log.ours(id, &i.to_string()).unwrap();
        }
        assert!(fs::metadata(&path).unwrap().len() < 64 << 10);
        let again = Log::open(&path, "b").unwrap();
        assert_eq!(again.changes[&id].ours, ["99998", "99999"]);
        assert_eq!(again.changes[&id].before, "1024");
    }

    #[test]
    fn another_boot_and_unreadable_lines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        Log::open(&path, "b").unwrap().begin(change("/a")).unwrap();
        fs::write(
            &path,
            [b"\xff{]\n", fs::read(&path).unwrap().as_slice()].concat(),
        )
        .unwrap();
        let log = Log::open(&path, "b").unwrap();
        assert_eq!((log.changes.len(), log.unreadable_lines), (1, 1));
        assert!(Log::open(&path, "later").unwrap().changes.is_empty());
    }
}
