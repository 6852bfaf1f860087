//! Sections of penalty and demo runs.

mod finding;
mod terminal;
mod treated;

pub use finding::finding;

use super::goals::goals;
use crate::data::Judgement;
use crate::data::{
    Cell, CellResult, Direction, Estimate, Metric, Protocol, Rate, Role, Sample, SoftirqSource,
    Treatment,
};
use crate::penalty::data::PenaltyResult;
use crate::report::chart::{Chart, Mark, Row, Tone};
use crate::report::error::ReportError;
use crate::report::format::{
    cell as cell_name, cell_without_direction, estimate, factor, number, rate, role, share,
};
use crate::report::ledger::{self, WORTH_SHOWING};
use crate::report::section::{figure, not_measured, section, spread};
use crate::run::{Outcome, RunData};
use crate::table::Table;
use maud::{Markup, html};
use std::collections::BTreeMap;

impl Outcome for PenaltyResult {
    fn is_measured(&self) -> bool {
        !self.cells.is_empty()
    }

    fn goals(&self) -> Vec<Judgement> {
        goals(&self.cells)
    }

    fn finding(&self, run: &RunData) -> Vec<String> {
        let mut text = finding(run, &self.cells);
        let [done, planned] = self.done;
        if done + (self.failed.len() as u32) < planned {
            text.push(format!(
                "{done} of {planned} cells are measured: run it again with the same --output to \
                 resume."
            ));
        }
        text
    }

    fn lead(&self, run: &RunData) -> Result<Option<Markup>, ReportError> {
        lead(run, &self.cells)
    }

    fn case_name(&self, case: &str) -> Option<String> {
        let cell = self.cells.iter().find(|c| c.cell.id == case)?;
        Some(cell_name(&cell.cell))
    }

    fn sections(&self, run: &RunData) -> Result<Vec<Markup>, ReportError> {
        sections(run, &self.cells, &self.failed)
    }

    fn tables(&self) -> Vec<Table> {
        terminal::cells(&self.cells).listed()
    }
}

/// The worst cell as one large figure, with Cofferdam's effect, and every sample of it as a
/// picture.
pub fn lead(run: &RunData, cells: &[CellResult]) -> Result<Option<Markup>, ReportError> {
    let Some(worst) = finding::worst(cells) else {
        return Ok(None);
    };
    let one = |e: &Estimate| format!("{} {}", number(e.median), unit(worst.metric));
    let treated = worst.treated.iter().find(|t| t.treatment.is_whole());
    let (from, to, words) = match treated {
        Some(treated) => (
            one(&worst.test),
            one(&treated.test),
            format!(
                "next to traffic, without Cofferdam and with it ({} is fair)",
                one(&worst.baseline)
            ),
        ),
        None => (
            one(&worst.baseline),
            one(&worst.test),
            "next to one that computes, and next to traffic".to_owned(),
        ),
    };
    let subject = match worst.metric {
        Metric::ElapsedS => format!("the {} job", worst.cell.victim),
        Metric::P99Us => format!("the 99th percentile of the {} server", worst.cell.victim),
    };
    let of_cell = Sample::of(run).iter().filter(|s| s.cell == worst.cell.id);
    let samples: Vec<&Sample> = of_cell.collect();
    let picture = times(&samples, worst.metric)?;
    Ok(Some(html! {
        div.glance {
            p.big { (from) " " span.arrow { "→" } " " (to) }
            p.caption { (cell_name(&worst.cell)) ": " (subject) " " (words) }
        }
        div.charts { (picture) }
    }))
}

/// Number of cells whose detail is open; the others are folded, so that the page stays readable.
const OPEN_CELLS: usize = 4;

/// All sections, the summary first.
pub fn sections(
    run: &RunData,
    cells: &[CellResult],
    failed: &BTreeMap<String, String>,
) -> Result<Vec<Markup>, ReportError> {
    let mut sections = vec![factors(cells)?];
    if cells.iter().any(|c| !c.treated.is_empty()) {
        sections.push(treated::section_of(cells)?);
    }
    sections.push(table(cells));
    let mut worst_first: Vec<&CellResult> = cells.iter().collect();
    worst_first.sort_by(|a, b| {
        b.penalty
            .median
            .total_cmp(&a.penalty.median)
            .then_with(|| a.cell.id.cmp(&b.cell.id))
    });
    let mut details = Vec::new();
    for (i, cell) in worst_first.iter().enumerate() {
        let inside = detail(run, cell)?;
        let heading = format!("{}: {}", cell_name(&cell.cell), factor(cell.penalty.median));
        details.push(html! {
            details open[i < OPEN_CELLS] { summary { (heading) } div.charts { (inside) } }
        });
    }
    sections.push(section(
        "Cell by cell",
        "The ledger shows who caused network work on the shared CPU and whose time slices it took.",
        html! { @for detail in &details { (detail) } },
    ));
    sections.extend(not_measured(failed));
    Ok(sections)
}

/// Penalty factors of all cells, a chart for each protocol and direction.
fn factors(cells: &[CellResult]) -> Result<Markup, ReportError> {
    let mut charts = Vec::new();
    // The floods come first, because they harm most.
    for protocol in Protocol::ALL.iter().rev() {
        for direction in Direction::ALL {
            let group: Vec<&CellResult> = cells
                .iter()
                .filter(|c| c.cell.protocol == *protocol && c.cell.direction == *direction)
                .collect();
            if group.is_empty() {
                continue;
            }
            let word = match direction {
                Direction::Receiver => "receives",
                Direction::Sender => "sends",
            };
            let title = format!("The competitor {word} {}", protocol.label().to_uppercase());
            let chart = Chart {
                alt: format!("{title}: penalty factor of each cell with its interval"),
                axis: "penalty factor: time next to traffic ÷ time next to compute".to_owned(),
                from: 0.0,
                legend: &[],
                references: vec![(1.0, "fair")],
                rows: group.iter().map(|c| factor_row(c)).collect(),
            };
            charts.push(figure(&title, &chart.svg()?));
        }
    }
    Ok(section(
        "Penalty factors",
        "Expected: 1/(1 − softirq fraction), what equal shares alone would explain. At 1 the \
         victim is treated as fairly next to traffic as next to compute.",
        html! { div.charts { @for chart in &charts { (chart) } } },
    ))
}

fn factor_row(result: &CellResult) -> Row {
    let mut marks = Vec::new();
    if let Some(at) = result.predicted {
        marks.push(Mark::Expected { at });
    }
    marks.push(Mark::of_estimate(&result.penalty, Tone::Caused));
    Row {
        label: cell_without_direction(&result.cell),
        note: estimate(&result.penalty),
        lanes: vec![marks],
    }
}

fn table(cells: &[CellResult]) -> Markup {
    let optional = |value: Option<f64>, show: fn(f64) -> String| value.map_or("–".to_owned(), show);
    let rough = cells
        .iter()
        .any(|c| c.softirq_source == Some(SoftirqSource::ProcStat));
    section(
        "Figures",
        if rough {
            "* read from /proc/stat, which samples at the timer tick: rough."
        } else {
            ""
        },
        html! {
            div.scroll tabindex="0" {
                table {
                    thead { tr {
                        th { "cell" } th { "penalty" } th { "1/(1−s)" } th { "softirq s" }
                        th { "next to compute" } th { "next to traffic" } th { "pairs" }
                        th { "offered" } th { "received" }
                        th { "competitor caused" } th { "victim paid" }
                    } }
                    tbody { @for c in cells { tr {
                        th { (cell_name(&c.cell)) }
                        td { (spread(Some(&c.penalty))) }
                        td { (optional(c.predicted, number)) }
                        td {
                            (optional(c.softirq_fraction, share))
                            @if c.softirq_source == Some(SoftirqSource::ProcStat) { "*" }
                        }
                        td { (number(c.baseline.median)) " " (unit(c.metric)) }
                        td { (number(c.test.median)) " " (unit(c.metric)) }
                        td { (c.penalty.values.len()) }
                        td { (rates(c.offered.as_ref(), &c.cell)) }
                        td { (rates(c.received.as_ref(), &c.cell)) }
                        td { (optional(c.offender_caused_fraction, share)) }
                        td { (optional(c.victim_charged_fraction, share)) }
                    } } }
                }
            }
        },
    )
}

fn rates(value: Option<&Rate>, cell: &Cell) -> String {
    value.map_or("–".to_owned(), |r| rate(cell.protocol, r))
}

fn unit(metric: Metric) -> &'static str {
    match metric {
        Metric::ElapsedS => "s",
        Metric::P99Us => "µs",
    }
}

/// Times and ledger of one cell.
fn detail(run: &RunData, result: &CellResult) -> Result<Markup, ReportError> {
    let of_cell = Sample::of(run).iter().filter(|s| s.cell == result.cell.id);
    let samples: Vec<&Sample> = of_cell.collect();
    let times = times(&samples, result.metric)?;
    let ledger = ledger_chart(run, &result.cell.id)?;
    let error = ledger::conservation_error_pct(run, &result.cell.id);
    Ok(html! {
        (times)
        (ledger)
        @if let Some(error) = error {
            p.note { "Ledgers against measured time: off by at \
                most " (number(error)) "% on any CPU." }
        } @else {
            p.note { "No ledger: the accounting did not run during this cell." }
        }
    })
}

/// Chart of the raw samples, by the competitors' work.
fn times(samples: &[&Sample], metric: Metric) -> Result<Markup, ReportError> {
    let value = |s: &Sample| match metric {
        Metric::ElapsedS => Some(s.elapsed_s),
        Metric::P99Us => s.latency.map(|l| l.p99_us),
    };
    let mut rows = Vec::new();
    let mut kinds = vec![
        (Role::Alone, Treatment::Vanilla, Tone::Neutral),
        (Role::Compute, Treatment::Vanilla, Tone::Paid),
        (Role::Traffic, Treatment::Vanilla, Tone::Caused),
    ];
    let others = Treatment::ALL.iter().filter(|t| **t != Treatment::Vanilla);
    kinds.extend(others.map(|t| (Role::Traffic, *t, Tone::Neutral)));
    for (kind, treatment, tone) in kinds {
        let values: Vec<f64> = samples
            .iter()
            .filter(|s| s.role == kind && s.treatment == treatment)
            .filter_map(|s| value(s))
            .collect();
        let Some(median) = crate::stats::median(&values) else {
            continue;
        };
        rows.push(Row {
            label: match treatment {
                Treatment::Vanilla => role(kind).to_owned(),
                other => format!("{}, {other}", role(kind)),
            },
            note: format!("{} {}", number(median), unit(metric)),
            lanes: vec![vec![
                Mark::Dots { values, tone },
                Mark::Median { at: median },
            ]],
        });
    }
    if rows.is_empty() {
        return Ok(html! {});
    }
    let (title, axis) = match metric {
        Metric::ElapsedS => ("Time the victim took", "seconds for the same work"),
        Metric::P99Us => ("Round trips of the victim", "99th percentile, microseconds"),
    };
    let chart = Chart {
        alt: format!("{title}: every sample"),
        axis: axis.to_owned(),
        from: 0.0,
        legend: &[],
        references: Vec::new(),
        rows,
    };
    Ok(figure(title, &chart.svg()?))
}

/// Chart of each container's caused and charged network work in the samples with traffic.
fn ledger_chart(run: &RunData, cell: &str) -> Result<Markup, ReportError> {
    let cpu = run.manifest.victim_cpu;
    let rows: Vec<Row> = ledger::shares(run, cell, Role::Traffic)
        .into_iter()
        .filter(|s| s.caused >= WORTH_SHOWING || s.charged >= WORTH_SHOWING)
        .map(|s| Row {
            label: s.name,
            note: format!("caused {} · paid {}", share(s.caused), share(s.charged)),
            lanes: vec![
                vec![Mark::Bar {
                    value: s.caused * 100.0,
                    tone: Tone::Caused,
                }],
                vec![Mark::Bar {
                    value: s.charged * 100.0,
                    tone: Tone::Paid,
                }],
            ],
        })
        .collect();
    if rows.is_empty() {
        return Ok(html! {});
    }
    let title = format!("Ledger of CPU {cpu} next to traffic");
    let chart = Chart {
        alt: format!("{title}: network work caused and paid by each container"),
        axis: format!("network work, percent of CPU {cpu}"),
        from: 0.0,
        legend: &[
            (Tone::Caused, "caused"),
            (Tone::Paid, "paid: ran in its time slices"),
        ],
        references: Vec::new(),
        rows,
    };
    Ok(html! {
        (figure(&title, &chart.svg()?))
        p.note { "What no container paid ran while the CPU was idle, or in processes of the host." }
    })
}

/// Raw times of each cell, for a run without a result.
pub fn raw_times(run: &RunData) -> Result<Markup, ReportError> {
    let mut by_cell: BTreeMap<&str, Vec<&Sample>> = BTreeMap::new();
    for sample in Sample::of(run) {
        by_cell.entry(&sample.cell).or_default().push(sample);
    }
    let mut parts = Vec::new();
    for (cell, samples) in &by_cell {
        let chart = times(samples, Metric::ElapsedS)?;
        parts.push(html! { details open { summary { (cell) } div.charts { (chart) } } });
    }
    let unseen = run.samples.count() - Sample::of(run).len();
    Ok(section(
        "What was measured",
        if run.samples.count() == 0 {
            "No sample was completed."
        } else {
            ""
        },
        html! {
            @for part in &parts { (part) }
            @if unseen > 0 { p { (unseen) " samples are in samples.jsonl." } }
        },
    ))
}
