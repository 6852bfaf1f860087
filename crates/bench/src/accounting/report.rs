//! Sections of accounting runs.

use super::goals::goals;
use super::terminal;
use crate::accounting::data::{AccountingResult, LoadShape, OverheadRow, Watch};
use crate::data::Judgement;
use crate::report::chart::{Chart, Mark, Row, Tone};
use crate::report::error::ReportError;
use crate::report::format::{bytes, estimate, number, scaled};
use crate::report::section::{figure, section, spread};
use crate::run::{Outcome, RunData};
use crate::table::Table;
use maud::{Markup, html};

impl Outcome for AccountingResult {
    fn is_measured(&self) -> bool {
        !(self.overhead.is_empty()
            && self.programs.is_empty()
            && self.conservation.is_empty()
            && self.accuracy.is_empty())
    }

    fn goals(&self) -> Vec<Judgement> {
        goals(self)
    }

    fn finding(&self, _run: &RunData) -> Vec<String> {
        let mut text: Vec<String> = self
            .overhead
            .iter()
            .map(|row| {
                let with = match row.mode {
                    Watch::Nothing => "empty programs in place of the accounting's".to_owned(),
                    mode => format!("the accounting on ({})", mode.label()),
                };
                format!(
                    "With {with}, {} keeps {} of its {}.",
                    row.load.label(),
                    estimate(&row.ratio),
                    row.unit
                )
            })
            .collect();
        let worst = self
            .conservation
            .iter()
            .map(|c| c.worst_cpu_error_pct)
            .reduce(f64::max);
        if let Some(worst) = worst {
            text.push(format!(
                "The ledgers miss at most {}% of the measured time on any CPU.",
                number(worst)
            ));
        }
        let worst = self
            .accuracy
            .iter()
            .max_by(|a, b| a.error_pct.abs().total_cmp(&b.error_pct.abs()));
        if let Some(row) = worst {
            text.push(format!(
                "The largest error of attribution is {} ({}).",
                row.error(),
                row.case
            ));
        }
        text
    }

    fn sections(&self, _run: &RunData) -> Result<Vec<Markup>, ReportError> {
        let mut sections = Vec::new();
        if !self.overhead.is_empty() {
            sections.push(overhead(&self.overhead)?);
        }
        if !self.programs.is_empty() {
            sections.push(programs(self)?);
        }
        if !self.conservation.is_empty() {
            sections.push(conservation(self));
        }
        if !self.accuracy.is_empty() {
            sections.push(accuracy(self));
        }
        if let Some(memory) = self.memory_bytes {
            let text = format!(
                "All maps together take {}, allocated at the start.",
                bytes(memory)
            );
            sections.push(section("Memory", &text, html! {}));
        }
        Ok(sections)
    }

    fn tables(&self) -> Vec<Table> {
        terminal::tables(self)
    }
}

/// Legend of the pairs and their summary.
const PAIRS: &[(Tone, &str)] = &[
    (Tone::Paid, "each pair"),
    (Tone::Caused, "median, 95% interval"),
];

fn overhead(rows: &[OverheadRow]) -> Result<Markup, ReportError> {
    let lowest = rows
        .iter()
        .flat_map(|r| r.ratio.values.iter().copied().chain(r.goal))
        .filter(|v| v.is_finite())
        .fold(0.95, f64::min);
    // Ratios are close together near 1: the axis begins at the lowest, and says so.
    let from = (lowest * 50.0 - 0.5).floor() / 50.0;
    let mut charts = Vec::new();
    for row in rows {
        let chart = Chart {
            alt: format!(
                "{}: goodput with accounting over goodput without",
                row.label()
            ),
            axis: format!("goodput on ÷ off (axis begins at {})", number(from)),
            from,
            legend: PAIRS,
            references: row
                .goal
                .map(|goal| (goal, "goal"))
                .into_iter()
                .chain([(1.0, "free")])
                .collect(),
            rows: vec![Row::of_estimate(
                row.label(),
                estimate(&row.ratio),
                &row.ratio,
                [Tone::Paid, Tone::Caused],
            )],
        };
        charts.push(figure(&row.label(), &chart.svg()?));
    }
    Ok(section(
        "Goodput with the accounting on",
        "Off, exact, sampled (windows of measurement, as the agent does while no CPU is contended) \
         and empty programs at the same tracepoints take turns in random order. A point right of \
         the goal is good enough; what is lost with empty programs no program at these tracepoints \
         can avoid.",
        html! {
            div.charts { @for chart in &charts { (chart) } }
            div.scroll tabindex="0" { table {
                thead { tr {
                    th { "load" } th { "off" } th { "on" } th { "on ÷ off" } th { "pairs" }
                    th { "goal" } th { "BPF ns a packet" }
                } }
                tbody { @for row in rows { tr {
                    th { (row.label()) }
                    td { (scaled(row.off.median)) " " (row.unit) }
                    td { (scaled(row.on.median)) " " (row.unit) }
                    td { (spread(Some(&row.ratio))) }
                    td { (row.ratio.values.len()) }
                    td { (row.goal.map_or("–".to_owned(), |goal| format!("≥ {}", number(goal)))) }
                    td { (row.bpf_ns_per_packet.map_or("–".to_owned(), number)) }
                } } }
            } }
        },
    ))
}

fn programs(result: &AccountingResult) -> Result<Markup, ReportError> {
    let mut charts = Vec::new();
    for load in [LoadShape::Flood64, LoadShape::TcpStream] {
        let mut programs: Vec<_> = result.programs.iter().filter(|p| p.load == load).collect();
        if programs.is_empty() {
            continue;
        }
        let cost = |p: &&crate::accounting::data::ProgramRow| p.ns_per_run * p.runs_per_packet;
        programs.sort_by(|a, b| {
            cost(b)
                .total_cmp(&cost(a))
                .then_with(|| a.name.cmp(&b.name))
        });
        let chart = Chart {
            alt: format!("{}: nanoseconds of each program run", load.label()),
            axis: "nanoseconds a run".to_owned(),
            from: 0.0,
            legend: &[],
            references: Vec::new(),
            rows: programs
                .iter()
                .map(|p| Row {
                    label: p.name.clone(),
                    note: format!(
                        "{} ns × {} a packet",
                        number(p.ns_per_run),
                        number(p.runs_per_packet)
                    ),
                    lanes: vec![vec![Mark::Bar {
                        value: p.ns_per_run,
                        tone: Tone::Paid,
                    }]],
                })
                .collect(),
        };
        charts.push(figure(load.label(), &chart.svg()?));
    }
    Ok(section(
        "Cost of each program",
        "As the kernel measured it. About 25 ns of each run are the measurement itself. The \
         program that costs a packet most comes first.",
        html! { div.charts { @for chart in &charts { (chart) } } },
    ))
}

fn conservation(result: &AccountingResult) -> Markup {
    section(
        "Conservation",
        "All time is kept: Σ caused + Σ unattributed must equal the measured softirq, hardirq \
         and NAPI-thread time.",
        html! { div.scroll tabindex="0" { table {
            thead { tr {
                th { "load" } th { "measured" } th { "in the ledgers" } th { "worst CPU" }
            } }
            tbody { @for row in &result.conservation { tr {
                th { (row.load) }
                td { (number(row.measured_ns as f64 / 1e9)) " s" }
                td { (number(row.attributed_ns as f64 / 1e9)) " s" }
                td { (number(row.worst_cpu_error_pct)) "%" }
            } } }
        } } },
    )
}

fn accuracy(result: &AccountingResult) -> Markup {
    section(
        "Accuracy",
        "The ledger compared with what is known by construction.",
        html! { div.scroll tabindex="0" { table {
            thead { tr {
                th { "case" } th.words { "quantity" } th { "expected" } th { "measured" }
                th { "error" }
            } }
            tbody { @for row in &result.accuracy { tr {
                th { (row.case) }
                td.words { (row.quantity) }
                td { (number(row.expected)) }
                td { (number(row.measured)) }
                td { (row.error()) }
            } } }
        } } },
    )
}
