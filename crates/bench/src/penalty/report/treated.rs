//! Comparison of vanilla with Cofferdam's treatments, cell by cell.

use crate::data::{CellResult, Direction, Protocol, Rate};
use crate::report::chart::{Chart, Mark, Row, Tone};
use crate::report::error::ReportError;
use crate::report::format::{cell_without_direction, number, rate, share};
use crate::report::section::{figure, section, spread};
use maud::{Markup, html};

/// Charts of penalty factors under every treatment, then the figures.
pub(super) fn section_of(cells: &[CellResult]) -> Result<Markup, ReportError> {
    let mut charts = Vec::new();
    for protocol in Protocol::ALL.iter().rev() {
        for direction in Direction::ALL {
            let rows: Vec<Row> = cells
                .iter()
                .filter(|c| c.cell.protocol == *protocol && c.cell.direction == *direction)
                .filter(|c| !c.treated.is_empty())
                .map(row)
                .collect();
            if rows.is_empty() {
                continue;
            }
            let word = match direction {
                Direction::Receiver => "receives",
                Direction::Sender => "sends",
            };
            let title = format!(
                "The competitor {word} {}: vanilla and enforced",
                protocol.label().to_uppercase()
            );
            let chart = Chart {
                alt: format!("{title}: penalty factors of each cell"),
                axis: "penalty factor".to_owned(),
                from: 0.0,
                legend: &[
                    (Tone::Caused, "vanilla"),
                    (Tone::Paid, "with Cofferdam enforcing"),
                ],
                references: vec![(1.0, "fair")],
                rows,
            };
            charts.push(figure(&title, &chart.svg()?));
        }
    }
    let table = table(cells);
    Ok(section(
        "With Cofferdam",
        "Each pair holds one compute baseline and one test under each treatment, in an order \
         drawn at random.",
        html! { div.charts { @for chart in &charts { (chart) } } (table) },
    ))
}

fn row(cell: &CellResult) -> Row {
    let enforced = cell.treated.iter().find(|t| t.treatment.is_whole());
    let mut lanes = vec![vec![Mark::of_estimate(&cell.penalty, Tone::Caused)]];
    let mut note = number(cell.penalty.median);
    if let Some(enforced) = enforced {
        lanes.push(vec![Mark::of_estimate(&enforced.penalty, Tone::Paid)]);
        note = format!("{note} → {}", number(enforced.penalty.median));
    }
    Row {
        label: cell_without_direction(&cell.cell),
        note,
        lanes,
    }
}

/// Text of a rate; a dash if it was not measured.
fn optional_rate(cell: &CellResult, value: Option<&Rate>) -> String {
    value.map_or("–".to_owned(), |value| rate(cell.cell.protocol, value))
}

fn table(cells: &[CellResult]) -> Markup {
    let optional = |value: Option<f64>, show: fn(f64) -> String| value.map_or("–".to_owned(), show);
    html! {
        div.scroll tabindex="0" {
            table {
                thead { tr {
                    th { "cell" } th { "treatment" } th { "penalty" }
                    th { "goodput ÷ vanilla" } th { "the same, victim gone" } th { "received" }
                    th { "softirq" } th { "competitors, corrected" } th { "victim paid" }
                } }
                tbody { @for c in cells.iter().filter(|c| !c.treated.is_empty()) {
                    tr {
                        th { (crate::report::format::cell(&c.cell)) }
                        td { "vanilla" }
                        td { (spread(Some(&c.penalty))) } td { "1" } td { "1" }
                        td { (optional_rate(c, c.received.as_ref())) }
                        td { (optional(c.softirq_fraction, share)) }
                        td { (optional(c.offender_corrected_fraction, share)) }
                        td { (optional(c.victim_charged_fraction, share)) }
                    }
                    @for t in &c.treated { tr {
                        th {}
                        td { (t.treatment) }
                        td { (spread(Some(&t.penalty))) }
                        td { (spread(t.goodput_kept.as_ref())) }
                        td { (spread(t.idle_goodput_kept.as_ref())) }
                        td { (optional_rate(c, t.received.as_ref())) }
                        td { (optional(t.softirq_fraction, share)) }
                        td { (optional(t.offender_corrected_fraction, share)) }
                        td { (optional(t.victim_charged_fraction, share)) }
                    } }
                } }
            }
        }
    }
}
