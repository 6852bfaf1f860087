//! State of the writer between two frames: the recorded time, and the incomplete sums of the
//! coarser tiers. The file has all of it too: after a failure the writer reads it again.

use crate::body;
use crate::dictionary::{Cache, Dictionary, Lookup};
use crate::frame::Frame;
use crate::row::{COLUMNS, FrameRow, length_ns};
use crate::sum::Sum;
use crate::tier::{TIERS, Tier};
use crate::wall;
use rusqlite::{Connection, OptionalExtension};

/// Sum that is not yet a row.
#[derive(Debug)]
struct Pending {
    sum: Sum,
    bucket: i64,
    /// Recorded time at its end.
    recorded_ns: i64,
}

#[derive(Debug)]
pub(crate) struct WriterState {
    /// Recorded time at the end of the last frame.
    pub recorded_ns: i64,
    pub dictionary: Dictionary,
    /// Incomplete sum of each tier but the finest.
    pending: [Option<Pending>; TIERS.len() - 1],
}

impl WriterState {
    /// Reads the state from the store. Frames that no coarser row covers are summed up again.
    pub fn load(db: &Connection) -> rusqlite::Result<WriterState> {
        let mut state = WriterState {
            recorded_ns: last_recorded_ns(db)?,
            dictionary: Dictionary::default(),
            pending: [const { None }; TIERS.len() - 1],
        };
        let mut cache = Cache::default();
        for at in (1..TIERS.len()).rev() {
            let finished = edge(db, &TIERS[at], "max(recorded_ns)")?.unwrap_or(0);
            let finer = &TIERS[at - 1];
            let sql = format!(
                "SELECT {COLUMNS} FROM {} WHERE recorded_ns > ?1 ORDER BY recorded_ns",
                finer.table
            );
            let mut select = db.prepare(&sql)?;
            let mut rows = select.query([finished])?;
            while let Some(row) = rows.next()? {
                let row = FrameRow::read(row)?;
                let cache = &mut cache;
                // A damaged row is part of no sum.
                if let Some(frame) = row.frame(finer, &mut Lookup { db, cache }) {
                    state.add(db, at, &frame, row.recorded_ns)?;
                }
            }
        }
        Ok(state)
    }

    /// Writes `frame` into the finest tier, and completed sums into coarser ones. Returns whether a
    /// sum was completed.
    pub fn append(&mut self, db: &Connection, frame: &Frame) -> rusqlite::Result<bool> {
        self.recorded_ns = self.recorded_ns.saturating_add(length_ns(frame));
        let recorded_ns = self.recorded_ns;
        self.write(db, 0, frame, recorded_ns)?;
        self.add(db, 1, frame, recorded_ns)
    }

    /// Adds a frame of the tier below to tier `at`. A frame that does not belong to the current sum
    /// completes and writes that sum first.
    fn add(
        &mut self,
        db: &Connection,
        at: usize,
        frame: &Frame,
        recorded_ns: i64,
    ) -> rusqlite::Result<bool> {
        let bucket = TIERS[at].bucket(middle_ms(frame));
        if let Some(pending) = &mut self.pending[at - 1]
            && pending.bucket == bucket
            && pending.sum.continues(frame)
            && pending.sum.frame().length < TIERS[at].resolution * 2
        {
            pending.sum.add(frame);
            pending.recorded_ns = recorded_ns;
            return Ok(false);
        }
        let begun = Pending {
            sum: Sum::new(frame.clone()),
            bucket,
            recorded_ns,
        };
        let Some(finished) = self.pending[at - 1].replace(begun) else {
            return Ok(false);
        };
        let frame = finished.sum.finish();
        self.write(db, at, &frame, finished.recorded_ns)?;
        if at + 1 < TIERS.len() {
            self.add(db, at + 1, &frame, finished.recorded_ns)?;
        }
        Ok(true)
    }

    fn write(
        &mut self,
        db: &Connection,
        at: usize,
        frame: &Frame,
        recorded_ns: i64,
    ) -> rusqlite::Result<()> {
        let (dictionary, now) = (&mut self.dictionary, self.recorded_ns);
        let mut keys = |entry| dictionary.key(db, entry, now);
        let bytes = body::encode(frame, &mut keys)?;
        FrameRow::new(frame, recorded_ns, bytes).insert(db, &TIERS[at])
    }
}

/// Recorded time at the end of the last frame, 0 if there is none.
pub(crate) fn last_recorded_ns(db: &Connection) -> rusqlite::Result<i64> {
    let mut last_ns = 0;
    for tier in TIERS {
        last_ns = last_ns.max(edge(db, &tier, "max(recorded_ns)")?.unwrap_or(0));
    }
    Ok(last_ns)
}

/// First or last value of a tier. `None` if it is empty.
pub(crate) fn edge(db: &Connection, tier: &Tier, what: &str) -> rusqlite::Result<Option<i64>> {
    let sql = format!("SELECT {what} FROM {}", tier.table);
    let found = db.prepare_cached(&sql)?.query_row([], |row| row.get(0));
    found.optional().map(Option::flatten)
}

fn middle_ms(frame: &Frame) -> i64 {
    let (start, end) = (wall::ms(frame.start), wall::ms(frame.end));
    start.saturating_add(end.saturating_sub(start) / 2)
}
