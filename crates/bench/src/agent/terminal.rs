//! Tables for a terminal.

use super::data::AgentResult;
use crate::report::format;
use crate::table::Table;

/// Tables of the agent's cost, the diagnosis's cost and the answers, without the empty ones.
pub(super) fn tables(result: &AgentResult) -> Vec<Table> {
    let all = [cost(result), diagnosis(result), answers(result)];
    all.into_iter().flat_map(Table::listed).collect()
}

fn cost(result: &AgentResult) -> Table {
    let mut table = Table::new(["the agent", "containers", "CPU %", "resident", "step ms"]);
    for row in &result.cost {
        table.row([
            row.duty.words().to_owned(),
            row.containers.to_string(),
            format::estimate(&row.cpu_pct),
            format::bytes(row.resident_bytes),
            format::estimate(&row.step_ms),
        ]);
    }
    table
}

fn diagnosis(result: &AgentResult) -> Table {
    let mut table = Table::new([
        "diagnosis",
        "off /s",
        "on ÷ off",
        "empty ÷ off",
        "windows ÷ off",
        "programs %",
    ]);
    for row in &result.diagnosis {
        table.row([
            row.case.label().to_owned(),
            format::scaled(row.off.median),
            format::estimate(&row.ratio),
            crate::table::estimate(row.empty_ratio.as_ref()),
            crate::table::estimate(row.windows_ratio.as_ref()),
            format::number(row.programs_pct),
        ]);
    }
    table
}

fn answers(result: &AgentResult) -> Table {
    let mut table = Table::new(["answers over NRI", "p50 ms", "p99 ms", "longest ms"]);
    for row in &result.answers {
        table.row([
            format!("{} containers made, {} running", row.containers, row.live),
            format::estimate(&row.p50_ms),
            format::estimate(&row.p99_ms),
            format::number(row.max_ms),
        ]);
    }
    table
}
