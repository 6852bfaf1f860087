//! Terminal tables of the accounting benchmark.

use super::data::AccountingResult;
use crate::report::format;
use crate::table::{Table, optional};

/// Tables of overhead, programs, conservation and accuracy, without the empty ones.
pub(super) fn tables(result: &AccountingResult) -> Vec<Table> {
    let all = [
        overhead(result),
        programs(result),
        conservation(result),
        accuracy(result),
    ];
    all.into_iter().flat_map(Table::listed).collect()
}

fn overhead(result: &AccountingResult) -> Table {
    let mut table = Table::new(["load", "off", "on", "on ÷ off", "goal", "BPF ns/packet"]);
    for row in &result.overhead {
        table.row([
            row.label(),
            format!("{} {}", format::scaled(row.off.median), row.unit),
            format!("{} {}", format::scaled(row.on.median), row.unit),
            format::estimate(&row.ratio),
            optional(row.goal, |goal| format!("≥ {}", format::number(goal))),
            optional(row.bpf_ns_per_packet, format::number),
        ]);
    }
    table
}

fn programs(result: &AccountingResult) -> Table {
    let mut table = Table::new(["program", "load", "ns/run", "runs/packet"]);
    for row in &result.programs {
        table.row([
            row.name.clone(),
            row.load.id().to_owned(),
            format::number(row.ns_per_run),
            format::number(row.runs_per_packet),
        ]);
    }
    table
}

/// Table of each load's largest difference, on any CPU, between attributed and measured network
/// CPU.
fn conservation(result: &AccountingResult) -> Table {
    let mut table = Table::new(["conservation", "measured", "worst CPU"]);
    for row in &result.conservation {
        table.row([
            row.load.clone(),
            format!("{} s", format::number(row.measured_ns as f64 / 1e9)),
            format!("{}%", format::number(row.worst_cpu_error_pct)),
        ]);
    }
    table
}

fn accuracy(result: &AccountingResult) -> Table {
    let mut table = Table::new(["accuracy", "expected", "measured", "error"]);
    for row in &result.accuracy {
        table.row([
            format!("{}: {}", row.case, row.quantity),
            format::number(row.expected),
            format::number(row.measured),
            row.error(),
        ]);
    }
    table
}
