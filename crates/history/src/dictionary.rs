//! Dictionary of the parts that many frames share, each stored once: identities of containers, and
//! words.

use rusqlite::{Connection, OptionalExtension, params};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::time::Duration;

/// Identity of a container.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct Identity {
    pub name: String,
    pub cgroup_id: u64,
    pub cgroup_path: String,
    pub id: Option<String>,
    pub runtime: String,
    pub pod: Option<String>,
    pub netns: Option<u32>,
    pub host_network: bool,
}

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Entry {
    Container(Identity),
    Word(String),
}

/// Key of an entry.
pub(crate) type EntryId = u32;

/// Source of entries while a frame is decoded.
pub(crate) trait Entries {
    /// Returns the entry, or `None` if it cannot be read.
    fn get(&mut self, id: EntryId) -> Option<Entry>;
}

/// Time without use after which the writer forgets an entry; the file still has it.
const REMEMBERED_NS: i64 = Duration::from_secs(3600).as_nanos() as i64;

#[derive(Clone, Copy, Debug)]
struct EntryUse {
    id: EntryId,
    /// Recorded time of the last use, and the value of it in the file.
    used: i64,
    written: i64,
}

/// Writer's side: recently used entries.
#[derive(Debug, Default)]
pub(crate) struct Dictionary {
    entries: HashMap<Entry, EntryUse>,
}

impl Dictionary {
    /// Key of `entry`, which a frame uses at the recorded time `now`. Creates the entry if needed.
    pub fn key(&mut self, db: &Connection, entry: Entry, now: i64) -> rusqlite::Result<EntryId> {
        if let Some(used_entry) = self.entries.get_mut(&entry) {
            used_entry.used = used_entry.used.max(now);
            return Ok(used_entry.id);
        }
        let bytes = to_bytes(&entry);
        let crc = crc32fast::hash(&bytes);
        let found = db
            .prepare_cached("SELECT id FROM entry WHERE crc = ?1 AND body = ?2")?
            .query_row(params![crc, bytes], |row| row.get::<_, EntryId>(0))
            .optional()?;
        let id = match found {
            Some(id) => {
                write_use(db, id, now)?;
                id
            }
            None => {
                let next = "SELECT coalesce(max(id), 0) + 1 FROM entry";
                let id: EntryId = db.prepare_cached(next)?.query_row([], |row| row.get(0))?;
                let sum = checksum(id, &bytes);
                db.prepare_cached(
                    "INSERT INTO entry (id, crc, sum, used, body) VALUES (?1, ?2, ?3, ?4, ?5)",
                )?
                .execute(params![id, crc, sum, now, bytes])?;
                id
            }
        };
        let (used, written) = (now, now);
        self.entries.insert(entry, EntryUse { id, used, written });
        Ok(id)
    }

    /// Writes the last uses to the file, removes entries that no frame after `oldest` can use, and
    /// forgets those unused for a while.
    pub fn sweep(&mut self, db: &Connection, now: i64, oldest: i64) -> rusqlite::Result<()> {
        for used_entry in self.entries.values_mut().filter(|k| k.used > k.written) {
            write_use(db, used_entry.id, used_entry.used)?;
            used_entry.written = used_entry.used;
        }
        self.entries.retain(|_, k| k.used > now - REMEMBERED_NS);
        // A use that is not in the file yet is younger than the last sweep.
        let before = oldest.min(now - 2 * REMEMBERED_NS);
        db.prepare_cached("DELETE FROM entry WHERE used < ?1")?
            .execute([before])?;
        Ok(())
    }
}

fn write_use(db: &Connection, id: EntryId, used: i64) -> rusqlite::Result<()> {
    db.prepare_cached("UPDATE entry SET used = ?2 WHERE id = ?1")?
        .execute(params![id, used])
        .map(|_| ())
}

/// Checksum that includes the key: an entry under another key counts as damaged.
fn checksum(id: EntryId, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&id.to_le_bytes());
    hasher.update(bytes);
    hasher.finalize()
}

fn to_bytes(entry: &Entry) -> Vec<u8> {
    postcard::to_stdvec(entry).expect("strings and numbers can be serialised")
}

/// Limit on the entries that the reader caches.
const MOST_CACHED: usize = 20_000;

/// Reader's side: cached entries.
#[derive(Debug, Default)]
pub(crate) struct Cache {
    entries: HashMap<EntryId, Entry>,
}

/// [`Cache`] with its store.
pub(crate) struct Lookup<'a> {
    pub db: &'a Connection,
    pub cache: &'a mut Cache,
}

impl Entries for Lookup<'_> {
    fn get(&mut self, id: EntryId) -> Option<Entry> {
        if let Some(entry) = self.cache.entries.get(&id) {
            return Some(entry.clone());
        }
        let entry = read(self.db, id)?;
        if self.cache.entries.len() >= MOST_CACHED {
            self.cache.entries.clear();
        }
        self.cache.entries.insert(id, entry.clone());
        Some(entry)
    }
}

fn read(db: &Connection, id: EntryId) -> Option<Entry> {
    let mut select = db
        .prepare_cached("SELECT sum, body FROM entry WHERE id = ?1")
        .ok()?;
    let row = select.query_row([id], |row| {
        Ok((row.get::<_, u32>(0)?, row.get::<_, Vec<u8>>(1)?))
    });
    let (expected, bytes) = row.ok()?;
    (checksum(id, &bytes) == expected)
        .then(|| postcard::from_bytes(&bytes).ok())
        .flatten()
}
