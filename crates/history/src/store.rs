//! The writer.

use crate::error::{AppendError, OpenError};
use crate::frame::Frame;
use crate::header::{self, Kind};
use crate::prune::{self, Pages};
use crate::state::{State, edge};
use crate::tier::TIERS;
use crate::wall;
use nix::fcntl::{Flock, FlockArg};
use rusqlite::{Connection, OpenFlags};
use std::fs::{File, OpenOptions, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Size of a store unless the configuration says otherwise.
pub const DEFAULT_LIMIT_BYTES: u64 = 1 << 30;
/// A smaller store keeps too little to be worth it.
pub const SMALLEST_LIMIT_BYTES: u64 = 16 << 20;
/// Of the limit, what the write-ahead log and frames in the making may take.
const FOR_LOG_BYTES: u64 = 6 << 20;
/// Pages after which the log is written back to the file.
const CHECKPOINT_PAGES: u32 = 512;
/// Old frames are removed so often, by recorded time.
const SWEEP: Duration = Duration::from_secs(60);

/// What a store may take, and who may read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// All of its files together; the oldest frames are removed for it.
    pub bytes: u64,
    /// Who may read.
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

/// Who may read a store besides its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nobody.
    Owner,
    /// The members of a group, by its number.
    Group(u32),
}

/// What a store takes and has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// All of its files.
    pub bytes: u64,
    /// Begin of its oldest frame; `None` if it has none.
    pub since: Option<SystemTime>,
}

/// A store that is appended to. One at a time has a file.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    limits: Limits,
    db: Connection,
    /// `None` after a failure: read again before the next frame.
    state: Option<State>,
    swept_ns: Option<i64>,
    /// Device and number of the file that is open.
    inode: (u64, u64),
    /// Keeps a second writer away.
    _lock: Flock<File>,
}

impl Store {
    /// Opens the store at `path`, or makes one there; its folder must exist.
    ///
    /// # Errors
    /// [`OpenError`]. A file that is not a store, or one of a newer version, stays as it is.
    pub fn open(path: &Path, limits: Limits) -> Result<Store, OpenError> {
        let io = |source| OpenError::Io {
            path: path.to_owned(),
            source,
        };
        // Made with its rights. One that is there is not opened here: closing a file gives up all
        // of a process's record locks on it, those of SQLite too.
        let made = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path);
        match made {
            Err(e) if e.kind() != ErrorKind::AlreadyExists => return Err(io(e)),
            _ => {}
        }
        let there = std::fs::metadata(path).map_err(io)?;
        if !there.is_file() {
            return Err(OpenError::NotAStore(path.to_owned()));
        }
        let lock = lock(path)?;
        let error = |e| OpenError::database(path, e);
        let read_only = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let looked = Connection::open_with_flags(path, read_only).map_err(error)?;
        let kind = header::check(&looked, path)?;
        drop(looked);
        give_access(path, limits.access).map_err(io)?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let mut db = Connection::open_with_flags(path, flags).map_err(error)?;
        header::check(&db, path)?;
        if kind == Kind::Empty {
            header::create(&mut db).map_err(error)?;
        }
        set_up(&db).map_err(error)?;
        // The files of its log may be left from other rights.
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
            inode: (there.dev(), there.ino()),
            _lock: lock,
        };
        store.limit(limits.bytes).map_err(error)?;
        store.state = Some(State::load(&store.db).map_err(error)?);
        Ok(store)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Appends what came next. Its time may be anything; it counts as later than what was appended
    /// before.
    ///
    /// # Errors
    /// [`AppendError`]: nothing of the frame is kept, and the next one may be tried.
    pub fn append(&mut self, frame: &Frame) -> Result<(), AppendError> {
        if frame.length.is_zero() || frame.length > Duration::from_secs(86_400) {
            return Err(AppendError::Empty);
        }
        if !self.is_in_place() {
            return Err(AppendError::Gone(self.path.clone()));
        }
        let state = self.state.take();
        match self.append_in_transaction(state, frame) {
            Ok(state) => {
                self.state = Some(state);
                Ok(())
            }
            Err(error) => Err(AppendError::database(&self.path, error)),
        }
    }

    fn append_in_transaction(
        &mut self,
        state: Option<State>,
        frame: &Frame,
    ) -> rusqlite::Result<State> {
        let most_bytes = self.most_bytes();
        let tx = self.db.transaction()?;
        let mut state = match state {
            Some(state) => state,
            None => State::load(&tx)?,
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
            // The frame is kept; what cannot be given back now is so at the next sweep.
            let _later = prune::shrink(&self.db, most_bytes);
        }
        Ok(state)
    }

    /// What it takes and has now.
    ///
    /// # Errors
    /// When the database cannot be read.
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
        // Frames are removed before the file is that large; this holds whatever happens.
        let pages = self.limits.bytes as i64 / Pages::of(&self.db)?.bytes_each;
        // Answers with the limit in force: the size, if that is larger.
        self.db
            .pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))
    }

    /// Whether the path still names the file that is open.
    fn is_in_place(&self) -> bool {
        let there = std::fs::metadata(&self.path);
        there.is_ok_and(|there| (there.dev(), there.ino()) == self.inode)
    }
}

/// Renames the damaged store at `path`, so that a new one can begin there; what is left of it can
/// still be read. It takes the place of one that was set aside before.
///
/// # Errors
/// When its folder cannot be written.
pub fn set_aside(path: &Path) -> std::io::Result<PathBuf> {
    let to = beside(path, ".damaged");
    // Its log belongs to a file of this name, and would be taken for the new one's.
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
    // A loss of power costs at most what is in the log; a killed process costs nothing.
    db.pragma_update(None, "synchronous", "NORMAL")?;
    db.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES)?;
    db.pragma_update(None, "journal_size_limit", FOR_LOG_BYTES as i64 / 2)?;
    // Pages kept in memory, KiB.
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

/// A file beside the store: see [`Store::open`] why not the store itself.
fn lock(path: &Path) -> Result<Flock<File>, OpenError> {
    let beside = beside(path, "-lock");
    let mut options = OpenOptions::new();
    let options = options.write(true).create(true).truncate(false).mode(0o600);
    let file = options.open(&beside).map_err(|source| OpenError::Io {
        path: beside,
        source,
    })?;
    Flock::lock(file, FlockArg::LockExclusiveNonblock)
        .map_err(|_| OpenError::InUse(path.to_owned()))
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// The write-ahead log and its index.
fn log_files(path: &Path) -> [PathBuf; 2] {
    ["-wal", "-shm"].map(|suffix| beside(path, suffix))
}

fn log_bytes(path: &Path) -> u64 {
    let size = |path| std::fs::metadata(path).map_or(0, |m| m.len());
    log_files(path).into_iter().map(size).sum()
}
