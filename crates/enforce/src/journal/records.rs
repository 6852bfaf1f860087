//! Format of the journal's file: one record per line.
//!
//! A line is `LENGTH CHECKSUM JSON`: the number of bytes of the JSON text and its CRC-32, each in
//! eight hexadecimal digits. A damaged record costs only itself: the next one is found by its
//! length, or at the next line. The file is longer than its content, and zero after it.

use super::change::Change;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Bytes before the JSON text.
const HEAD_BYTES: usize = 18;

/// Record of the journal's file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Record {
    /// First record: the boot that it belongs to, and the size of the file.
    Begin { boot: String, file_bytes: u64 },
    /// A change is about to be made.
    Change(u64, Change),
    /// The target of a change is about to get another value.
    Ours(u64, String),
    /// Another program has written the target; it reverts to this value from now on.
    Before(u64, String),
    /// The change was reverted.
    Done(u64),
}

/// Content of a journal file.
#[derive(Debug, Default)]
pub struct Contents {
    /// Changes in force, by number, in the order in which they were made.
    pub changes: BTreeMap<u64, Change>,
    /// Whether the file is of another boot, so that none of its changes is in force.
    pub other_boot: bool,
    /// Unreadable places. A last record that is incomplete is not one: its change was not made yet.
    pub unreadable: u64,
    /// Whether the file is shorter than it was created: its last records may be missing.
    pub cut: bool,
}

impl Contents {
    /// Whether changes may be in force that are not in `changes`.
    pub fn is_damaged(&self) -> bool {
        self.unreadable > 0 || self.cut
    }
}

/// Returns the record as the file contains it.
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
            // The rest is empty, or this is a hole.
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
        // A file without a first record is never intact.
        None => contents.unreadable == 0,
    };
    contents
}

impl Contents {
    fn take(&mut self, record: Record) {
        match record {
            Record::Begin { .. } => {}
            Record::Change(id, change) => {
                // An earlier change of the target is done, even if that record is unreadable.
                self.changes
                    .retain(|_, earlier| earlier.target != change.target);
                self.changes.insert(id, change);
            }
            Record::Ours(id, value) => {
                if let Some(change) = self.changes.get_mut(&id) {
                    change.add_value(&value);
                }
            }
            Record::Before(id, value) => {
                if let Some(change) = self.changes.get_mut(&id) {
                    change.revert_to(&value);
                }
            }
            Record::Done(id) => {
                self.changes.remove(&id);
            }
        }
    }
}

/// Record that begins at `at`, and its end.
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
    // Any byte may follow the record, which is complete once there is one.
    bytes.get(end).filter(|byte| **byte != 0)?;
    Some((serde_json::from_slice(text).ok()?, end + 1))
}

fn hex(digits: &[u8]) -> Option<u32> {
    let text = std::str::from_utf8(digits).ok()?;
    u32::from_str_radix(text, 16).ok()
}

/// Whether these bytes are only the beginning of a last record.
fn is_torn(rest: &[u8]) -> bool {
    let end = rest.iter().position(|b| *b == 0).unwrap_or(rest.len());
    let (written, empty) = rest.split_at(end);
    !written.contains(&b'\n') && empty.iter().all(|byte| *byte == 0)
}

/// Beginning of the line after the one at `at`, or of the empty rest.
fn next_line(bytes: &[u8], at: usize) -> usize {
    let rest = &bytes[at..];
    let end = rest.iter().position(|b| *b == b'\n' || *b == 0);
    end.map_or(bytes.len(), |end| at + end + usize::from(rest[end] != 0))
}

#[cfg(test)]
mod tests;
