//! Writer of a store.

use crate::error::{AppendError, OpenError};
use crate::files::{Change, Files, LOCK_SUFFIX, log_files, with_suffix};
use crate::frame::Frame;
use crate::header::{self, FileKind};
use crate::prune::{self, Pages};
use crate::state::{WriterState, edge, last_recorded_ns};
use crate::tier::TIERS;
use crate::wall;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::sys::stat::{Mode, SFlag, mknod};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use std::fs::{File, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Default size of a store.
pub const DEFAULT_LIMIT_BYTES: u64 = 1 << 30;
/// Smallest size: less would store too little to be worth it.
pub const SMALLEST_LIMIT_BYTES: u64 = 16 << 20;
/// Part of the limit that is reserved for the write-ahead log and for frames being written.
const FOR_LOG_BYTES: u64 = 6 << 20;
/// Pages after which the log is written back to the file.
const CHECKPOINT_PAGES: u32 = 512;
/// Interval, in recorded time, at which old frames are removed.
const SWEEP: Duration = Duration::from_secs(60);

/// Size limit of a store, and its readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Limit on the size of all of its files. The oldest frames are removed to keep it.
    pub bytes: u64,
    /// Access rights.
    pub access: Access,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            bytes: DEFAULT_LIMIT_BYTES,
            access: Access::Owner,
        }
    }
}

/// Readers of a store in addition to its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// No others.
    Owner,
    /// Members of the group with this number.
    Group(u32),
}

/// Size and begin of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Size of all of its files.
    pub bytes: u64,
    /// Begin of its oldest frame. `None` if it has none.
    pub since: Option<SystemTime>,
}

/// Store that is open for appending. A file has one at a time.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    limits: Limits,
    db: Connection,
    /// `None` after a failure: read again before the next frame.
    state: Option<WriterState>,
    swept_ns: Option<i64>,
    files: Files,
    /// Lock that excludes a second writer.
    _lock: Flock<File>,
}

impl Store {
    /// Opens the store at `path`, or creates one there. Its folder must exist.
    ///
    /// # Errors
    /// [`OpenError`]. A file that is not a store, or one of a newer version, stays unchanged.
    pub fn open(path: &Path, limits: Limits) -> Result<Store, OpenError> {
        let io = |source| OpenError::Io {
            path: path.to_owned(),
            source,
        };
        make_file(path).map_err(io)?;
        let there = std::fs::metadata(path).map_err(io)?;
        if !there.is_file() {
            return Err(OpenError::NotAStore(path.to_owned()));
        }
        let lock = lock(path)?;
        let error = |e| OpenError::database(path, e);
        let read_only = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let probe = Connection::open_with_flags(path, read_only).map_err(error)?;
        let kind = header::check(&probe, path)?;
        drop(probe);
        give_access(path, limits.access).map_err(io)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut db = Connection::open_with_flags(path, flags).map_err(error)?;
        header::check(&db, path)?;
        if kind == FileKind::Empty {
            header::create(&mut db).map_err(error)?;
        }
        set_up(&db).map_err(error)?;
        // The files of its log may still have the rights of an earlier configuration.
        for log in log_files(path) {
            match give_access(&log, limits.access) {
                Err(e) if e.kind() != ErrorKind::NotFound => return Err(io(e)),
                _ => {}
            }
        }
        let mut store = Store {
            path: path.to_owned(),
            limits,
            db,
            state: None,
            swept_ns: None,
            files: Files::of(path).map_err(io)?,
            _lock: lock,
        };
        store.limit(limits.bytes).map_err(error)?;
        store.state = Some(WriterState::load(&store.db).map_err(error)?);
        store.files.update();
        Ok(store)
    }

    /// Path of the store.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends the next frame. Its time may be anything; it counts as later than the frames before
    /// it.
    ///
    /// # Errors
    /// [`AppendError`]: nothing of the frame is stored, and the next one may be tried. After
    /// [`AppendError::Gone`] and [`AppendError::Damaged`] the store must be opened again.
    pub fn append(&mut self, frame: &Frame) -> Result<(), AppendError> {
        if frame.length.is_zero() || frame.length > Duration::from_secs(86_400) {
            return Err(AppendError::Empty);
        }
        match self.files.compare() {
            Change::Nothing => {}
            Change::Written => self.verify()?,
            Change::Gone(path) => {
                self.close_replaced();
                return Err(AppendError::Gone(path));
            }
        }
        let state = self.state.take();
        let appended = self.append_in_transaction(state, frame);
        self.files.update();
        match appended {
            Ok(state) => {
                self.state = Some(state);
                Ok(())
            }
            Err(error) => Err(AppendError::database(&self.path, error)),
        }
    }

    /// Checks that the store still has the appended frames after another program wrote to its
    /// files. A checkpoint of an SQLite client passes; a copy over the file and a truncated log do
    /// not.
    fn verify(&self) -> Result<(), AppendError> {
        let read = || -> rusqlite::Result<Option<String>> {
            // Drop the cached pages, which are older than the write.
            self.db.execute_batch("PRAGMA shrink_memory")?;
            let last_ns = last_recorded_ns(&self.db)?;
            let expected_ns = self.state.as_ref().map(|state| state.recorded_ns);
            if expected_ns.is_some_and(|expected_ns| expected_ns != last_ns) {
                return Ok(Some("its last frames are not in it".to_owned()));
            }
            let mut check = self.db.prepare("PRAGMA quick_check(1)")?;
            let found: String = check.query_row([], |row| row.get(0))?;
            Ok((found != "ok").then_some(found))
        };
        let why = match read() {
            Ok(None) => return Ok(()),
            Ok(Some(why)) => why,
            Err(error) => error.to_string(),
        };
        // The log belongs to other contents of the file.
        self.close_without_checkpoint();
        Err(AppendError::Damaged {
            path: self.path.clone(),
            why: format!("another program wrote to it: {why}"),
        })
    }

    /// Closes a store whose paths now belong to another program's files. The log goes into the open
    /// file, and closing removes nothing at these paths.
    fn close_replaced(&self) {
        // The rest of the log is lost if this fails. The caller reports that the store is gone.
        let _ = self
            .db
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        self.close_without_checkpoint();
    }

    fn close_without_checkpoint(&self) {
        let option = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
        let set = self.db.set_db_config(option, true);
        debug_assert!(set.is_ok(), "SQLite has had this option since 3.15");
    }

    fn append_in_transaction(
        &mut self,
        state: Option<WriterState>,
        frame: &Frame,
    ) -> rusqlite::Result<WriterState> {
        let most_bytes = self.most_bytes();
        let tx = self.db.transaction()?;
        let mut state = match state {
            Some(state) => state,
            None => WriterState::load(&tx)?,
        };
        state.append(&tx, frame)?;
        let now_ns = state.recorded_ns;
        let sweep_ns = SWEEP.as_nanos() as i64;
        let sweep = self.swept_ns.is_none_or(|at| now_ns - at >= sweep_ns)
            || Pages::of(&tx)?.used_bytes() > most_bytes;
        if sweep {
            let oldest = prune::prune(&tx, now_ns, most_bytes)?;
            state.dictionary.sweep(&tx, now_ns, oldest)?;
        }
        tx.commit()?;
        if sweep {
            self.swept_ns = Some(now_ns);
            // The frame is stored. Pages that cannot be returned now are returned at the next
            // sweep.
            let _later = prune::shrink(&self.db, most_bytes);
        }
        Ok(state)
    }

    /// Size and begin of the store.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn usage(&self) -> Result<Usage, AppendError> {
        let error = |e| AppendError::database(&self.path, e);
        let pages = Pages::of(&self.db).map_err(error)?;
        let mut since: Option<i64> = None;
        for tier in TIERS {
            let sql = "(SELECT start_ms FROM {} ORDER BY recorded_ns LIMIT 1)";
            let first = edge(&self.db, &tier, &sql.replace("{}", tier.table)).map_err(error)?;
            since = first.into_iter().chain(since).min();
        }
        Ok(Usage {
            bytes: (pages.all * pages.bytes_each) as u64 + log_bytes(&self.path),
            since: since.map(wall::time),
        })
    }

    fn most_bytes(&self) -> i64 {
        self.limits.bytes.saturating_sub(FOR_LOG_BYTES) as i64
    }

    fn limit(&mut self, bytes: u64) -> rusqlite::Result<()> {
        self.limits.bytes = bytes.max(SMALLEST_LIMIT_BYTES);
        // A file that is larger has no free page for the next frame.
        let (most, tx) = (self.most_bytes(), self.db.transaction()?);
        prune::prune(&tx, i64::MIN, most)?;
        tx.commit()?;
        prune::shrink(&self.db, most)?;
        // Frames are removed before the file is that large. This limit holds whatever happens.
        let pages = self.limits.bytes as i64 / Pages::of(&self.db)?.bytes_each;
        // The answer is the limit in force: the current size, if that is larger.
        self.db
            .pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))
    }
}

/// Renames the damaged store at `path`, so that a new one can begin there. The rest of its content
/// can still be read. It replaces a store that was set aside before.
///
/// # Errors
/// The folder cannot be written.
pub fn set_aside(path: &Path) -> std::io::Result<PathBuf> {
    let to = with_suffix(path, ".damaged");
    // The log belongs to a file of this name, and would be mistaken for the new one's.
    for (from, to) in log_files(path).iter().zip(log_files(&to)) {
        match std::fs::rename(from, to) {
            Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
            _ => {}
        }
    }
    std::fs::rename(path, &to)?;
    Ok(to)
}

fn set_up(db: &Connection) -> rusqlite::Result<()> {
    db.pragma_update(None, "journal_mode", "WAL")?;
    // A loss of power loses at most the content of the log; a killed process loses nothing.
    db.pragma_update(None, "synchronous", "NORMAL")?;
    db.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    db.pragma_update(None, "journal_size_limit", FOR_LOG_BYTES as i64 / 2)?;
    // Page cache, KiB.
    db.pragma_update(None, "cache_size", -1024)?;
    db.set_prepared_statement_cache_capacity(64);
    Ok(())
}

fn give_access(path: &Path, access: Access) -> std::io::Result<()> {
    let mode = match access {
        Access::Owner => 0o600,
        Access::Group(gid) => {
            std::os::unix::fs::chown(path, None, Some(gid))?;
            0o640
        }
    };
    std::fs::set_permissions(path, Permissions::from_mode(mode))
}

/// Creates an empty file at `path`, for its owner alone, unless one exists. It is not opened:
/// [`crate::files`] explains why.
fn make_file(path: &Path) -> std::io::Result<()> {
    match mknod(path, SFlag::S_IFREG, Mode::S_IRUSR | Mode::S_IWUSR, 0) {
        Ok(()) | Err(Errno::EEXIST) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Locks a file next to the store.
fn lock(path: &Path) -> Result<Flock<File>, OpenError> {
    let lock_path = with_suffix(path, LOCK_SUFFIX);
    let file =
        cofferdam_paths::open_lock_file(&lock_path, 0o600).map_err(|source| OpenError::Io {
            path: lock_path,
            source,
        })?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock)
        .map_err(|_| OpenError::InUse(path.to_owned()))
}

fn log_bytes(path: &Path) -> u64 {
    let size = |path| std::fs::metadata(path).map_or(0, |m| m.len());
    log_files(path).into_iter().map(size).sum()
}
