//! One row: a frame with its place in recorded time.

use crate::body;
use crate::dictionary::Entries;
use crate::frame::Frame;
use crate::tier::Tier;
use crate::wall;
use rusqlite::{Connection, Row, params};
use std::time::Duration;

/// Row as it is read; [`FrameRow::frame`] checks its body.
#[derive(Debug)]
pub(crate) struct FrameRow {
    /// Recorded time at its end: the sum of the lengths of all frames up to and including this one.
    pub recorded_ns: i64,
    pub length_ns: i64,
    pub start_ms: i64,
    pub end_ms: i64,
    crc: u32,
    body: Vec<u8>,
}

/// Columns that [`FrameRow::read`] reads, in its order.
pub(crate) const COLUMNS: &str = "recorded_ns, length_ns, start_ms, end_ms, crc, body";

impl FrameRow {
    pub fn new(frame: &Frame, recorded_ns: i64, body: Vec<u8>) -> FrameRow {
        let mut row = FrameRow {
            recorded_ns,
            length_ns: length_ns(frame),
            start_ms: wall::ms(frame.start),
            end_ms: wall::ms(frame.end),
            crc: 0,
            body,
        };
        row.crc = row.checksum();
        row
    }

    pub fn read(row: &Row<'_>) -> rusqlite::Result<FrameRow> {
        Ok(FrameRow {
            recorded_ns: row.get(0)?,
            length_ns: row.get(1)?,
            start_ms: row.get(2)?,
            end_ms: row.get(3)?,
            crc: row.get(4)?,
            body: row.get(5)?,
        })
    }

    pub fn insert(&self, db: &Connection, tier: &Tier) -> rusqlite::Result<()> {
        let sql = format!(
            "INSERT INTO {} ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            tier.table
        );
        db.prepare_cached(&sql)?.execute(params![
            self.recorded_ns,
            self.length_ns,
            self.start_ms,
            self.end_ms,
            self.crc,
            self.body
        ])?;
        Ok(())
    }

    /// Decodes the frame. `None` if its bytes do not match their checksum.
    pub fn frame(&self, tier: &Tier, entries: &mut dyn Entries) -> Option<Frame> {
        if self.crc != self.checksum() {
            return None;
        }
        let length = Duration::from_nanos(u64::try_from(self.length_ns).ok()?);
        let end = wall::time(self.end_ms);
        let (record, conditions) = body::read(&self.body, (end, length), entries)?;
        Some(Frame {
            start: wall::time(self.start_ms),
            end,
            length,
            resolution: tier.resolution,
            record,
            conditions,
        })
    }

    fn checksum(&self) -> u32 {
        let mut hasher = crc32fast::Hasher::new();
        for number in [self.recorded_ns, self.length_ns, self.start_ms, self.end_ms] {
            hasher.update(&number.to_le_bytes());
        }
        hasher.update(&self.body);
        hasher.finalize()
    }
}

/// Length of a frame on the axis of recorded time, nanoseconds.
pub(crate) fn length_ns(frame: &Frame) -> i64 {
    i64::try_from(frame.length.as_nanos()).unwrap_or(i64::MAX)
}
