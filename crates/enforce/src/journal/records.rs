//! How the journal's file is written and read: one record a line.
//!
//! `LENGTH CHECKSUM JSON`, the first two in eight hexadecimal digits: bytes of the JSON text, and
//! its CRC-32. A damaged record costs itself alone: what follows is found by its length, else at
//! the next line. The file is longer than what is in it, and zero from there on.

use super::change::Change;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Bytes ahead of the JSON text.
const HEAD_BYTES: usize = 18;

/// One record.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Record {
    /// The first one: the boot it belongs to, and the size that the file has.
    Begin { boot: String, file_bytes: u64 },
    /// A change is about to be made.
    Change(u64, Change),
    /// The same target is about to get another value.
    Ours(u64, String),
    /// Somebody else has written the target; this is what it goes back to now.
    Before(u64, String),
    /// The change was taken back.
    Done(u64),
}

/// What the journal's bytes say.
#[derive(Debug, Default)]
pub struct Contents {
    /// Changes in force, by number, in the order they were made.
    pub changes: BTreeMap<u64, Change>,
    /// It is of another boot: nothing of it is in force.
    pub other_boot: bool,
    /// Places that cannot be read. A last record of which only the beginning was written is none:
    /// its change was not made yet.
    pub unreadable: u64,
    /// The file is shorter than it was made: its last records may be missing.
    pub cut: bool,
}

impl Contents {
    /// Whether changes may be in force that it does not tell of.
    pub fn is_damaged(&self) -> bool {
        self.unreadable > 0 || self.cut
    }
}

/// The record as the file holds it.
pub(super) fn encode(record: &Record) -> serde_json::Result<Vec<u8>> {
    let text = serde_json::to_string(record)?;
    let sum = crc32fast::hash(text.as_bytes());
    Ok(format!("{:08x} {sum:08x} {text}\n", text.len()).into_bytes())
}

/// Reads a journal of the boot `boot`, however damaged.
pub fn decode(bytes: &[u8], boot: &str) -> Contents {
    let mut contents = Contents::default();
    let mut file_bytes = None;
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == 0 {
            // The rest is empty; or a hole.
            match bytes[at..].iter().position(|byte| *byte != 0) {
                None => break,
                Some(zeros) => at += zeros,
            }
            contents.unreadable += 1;
            continue;
        }
        match record_at(bytes, at) {
            Some((record, end)) => {
                if let Record::Begin { boot: other, .. } = &record
                    && other != boot
                {
                    return Contents {
                        other_boot: true,
                        ..Contents::default()
                    };
                }
                if let Record::Begin { file_bytes: of, .. } = &record {
                    file_bytes = Some(*of);
                }
                contents.take(record);
                at = end;
            }
            None if is_torn(&bytes[at..]) => break,
            None => {
                contents.unreadable += 1;
                at = next_line(bytes, at);
            }
        }
    }
    contents.cut = match file_bytes {
        Some(of) => (bytes.len() as u64) < of,
        // It never is without a first record.
        None => contents.unreadable == 0,
    };
    contents
}

impl Contents {
    fn take(&mut self, record: Record) {
        match record {
            Record::Begin { .. } => {}
            Record::Change(id, change) => {
                // An earlier one of the same target is done, even when that is not to be read.
                self.changes
                    .retain(|_, earlier| earlier.target != change.target);
                self.changes.insert(id, change);
            }
            Record::Ours(id, value) => {
                if let Some(change) = self.changes.get_mut(&id) {
                    change.will_be(&value);
                }
            }
            Record::Before(id, value) => {
                if let Some(change) = self.changes.get_mut(&id) {
                    change.was_rewritten(&value);
                }
            }
            Record::Done(id) => {
                self.changes.remove(&id);
            }
        }
    }
}

/// The record that begins at `at`, and where it ends.
fn record_at(bytes: &[u8], at: usize) -> Option<(Record, usize)> {
    let head = bytes.get(at..at.checked_add(HEAD_BYTES)?)?;
    if head[8] != b' ' || head[17] != b' ' {
        return None;
    }
    let (length, sum) = (hex(&head[..8])?, hex(&head[9..17])?);
    let begin = at + HEAD_BYTES;
    let end = begin.checked_add(usize::try_from(length).ok()?)?;
    let text = bytes.get(begin..end)?;
    if crc32fast::hash(text) != sum {
        return None;
    }
    // Whatever there is at the end of the line: the record is whole, once something is.
    bytes.get(end).filter(|byte| **byte != 0)?;
    Some((serde_json::from_slice(text).ok()?, end + 1))
}

fn hex(digits: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(digits).ok()?;
    u32::from_str_radix(text, 16).ok()
}

/// Whether these bytes are the beginning of a last record and nothing else.
fn is_torn(rest: &[u8]) -> bool {
    let end = rest.iter().position(|b| *b == 0).unwrap_or(rest.len());
    let (written, empty) = rest.split_at(end);
    !written.contains(&b'\n') && empty.iter().all(|byte| *byte == 0)
}

/// Where the line after the one at `at` begins, or the empty rest.
fn next_line(bytes: &[u8], at: usize) -> usize {
    let rest = &bytes[at..];
    let end = rest.iter().position(|b| *b == b'\n' || *b == 0);
    end.map_or(bytes.len(), |end| at + end + usize::from(rest[end] != 0))
}

#[cfg(test)]
mod tests;
