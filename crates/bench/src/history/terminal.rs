//! Tables for a terminal.

use super::data::HistoryResult;
use crate::report::format;
use crate::table::Table;

/// Table of sizes and appends, then table of reads.
pub(super) fn tables(result: &HistoryResult) -> Vec<Table> {
    let mut stores = Table::new([
        "containers",
        "days",
        "size",
        "bytes a container and day",
        "append, CPU µs",
        "append, µs",
    ]);
    let mut reads = Table::new(["containers", "read", "frames", "ms"]);
    for row in &result.rows {
        let who = format!("{}, {}", row.containers, row.case);
        stores.row([
            who.clone(),
            row.days.to_string(),
            format::bytes(row.bytes),
            format::number(row.bytes_per_container_day()),
            format::estimate(&row.append_cpu_us),
            format::estimate(&row.append_us),
        ]);
        for read in &row.reads {
            reads.row([
                who.clone(),
                read.what.clone(),
                read.frames.to_string(),
                format::estimate(&read.ms),
            ]);
        }
    }
    [stores, reads]
        .into_iter()
        .flat_map(Table::listed)
        .collect()
}
