//! Reader of a store. Another process may append at the same time.

use crate::dictionary::{Cache, Lookup};
use crate::error::{Damage, OpenError, ReadError};
use crate::frame::Frame;
use crate::header::open_to_read;
use crate::row::{COLUMNS, FrameRow};
use crate::salvage::{self, ReachableFrame};
use crate::sum::Sum;
use crate::tier::TIERS;
use crate::timeline;
use crate::wall;
use nix::unistd::AccessFlags;
use rusqlite::{Connection, OptionalExtension, params};
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Open store. Each call sees the frames appended until then.
#[derive(Debug)]
pub struct Reader {
    path: PathBuf,
    /// Device and inode of the open file.
    id: (u64, u64),
    db: Connection,
    cache: Cache,
    damage: HashSet<Damage>,
}

/// Place of a frame: its tier, and the recorded time at its end.
type FramePlace = (usize, i64);

impl Reader {
    /// Opens the store at `path`, which must exist.
    ///
    /// # Errors
    /// [`OpenError`]. A truncated store is opened anyway, for the rest of its content.
    pub fn open(path: &Path) -> Result<Reader, OpenError> {
        let io = |source| OpenError::Io {
            path: path.to_owned(),
            source,
        };
        let meta = std::fs::metadata(path).map_err(io)?;
        if !meta.is_file() {
            return Err(OpenError::NotAStore(path.to_owned()));
        }
        // Check without opening the file: see [`crate::Store::open`].
        nix::unistd::access(path, AccessFlags::R_OK).map_err(|e| io(e.into()))?;
        let db = match open_to_read(path, "mode=ro") {
            // No process appends, and this user may not create the files that sharing needs.
            Err(OpenError::Database { source, .. }) if cannot_share(&source, path) => {
                open_to_read(path, "mode=ro&immutable=1")?
            }
            other => other?,
        };
        db.set_prepared_statement_cache_capacity(64);
        Ok(Reader {
            path: path.to_owned(),
            id: (meta.dev(), meta.ino()),
            db,
            cache: Cache::default(),
            damage: HashSet::new(),
        })
    }

    /// Path of the store.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the path still names the open file.
    pub fn is_in_place(&self) -> bool {
        let found = std::fs::metadata(&self.path);
        found.is_ok_and(|meta| (meta.dev(), meta.ino()) == self.id)
    }

    /// Begin of the earliest and end of the latest frame, by the wall clock. `None` if the store is
    /// empty.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn extent(&self) -> Result<Option<(SystemTime, SystemTime)>, ReadError> {
        match self.extent_by_index() {
            Err(e) if salvage::is_damage(&e.source) => {
                let reached = salvage::reach(&self.db, 0);
                let start = reached.iter().map(|r| r.start_ms).min();
                let end = reached.iter().map(|r| r.end_ms).max();
                Ok(start.map(wall::time).zip(end.map(wall::time)))
            }
            other => other,
        }
    }

    fn extent_by_index(&self) -> Result<Option<(SystemTime, SystemTime)>, ReadError> {
        let mut extent: Option<(i64, i64)> = None;
        for tier in TIERS {
            let sql = format!(
                "SELECT (SELECT start_ms FROM {0} ORDER BY end_ms LIMIT 1),
                        (SELECT max(end_ms) FROM {0})",
                tier.table
            );
            let row = self.db.prepare_cached(&sql).and_then(|mut select| {
                select.query_row([], |row| {
                    Ok((row.get::<_, Option<i64>>(0)?, row.get::<_, Option<i64>>(1)?))
                })
            });
            if let (Some(start), Some(end)) = row.map_err(|e| self.error(e))? {
                let (first, last) = extent.unwrap_or((start, end));
                extent = Some((first.min(start), last.max(end)));
            }
        }
        Ok(extent.map(|(start, end)| (wall::time(start), wall::time(end))))
    }

    /// Finest frame that covers `time`, or the last one that ended before.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn frame_at(&mut self, time: SystemTime) -> Result<Option<Frame>, ReadError> {
        let ms = wall::ms(time);
        for tier in 0..TIERS.len() {
            // If the frame is damaged, try a coarser one.
            let found = match self.one(tier, Side::EndsAfter, ms, 0) {
                Err(e) if salvage::is_damage(&e.source) => continue,
                other => other?,
            };
            if let Some(row) = found
                && row.start_ms <= ms
                && let Some(frame) = self.frame(tier, &row)
            {
                return Ok(Some(frame));
            }
        }
        self.nearest(ms, Side::EndedUntil)
    }

    /// First frame that ends after `time`, the finest if there are several. With the end of a
    /// frame, this is the next one.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn after(&mut self, time: SystemTime) -> Result<Option<Frame>, ReadError> {
        self.nearest(wall::ms(time), Side::EndsAfter)
    }

    /// Last frame that ended before `time`, the finest if there are several. With the end of a
    /// frame, this is the previous one.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn before(&mut self, time: SystemTime) -> Result<Option<Frame>, ReadError> {
        self.nearest(wall::ms(time).saturating_sub(1), Side::EndedUntil)
    }

    /// Frames between two times, at most `most`: those of the finest tier that has so few, or sums
    /// over equal parts of the time. A part without recording has no frame.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn frames(
        &mut self,
        from: SystemTime,
        to: SystemTime,
        most: usize,
    ) -> Result<Vec<Frame>, ReadError> {
        let most = most.max(1);
        let mut places = self.places(TIERS.len() - 1, from, to)?;
        for tier in (0..TIERS.len() - 1).rev() {
            let finer = self.places(tier, from, to)?;
            if finer.len() > most {
                break;
            }
            places = finer;
        }
        if places.len() <= most {
            let mut frames = Vec::with_capacity(places.len());
            for place in places {
                frames.extend(self.frame_of(place)?);
            }
            return Ok(frames);
        }
        let (start_ms, end_ms) = (wall::ms(from), wall::ms(to));
        let span_ms = end_ms.saturating_sub(start_ms).max(1);
        let part = |frame: &Frame| {
            let at = wall::ms(frame.end).saturating_sub(start_ms);
            // The end of the range belongs to the last part, as each frame's end belongs to its
            // part.
            let at = i128::from(at.clamp(1, span_ms) - 1);
            (at * most as i128 / i128::from(span_ms)) as usize
        };
        let mut sums: Vec<Option<Sum>> = (0..most).map(|_| None).collect();
        for place in places {
            let Some(frame) = self.frame_of(place)? else {
                continue;
            };
            match &mut sums[part(&frame)] {
                Some(sum) => sum.add(&frame),
                empty => *empty = Some(Sum::new(frame)),
            }
        }
        Ok(sums.into_iter().flatten().map(Sum::finish).collect())
    }

    /// Passes every frame that lies at least partly between two times to `take`, in the order of
    /// recording. The frames come from the tier with `resolution` or the next finer one, from
    /// coarser tiers before its begin, and from finer ones after its last frame. No time is covered
    /// twice.
    ///
    /// # Errors
    /// The database cannot be read.
    pub fn each(
        &mut self,
        from: SystemTime,
        to: SystemTime,
        resolution: Duration,
        mut take: impl FnMut(Frame) -> ControlFlow<()>,
    ) -> Result<(), ReadError> {
        let wanted = TIERS
            .iter()
            .rposition(|t| t.resolution <= resolution)
            .unwrap_or(0);
        for place in self.places(wanted, from, to)? {
            if let Some(frame) = self.frame_of(place)?
                && take(frame).is_break()
            {
                break;
            }
        }
        Ok(())
    }

    /// Frames that were skipped so far because their bytes are damaged, in the order of time.
    pub fn damage(&self) -> Vec<Damage> {
        let mut all: Vec<Damage> = self.damage.iter().copied().collect();
        all.sort_by_key(|d| (d.end, d.resolution));
        all
    }

    /// Places of the frames that lie at least partly between two times, from tier `wanted` if it
    /// has them. The caller reads each frame on its own: a long transaction would prevent the
    /// writer from emptying its log.
    fn places(
        &self,
        wanted: usize,
        from: SystemTime,
        to: SystemTime,
    ) -> Result<Vec<FramePlace>, ReadError> {
        let read = || -> rusqlite::Result<Vec<FramePlace>> {
            // Use the index: a full scan would read every row, and rows are large.
            let mut places = Vec::new();
            for part in timeline::parts(&self.db, wanted)? {
                let sql = format!(
                    "SELECT recorded_ns FROM {0} INDEXED BY {0}_by_end
                     WHERE end_ms > ?1 AND end_ms <= ?2 AND recorded_ns > ?3 AND recorded_ns <= ?4
                     UNION
                     SELECT recorded_ns FROM (SELECT recorded_ns, start_ms FROM {0}
                         INDEXED BY {0}_by_end
                         WHERE end_ms > ?1 AND end_ms > ?2 AND recorded_ns > ?3
                         AND recorded_ns <= ?4 ORDER BY end_ms LIMIT 1)
                     WHERE start_ms < ?2
                     ORDER BY recorded_ns",
                    TIERS[part.tier].table
                );
                let mut select = self.db.prepare_cached(&sql)?;
                let between = [wall::ms(from), wall::ms(to), part.after_ns, part.until_ns];
                let found = select.query_map(between, |row| Ok((part.tier, row.get(0)?)))?;
                for place in found {
                    places.push(place?);
                }
            }
            Ok(places)
        };
        match read() {
            Err(e) if salvage::is_damage(&e) => {
                let (from, to) = (wall::ms(from), wall::ms(to));
                let between = |r: &ReachableFrame| r.end_ms > from && r.start_ms < to;
                let reached = salvage::reach(&self.db, wanted).into_iter();
                Ok(reached
                    .filter(between)
                    .map(|r| (r.tier, r.recorded_ns))
                    .collect())
            }
            other => other.map_err(|e| self.error(e)),
        }
    }

    /// Reads the frame at a place. `None` if it is damaged, or has been removed since.
    fn frame_of(&mut self, (tier, recorded_ns): FramePlace) -> Result<Option<Frame>, ReadError> {
        let table = TIERS[tier].table;
        let sql = format!("SELECT {COLUMNS} FROM {table} WHERE recorded_ns = ?1");
        let found = self
            .db
            .prepare_cached(&sql)
            .and_then(|mut s| s.query_row([recorded_ns], FrameRow::read).optional());
        match found {
            Ok(row) => Ok(row.and_then(|row| self.frame(tier, &row))),
            Err(e) if salvage::is_damage(&e) => {
                self.note_unreachable((tier, recorded_ns));
                Ok(None)
            }
            Err(e) => Err(self.error(e)),
        }
    }

    /// Row of `tier` that is nearest to a time, after `skip` others.
    fn one(
        &self,
        tier: usize,
        side: Side,
        ms: i64,
        skip: i64,
    ) -> Result<Option<FrameRow>, ReadError> {
        let (table, condition) = (TIERS[tier].table, side.condition());
        let sql = format!("SELECT {COLUMNS} FROM {table} WHERE {condition} LIMIT 1 OFFSET ?2");
        let found = self
            .db
            .prepare_cached(&sql)
            .and_then(|mut s| s.query_row(params![ms, skip], FrameRow::read).optional());
        found.map_err(|e| self.error(e))
    }

    /// Nearest frame that is undamaged.
    fn nearest(&mut self, ms: i64, side: Side) -> Result<Option<Frame>, ReadError> {
        match self.nearest_by_index(ms, side) {
            Err(e) if salvage::is_damage(&e.source) => {
                let mut reached = salvage::reach(&self.db, 0);
                reached.retain(|r| match side {
                    Side::EndsAfter => r.end_ms > ms,
                    Side::EndedUntil => r.end_ms <= ms,
                });
                reached.sort_by_key(|r| match side {
                    Side::EndsAfter => r.end_ms,
                    Side::EndedUntil => r.end_ms.saturating_neg(),
                });
                for r in reached {
                    if let Some(frame) = self.frame_of((r.tier, r.recorded_ns))? {
                        return Ok(Some(frame));
                    }
                }
                Ok(None)
            }
            other => other,
        }
    }

    fn nearest_by_index(&mut self, ms: i64, side: Side) -> Result<Option<Frame>, ReadError> {
        let mut skips = [0; TIERS.len()];
        let mut next: [Option<FrameRow>; TIERS.len()] = [const { None }; TIERS.len()];
        for (tier, first) in next.iter_mut().enumerate() {
            *first = self.one(tier, side, ms, 0)?;
        }
        loop {
            let ends = next.iter().enumerate();
            let ends = ends.filter_map(|(tier, row)| Some((row.as_ref()?.end_ms, tier)));
            let found = match side {
                Side::EndsAfter => ends.min_by_key(|(end, tier)| (*end, *tier)),
                Side::EndedUntil => ends.max_by_key(|(end, tier)| (*end, std::cmp::Reverse(*tier))),
            };
            let Some((_, tier)) = found else {
                return Ok(None);
            };
            let row = next[tier].take().expect("it was found there");
            if let Some(frame) = self.frame(tier, &row) {
                return Ok(Some(frame));
            }
            skips[tier] += 1;
            next[tier] = self.one(tier, side, ms, skips[tier])?;
        }
    }

    /// Records that a page of the frame is damaged. Its end may be readable nevertheless.
    fn note_unreachable(&mut self, (tier, recorded_ns): FramePlace) {
        let table = TIERS[tier].table;
        let sql = format!("SELECT end_ms FROM {table} WHERE recorded_ns = ?1");
        let end_ms = self.db.query_row(&sql, [recorded_ns], |row| row.get(0));
        self.damage.insert(Damage {
            end: wall::time(end_ms.unwrap_or(0)),
            resolution: TIERS[tier].resolution,
        });
    }

    /// Decodes the frame of a row. If it is damaged, records that and returns `None`.
    fn frame(&mut self, tier: usize, row: &FrameRow) -> Option<Frame> {
        let (db, cache) = (&self.db, &mut self.cache);
        let frame = row.frame(&TIERS[tier], &mut Lookup { db, cache });
        if frame.is_none() {
            self.damage.insert(Damage {
                end: wall::time(row.end_ms),
                resolution: TIERS[tier].resolution,
            });
        }
        frame
    }

    fn error(&self, source: rusqlite::Error) -> ReadError {
        ReadError {
            path: self.path.clone(),
            source,
        }
    }
}

#[derive(Clone, Copy)]
enum Side {
    EndsAfter,
    EndedUntil,
}

impl Side {
    fn condition(self) -> &'static str {
        match self {
            Side::EndsAfter => "end_ms > ?1 ORDER BY end_ms, recorded_ns",
            Side::EndedUntil => "end_ms <= ?1 ORDER BY end_ms DESC, recorded_ns DESC",
        }
    }
}

/// Whether the error only means that the log cannot be shared, and there is no log.
fn cannot_share(error: &rusqlite::Error, path: &Path) -> bool {
    use rusqlite::ErrorCode;
    let code = error.sqlite_error_code();
    let files = matches!(code, Some(ErrorCode::CannotOpen | ErrorCode::ReadOnly));
    let mut log = path.as_os_str().to_owned();
    log.push("-wal");
    files && std::fs::metadata(log).map_or(true, |m| m.len() == 0)
}
