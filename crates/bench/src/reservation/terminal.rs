//! Tables for a terminal.

use super::data::{Entitlements, ReservationResult};
use crate::data::Estimate;
use crate::report::format;
use crate::table::{Table, estimate};

/// Table of the conditions under each policy, and table of the target's losses by cause.
pub(super) fn tables(result: &ReservationResult) -> Vec<Table> {
    let all = [conditions(result), loss_table(result)];
    all.into_iter().flat_map(Table::listed).collect()
}

fn conditions(result: &ReservationResult) -> Table {
    let mut table = Table::new([
        "condition",
        "policy",
        "time or p99",
        "÷ alone",
        "CPU got ÷ requested",
        "host used",
    ]);
    for cell in &result.cells {
        for row in &cell.rows {
            let judged = match (&row.elapsed_s, &row.p99_us) {
                (Some(e), _) => format!("{} s", format::estimate(e)),
                (_, Some(e)) => format!("{} µs", format::estimate(e)),
                _ => estimate(None),
            };
            table.row([
                cell.cell.id.clone(),
                row.policy.words().to_owned(),
                judged,
                estimate(row.to_alone.as_ref()),
                format::estimate(&row.cpu_got),
                format::estimate(&row.host_utilisation),
            ]);
        }
    }
    table
}

fn loss_table(result: &ReservationResult) -> Table {
    let head = ["condition", "policy", "entitled"].into_iter();
    let mut table = Table::new(head.chain(Entitlements::<Estimate>::CAUSES));
    table.lead = "CPUs that the target was entitled to, and lost, by cause:".to_owned();
    let cells = result.cells.iter();
    let rows = cells.flat_map(|cell| cell.rows.iter().map(move |row| (cell, row)));
    for (cell, row) in rows {
        let Some(entitled) = &row.entitled else {
            continue;
        };
        let mut line = vec![cell.cell.id.clone(), row.policy.words().to_owned()];
        let figures = std::iter::once(&entitled.entitled_cpus).chain(entitled.losses());
        line.extend(figures.map(|e| format::cpus(e.median)));
        table.row(line);
    }
    table
}
