//! Choice of the tier that shows each part of recorded time, so that nothing is shown twice or left
//! out.

use crate::state::edge;
use crate::tier::TIERS;
use rusqlite::Connection;

/// Part of recorded time, after `after_ns` up to and including `until_ns`, from one tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimelinePart {
    pub tier: usize,
    pub after_ns: i64,
    pub until_ns: i64,
}

/// Divides all recorded time: tier `wanted` if it has the time, coarser tiers before its begin,
/// finer ones after its last sum.
pub(crate) fn parts(db: &Connection, wanted: usize) -> rusqlite::Result<Vec<TimelinePart>> {
    let mut parts: Vec<TimelinePart> = Vec::new();
    let mut after_ns = i64::MIN;
    // Coarser tiers, up to the frame in which the next finer one begins.
    for tier in (wanted + 1..TIERS.len()).rev() {
        let begin = first_start(db, tier - 1)?.unwrap_or(i64::MAX);
        // Row that spans that begin, or the last one before it.
        let sql = format!(
            "SELECT coalesce(
                 (SELECT recorded_ns FROM (SELECT recorded_ns, length_ns FROM {0}
                     WHERE recorded_ns >= ?1 ORDER BY recorded_ns LIMIT 1)
                  WHERE recorded_ns - length_ns < ?1),
                 (SELECT max(recorded_ns) FROM {0} WHERE recorded_ns <= ?1))",
            TIERS[tier].table
        );
        let last = db
            .prepare_cached(&sql)?
            .query_row([begin], |row| row.get(0))?;
        after_ns = add(&mut parts, tier, after_ns, last);
    }
    for tier in (0..=wanted).rev() {
        let last = edge(db, &TIERS[tier], "max(recorded_ns)")?;
        after_ns = add(&mut parts, tier, after_ns, last);
    }
    Ok(parts)
}

fn add(parts: &mut Vec<TimelinePart>, tier: usize, after_ns: i64, last: Option<i64>) -> i64 {
    let Some(until_ns) = last.filter(|last| *last > after_ns) else {
        return after_ns;
    };
    parts.push(TimelinePart {
        tier,
        after_ns,
        until_ns,
    });
    until_ns
}

fn first_start(db: &Connection, tier: usize) -> rusqlite::Result<Option<i64>> {
    let table = TIERS[tier].table;
    // A subquery makes an empty table yield NULL.
    let sql = format!(
        "SELECT (SELECT recorded_ns - length_ns FROM {table} ORDER BY recorded_ns LIMIT 1)"
    );
    db.prepare_cached(&sql)?.query_row([], |row| row.get(0))
}
