//! Table of the conditions for a terminal.

use crate::dataplane::data::DataplaneResult;
use crate::report::format;
use crate::table::{Table, estimate};

/// Table with a row for each condition.
pub(super) fn conditions(result: &DataplaneResult) -> Table {
    let mut table = Table::new([
        "condition",
        "requests/s",
        "÷ blocking",
        "÷ busy-polling",
        "p50 µs",
        "p99 µs",
        "p50 ÷ blocking",
    ]);
    for row in &result.rows {
        let shared = if row.shares_cpu { ", CPU shared" } else { "" };
        table.row([
            format!("{}{shared}", row.cell.id()),
            format::scaled(row.requests_per_s.median),
            estimate(row.rate_to_blocking.as_ref()),
            estimate(row.rate_to_busy.as_ref()),
            format::estimate(&row.p50_us),
            format::estimate(&row.p99_us),
            estimate(row.p50_to_blocking.as_ref()),
        ]);
    }
    table
}
