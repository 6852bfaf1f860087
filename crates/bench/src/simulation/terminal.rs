//! Table for a terminal.

use super::data::SimulationResult;
use crate::report::format;
use crate::table::Table;

/// Table of each case's tenant whose share differs most.
pub(super) fn tables(result: &SimulationResult) -> Vec<Table> {
    let mut table = Table::new([
        "case",
        "tenant",
        "measured share",
        "simulated",
        "difference, points",
        "taken by others, %",
    ]);
    for case in &result.cases {
        let Some(row) = case.most_different() else {
            continue;
        };
        let taken = format::number(case.taken_pct.median);
        let mark = if case.disturbed > 0 { " disturbed" } else { "" };
        table.row([
            case.case.id.clone(),
            row.name.clone(),
            format::share(row.measured.median),
            format::share(row.simulated.median),
            format::estimate(&case.difference_pct),
            taken + mark,
        ]);
    }
    table.listed()
}
