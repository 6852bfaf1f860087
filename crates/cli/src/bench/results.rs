//! The results of a run as tables on standard output. The report has the same in full.

use super::figure::{optional, time};
use crate::table;
use cofferdam_bench::accounting::data::AccountingResult;
use cofferdam_bench::agent::data::AgentResult;
use cofferdam_bench::data::{CellResult, Estimate};
use cofferdam_bench::dataplane::data::DataplaneResult;
use cofferdam_bench::isolation::data::IsolationResult;
use cofferdam_bench::report::{finding, format};
use cofferdam_bench::reservation::data::{Entitled, ReservationCellResult, ReservationResult};
use cofferdam_bench::run::{RunData, RunResult};

/// The finding in words, then the figures.
pub fn text(run: &RunData, width: Option<u16>) -> String {
    let mut text = String::new();
    for sentence in finding::of(run) {
        text += &sentence;
        text.push('\n');
    }
    let tables = match &run.result {
        None => String::new(),
        Some(RunResult::Penalty(result)) => cells(&result.cells, width),
        Some(RunResult::Demo(result)) => super::story::text(result, width),
        Some(RunResult::Accounting(result)) => accounting(result, width),
        Some(RunResult::Reservation(result)) => reservation(result, width),
        Some(RunResult::Dataplane(result)) => dataplane(result, width),
        Some(RunResult::Isolation(result)) => isolation(result, width),
        Some(RunResult::Agent(result)) => agent(result, width),
        Some(RunResult::Latency(_)) => String::new(),
    };
    if !tables.is_empty() {
        text.push('\n');
        text += &tables;
    }
    text
}

fn cells(cells: &[CellResult], width: Option<u16>) -> String {
    let mut table = table::plain(width);
    table.set_header([
        "cell",
        "penalty",
        "1/(1−s)",
        "compute",
        "traffic",
        "caused",
        "victim paid",
        "received",
    ]);
    for c in cells {
        table.add_row([
            format::cell(&c.cell),
            format::estimate(&c.penalty),
            optional(c.predicted, format::number),
            time(c.metric, c.baseline.median),
            time(c.metric, c.test.median),
            optional(c.offender_caused_fraction, format::share),
            optional(c.victim_charged_fraction, format::share),
            c.received
                .as_ref()
                .map_or("–".to_owned(), |r| format::rate(c.cell.protocol, r)),
        ]);
        for t in &c.treated {
            table.add_row([
                format!("  {}", t.treatment),
                format::estimate(&t.penalty),
                String::new(),
                String::new(),
                time(c.metric, t.test.median),
                String::new(),
                optional(t.victim_charged_fraction, format::share),
                t.received
                    .as_ref()
                    .map_or("–".to_owned(), |r| format::rate(c.cell.protocol, r)),
            ]);
        }
    }
    table::numbers_right(&mut table);
    table::finish(&table)
}

fn reservation(result: &ReservationResult, width: Option<u16>) -> String {
    let mut table = table::plain(width);
    table.set_header([
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
                _ => "–".to_owned(),
            };
            let to_alone = row.to_alone.as_ref();
            table.add_row([
                cell.cell.id.clone(),
                row.policy.words().to_owned(),
                judged,
                to_alone.map_or("–".to_owned(), format::estimate),
                format::estimate(&row.cpu_got),
                format::estimate(&row.host_utilisation),
            ]);
        }
    }
    table::numbers_right(&mut table);
    let mut text = table::finish(&table);
    if let Some(lost) = lost(&result.cells, width) {
        text.push('\n');
        text += &lost;
    }
    text
}

/// Causes of the CPU time that the target was entitled to but did not get; `None` if unknown.
fn lost(cells: &[ReservationCellResult], width: Option<u16>) -> Option<String> {
    let mut table = table::plain(width);
    let head = ["condition", "policy", "entitled"].into_iter();
    table.set_header(head.chain(Entitled::<Estimate>::CAUSES));
    let rows = cells
        .iter()
        .flat_map(|cell| cell.rows.iter().map(move |row| (cell, row)));
    for (cell, row) in rows {
        let Some(entitled) = &row.entitled else {
            continue;
        };
        let mut line = vec![cell.cell.id.clone(), row.policy.words().to_owned()];
        let figures = std::iter::once(&entitled.entitled_cpus).chain(entitled.losses());
        line.extend(figures.map(|e| format::cpus(e.median)));
        table.add_row(line);
    }
    if table.is_empty() {
        return None;
    }
    table::numbers_right(&mut table);
    let what = "CPUs that the target was entitled to, and lost, by cause:";
    Some(format!("{what}\n\n{}", table::finish(&table)))
}

fn dataplane(result: &DataplaneResult, width: Option<u16>) -> String {
    let mut table = table::plain(width);
    table.set_header([
        "condition",
        "requests/s",
        "÷ blocking",
        "÷ busy-polling",
        "p50 µs",
        "p99 µs",
        "p50 ÷ blocking",
    ]);
    let ratio = |e: &Option<Estimate>| e.as_ref().map_or("–".to_owned(), format::estimate);
    for row in &result.rows {
        let shared = if row.shares_cpu { ", CPU shared" } else { "" };
        table.add_row([
            format!("{}{shared}", row.cell.id()),
            format::scaled(row.requests_per_s.median),
            ratio(&row.rate_to_blocking),
            ratio(&row.rate_to_busy),
            format::estimate(&row.p50_us),
            format::estimate(&row.p99_us),
            ratio(&row.p50_to_blocking),
        ]);
    }
    table::numbers_right(&mut table);
    table::finish(&table)
}

fn agent(result: &AgentResult, width: Option<u16>) -> String {
    let mut parts = Vec::new();
    if !result.cost.is_empty() {
        let mut table = table::plain(width);
        table.set_header(["the agent", "containers", "CPU %", "resident", "step ms"]);
        for row in &result.cost {
            table.add_row([
                row.duty.words().to_owned(),
                row.containers.to_string(),
                format::estimate(&row.cpu_pct),
                format::bytes(row.resident_bytes),
                format::estimate(&row.step_ms),
            ]);
        }
        table::numbers_right(&mut table);
        parts.push(table::finish(&table));
    }
    if !result.diagnosis.is_empty() {
        let mut table = table::plain(width);
        table.set_header(["diagnosis", "off /s", "on ÷ off", "programs %"]);
        for row in &result.diagnosis {
            table.add_row([
                row.case.label().to_owned(),
                format::scaled(row.off.median),
                format::estimate(&row.ratio),
                format::number(row.programs_pct),
            ]);
        }
        table::numbers_right(&mut table);
        parts.push(table::finish(&table));
    }
    parts.join("\n")
}

fn isolation(result: &IsolationResult, width: Option<u16>) -> String {
    let tables = result.tables.iter().map(|of| {
        let mut table = table::plain(width);
        table.set_header([
            &of.title(),
            "utilisation %",
            "I_ulr",
            "I_plr",
            "loss of performance %",
            "p99′ ÷ p99",
        ]);
        for row in &of.rows {
            let optional = |e: Option<&Estimate>| e.map_or("–".to_owned(), format::estimate);
            table.add_row([
                format!("{:2} {}", row.id, row.scenario),
                format::estimate(&row.utilisation_pct),
                row.i_ulr.map_or("–".to_owned(), |v| format!("{v:.2}")),
                row.i_plr.map_or("–".to_owned(), |v| format!("{v:.2}")),
                optional(row.performance_loss_pct.as_ref()),
                optional(row.p99_factor.as_ref()),
            ]);
        }
        table::numbers_right(&mut table);
        table::finish(&table)
    });
    tables.collect::<Vec<_>>().join("\n")
}

fn accounting(result: &AccountingResult, width: Option<u16>) -> String {
    let mut parts = Vec::new();
    if !result.overhead.is_empty() {
        let mut table = table::plain(width);
        table.set_header(["load", "off", "on", "on ÷ off", "goal", "BPF ns/packet"]);
        for row in &result.overhead {
            table.add_row([
                row.load.label().to_owned(),
                format!("{} {}", format::scaled(row.off.median), row.unit),
                format!("{} {}", format::scaled(row.on.median), row.unit),
                format::estimate(&row.ratio),
                format!("≥ {}", format::number(row.goal)),
                optional(row.bpf_ns_per_packet, format::number),
            ]);
        }
        table::numbers_right(&mut table);
        parts.push(table::finish(&table));
    }
    if !result.programs.is_empty() {
        let mut table = table::plain(width);
        table.set_header(["program", "load", "ns/run", "runs/packet"]);
        for row in &result.programs {
            table.add_row([
                row.name.clone(),
                row.load.id().to_owned(),
                format::number(row.ns_per_run),
                format::number(row.runs_per_packet),
            ]);
        }
        table::numbers_right(&mut table);
        parts.push(table::finish(&table));
    }
    if !result.conservation.is_empty() {
        let mut table = table::plain(width);
        table.set_header(["conservation", "measured", "worst CPU"]);
        for row in &result.conservation {
            table.add_row([
                row.load.clone(),
                format!("{} s", format::number(row.measured_ns as f64 / 1e9)),
                format!("{}%", format::number(row.worst_cpu_error_pct)),
            ]);
        }
        table::numbers_right(&mut table);
        parts.push(table::finish(&table));
    }
    if !result.accuracy.is_empty() {
        let mut table = table::plain(width);
        table.set_header(["accuracy", "expected", "measured", "error"]);
        for row in &result.accuracy {
            table.add_row([
                format!("{}: {}", row.case, row.quantity),
                format::number(row.expected),
                format::number(row.measured),
                row.error(),
            ]);
        }
        table::numbers_right(&mut table);
        parts.push(table::finish(&table));
    }
    parts.join("\n")
}
