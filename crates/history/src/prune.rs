//! Removal of frames: those older than their tier stores, and the oldest ones beyond the limit of
//! bytes.

use crate::state::edge;
use crate::tier::{TIERS, Tier};
use rusqlite::Connection;

/// Rows removed at once when the limit of bytes is exceeded.
const AT_ONCE: i64 = 16;
/// Pages returned to the file system at once.
const PAGES_AT_ONCE: i64 = 1024;

/// Number of pages of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pages {
    pub all: i64,
    pub free: i64,
    pub bytes_each: i64,
}

impl Pages {
    pub fn of(db: &Connection) -> rusqlite::Result<Pages> {
        let number = |name: &str| db.pragma_query_value(None, name, |row| row.get(0));
        Ok(Pages {
            all: number("page_count")?,
            free: number("freelist_count")?,
            bytes_each: number("page_size")?,
        })
    }

    pub fn used_bytes(&self) -> i64 {
        (self.all - self.free) * self.bytes_each
    }
}

/// Removes frames that are too old at the recorded time `now_ns`, then the oldest ones until the
/// rest takes at most `most_bytes`. Returns the recorded time of the first frame that is left.
pub(crate) fn prune(db: &Connection, now_ns: i64, most_bytes: i64) -> rusqlite::Result<i64> {
    for (at, tier) in TIERS.iter().enumerate() {
        delete(
            db,
            tier,
            now_ns
                .saturating_sub(tier.retention_ns())
                .min(summed_up_to(db, at)?),
        )?;
    }
    while Pages::of(db)?.used_bytes() > most_bytes {
        if !remove_oldest(db)? {
            break;
        }
    }
    let mut first = now_ns;
    for tier in TIERS {
        first = first.min(edge(db, &tier, "min(recorded_ns)")?.unwrap_or(now_ns));
    }
    Ok(first)
}

/// Returns free pages to the file system if the file is larger than `most_bytes`, or mostly free.
pub(crate) fn shrink(db: &Connection, most_bytes: i64) -> rusqlite::Result<()> {
    let pages = Pages::of(db)?;
    if pages.all * pages.bytes_each > most_bytes || pages.free > pages.all / 2 {
        let sql = format!("PRAGMA incremental_vacuum({PAGES_AT_ONCE})");
        // The statement yields a row for each page that it returns.
        let mut vacuum = db.prepare_cached(&sql)?;
        let mut rows = vacuum.query([])?;
        while rows.next()?.is_some() {}
    }
    Ok(())
}

/// Removes some of the oldest rows: first rows that a coarser tier has in its sums, then any.
/// Returns false if there is none.
fn remove_oldest(db: &Connection) -> rusqlite::Result<bool> {
    let mut tiers = Vec::new();
    for (at, tier) in TIERS.iter().enumerate() {
        if let Some(first) = edge(db, tier, "min(recorded_ns)")? {
            tiers.push((first, at));
        }
    }
    tiers.sort_unstable();
    for any in [false, true] {
        for (_, at) in &tiers {
            let until_ns = if any {
                i64::MAX
            } else {
                summed_up_to(db, *at)?
            };
            let sql = format!(
                "DELETE FROM {0} WHERE recorded_ns <= ?1 AND recorded_ns IN
                 (SELECT recorded_ns FROM {0} ORDER BY recorded_ns LIMIT ?2)",
                TIERS[*at].table
            );
            if db.prepare_cached(&sql)?.execute([until_ns, AT_ONCE])? > 0 {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

fn delete(db: &Connection, tier: &Tier, until_ns: i64) -> rusqlite::Result<usize> {
    let sql = format!("DELETE FROM {} WHERE recorded_ns <= ?1", tier.table);
    db.prepare_cached(&sql)?.execute([until_ns])
}

/// Recorded time up to which the rows of tier `at` are summed up in the next coarser one.
fn summed_up_to(db: &Connection, at: usize) -> rusqlite::Result<i64> {
    match TIERS.get(at + 1) {
        Some(coarser) => Ok(edge(db, coarser, "max(recorded_ns)")?.unwrap_or(i64::MIN)),
        None => Ok(i64::MAX),
    }
}
