//! Header of a file: whether it is a store of this version.

use crate::error::OpenError;
use crate::tier::TIERS;
use rusqlite::{Connection, OpenFlags};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

/// SQLite's `application_id` of a store: "CfHy".
const APPLICATION: i64 = 0x4366_4879;
/// SQLite's `user_version`: the format of tables and rows. A newer one is refused.
pub(crate) const FORMAT: i64 = 1;
/// Longest wait for another process's write, or for its recovery after a crash.
const WAIT: Duration = Duration::from_secs(2);

/// Kind of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileKind {
    /// Store that this version reads and writes.
    Store,
    /// Empty file, which can become a store.
    Empty,
}

/// Determines the kind of the file, and changes nothing.
pub(crate) fn check(db: &Connection, path: &Path) -> Result<FileKind, OpenError> {
    let error = |e| OpenError::database(path, e);
    db.busy_timeout(WAIT).map_err(error)?;
    let number = |name: &str| db.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let application = number("application_id").map_err(error)?;
    let found = number("user_version").map_err(error)?;
    if application != APPLICATION {
        let tables = db.query_row("SELECT count(*) FROM sqlite_schema", [], |row| {
            row.get::<_, i64>(0)
        });
        return match tables.map_err(error)? {
            0 if application == 0 && found == 0 => Ok(FileKind::Empty),
            _ => Err(OpenError::NotAStore(path.to_owned())),
        };
    }
    if found > FORMAT {
        return Err(OpenError::Newer {
            path: path.to_owned(),
            found,
            known: FORMAT,
        });
    }
    Ok(FileKind::Store)
}

/// Creates the tables of a new store.
pub(crate) fn create(db: &mut Connection) -> rusqlite::Result<()> {
    // These two take effect only before the first page is written.
    db.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    db.pragma_update(None, "journal_mode", "WAL")?;
    let tx = db.transaction()?;
    tx.execute_batch(
        "CREATE TABLE entry (
             id INTEGER PRIMARY KEY, crc INTEGER NOT NULL, sum INTEGER NOT NULL,
             used INTEGER NOT NULL, body BLOB NOT NULL
         );
         CREATE INDEX entry_by_crc ON entry (crc);
         CREATE INDEX entry_by_use ON entry (used);",
    )?;
    for tier in TIERS {
        let table = tier.table;
        tx.execute_batch(&format!(
            "CREATE TABLE {table} (
                 recorded_ns INTEGER PRIMARY KEY, length_ns INTEGER NOT NULL,
                 start_ms INTEGER NOT NULL, end_ms INTEGER NOT NULL, crc INTEGER NOT NULL,
                 body BLOB NOT NULL
             );
             CREATE INDEX {table}_by_end ON {table} (end_ms, start_ms);"
        ))?;
    }
    tx.pragma_update(None, "application_id", APPLICATION)?;
    tx.pragma_update(None, "user_version", FORMAT)?;
    tx.commit()
}

/// Opens the file for reading. `how` holds parameters of SQLite's URI. A truncated file is opened
/// too, for the rest of its content.
pub(crate) fn open_to_read(path: &Path, how: &str) -> Result<Connection, OpenError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY
        | OpenFlags::SQLITE_OPEN_NO_MUTEX
        | OpenFlags::SQLITE_OPEN_URI;
    let db = Connection::open_with_flags(uri(path, how), flags)
        .map_err(|e| OpenError::database(path, e))?;
    let kind = match check(&db, path) {
        Err(OpenError::Damaged { .. }) => {
            // SQLite refuses a truncated file unless `writable_schema` is on.
            let go_on = db.pragma_update(None, "writable_schema", "ON");
            go_on.map_err(|e| OpenError::database(path, e))?;
            check(&db, path)?
        }
        other => other?,
    };
    match kind {
        FileKind::Store => Ok(db),
        FileKind::Empty => Err(OpenError::NotAStore(path.to_owned())),
    }
}

fn uri(path: &Path, how: &str) -> String {
    let mut uri = "file:".to_owned();
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'.' | b'-' | b'_' => uri.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => uri.push(char::from(byte)),
            _ => uri.push_str(&format!("%{byte:02x}")),
        }
    }
    format!("{uri}?{how}")
}
