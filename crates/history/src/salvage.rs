//! Salvage of a damaged database: its tables are walked from both ends, without an index, as far as
//! they can be read.

use crate::tier::TIERS;
use rusqlite::{Connection, ErrorCode};
use std::collections::BTreeMap;

/// Place of a frame that can be read, on both axes of time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReachableFrame {
    pub tier: usize,
    pub recorded_ns: i64,
    pub start_ms: i64,
    pub end_ms: i64,
    length_ns: i64,
}

pub(crate) fn is_damage(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    matches!(
        code,
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase)
    )
}

/// Frames that can be read, in the order of recording: from tier `wanted` if it has them, otherwise
/// from a finer or a coarser one. No time is covered twice.
pub(crate) fn reach(db: &Connection, wanted: usize) -> Vec<ReachableFrame> {
    let finer = (0..wanted).rev();
    let mut all: BTreeMap<i64, ReachableFrame> = BTreeMap::new();
    for tier in std::iter::once(wanted)
        .chain(finer)
        .chain(wanted + 1..TIERS.len())
    {
        for found in walk(db, tier) {
            let start_ns = found.recorded_ns.saturating_sub(found.length_ns);
            let next = all.range(start_ns.saturating_add(1)..).next();
            let overlaps = next.is_some_and(|(end_ns, there)| {
                end_ns.saturating_sub(there.length_ns) < found.recorded_ns
            });
            if !overlaps {
                all.insert(found.recorded_ns, found);
            }
        }
    }
    all.into_values().collect()
}

fn walk(db: &Connection, tier: usize) -> Vec<ReachableFrame> {
    let mut found = BTreeMap::new();
    for direction in ["ASC", "DESC"] {
        // The first damaged page ends the walk.
        let _ = walk_one_way(db, tier, direction, &mut found);
    }
    found.into_values().collect()
}

fn walk_one_way(
    db: &Connection,
    tier: usize,
    direction: &str,
    found: &mut BTreeMap<i64, ReachableFrame>,
) -> rusqlite::Result<()> {
    let sql = format!(
        "SELECT recorded_ns, start_ms, end_ms, length_ns FROM {} NOT INDEXED
         ORDER BY recorded_ns {direction}",
        TIERS[tier].table
    );
    let mut select = db.prepare(&sql)?;
    let mut rows = select.query([])?;
    while let Some(row) = rows.next()? {
        let recorded_ns = row.get(0)?;
        let reached = ReachableFrame {
            tier,
            recorded_ns,
            start_ms: row.get(1)?,
            end_ms: row.get(2)?,
            length_ns: row.get(3)?,
        };
        if found.insert(recorded_ns, reached).is_some() {
            break;
        }
    }
    Ok(())
}
