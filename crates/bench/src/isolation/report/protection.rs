//! Comparison of the same runtime and resource with and without Cofferdam's agent.

use super::table::{short_name, tenths};
use crate::data::Estimate;
use crate::evidence::differ;
use crate::isolation::data::{IsolationResult, IsolationRow, IsolationTable, Protection};
use crate::report::chart::{Chart, Mark, Row, Tone};
use crate::report::error::ReportError;
use crate::report::format::{factor, number};
use crate::report::section::{figure, section, spread_as};
use maud::{Markup, html};

/// Two tables of one runtime and resource.
struct Pair<'a> {
    without: &'a IsolationTable,
    with: &'a IsolationTable,
}

impl<'a> Pair<'a> {
    fn all(result: &'a IsolationResult) -> Vec<Pair<'a>> {
        let of = |protection: Protection| {
            result
                .tables
                .iter()
                .filter(move |t| t.protection == protection)
        };
        of(Protection::Vanilla)
            .filter_map(|without| {
                let same = |t: &&IsolationTable| {
                    (t.runtime, t.resource) == (without.runtime, without.resource)
                };
                let with = of(Protection::Cofferdam).find(same)?;
                Some(Pair { without, with })
            })
            .collect()
    }

    /// Rows of the scenarios that both tables have.
    fn rows(&self) -> impl Iterator<Item = (&'a IsolationRow, &'a IsolationRow)> {
        let with = &self.with.rows;
        self.without.rows.iter().filter_map(move |row| {
            let other = with.iter().find(|r| r.scenario == row.scenario)?;
            Some((row, other))
        })
    }
}

/// Section of the comparison; `None` if the run has only one of them.
pub fn comparison(result: &IsolationResult) -> Result<Option<Markup>, ReportError> {
    let pairs = Pair::all(result);
    if pairs.is_empty() {
        return Ok(None);
    }
    let mut parts = Vec::new();
    for pair in &pairs {
        let title = format!("{}: {}", pair.without.runtime, pair.without.resource);
        let chart = chart(pair)?;
        parts.push(html! { h3 { (title) } (chart) (table(pair)) });
    }
    Ok(Some(section(
        "With Cofferdam and without",
        "The same cells with Cofferdam's agent managing both tenants: network CPU enforced, the \
         CPU limit reserved. A cell is called better or worse where the Mann-Whitney test of its \
         performance says so at 5%; that needs five blocks of each.",
        html! { @for part in &parts { (part) } },
    )))
}

/// Sentence about the number of cells that are better and worse with Cofferdam.
pub fn finding(result: &IsolationResult) -> Option<String> {
    let pairs = Pair::all(result);
    let rows = pairs.iter().flat_map(Pair::rows);
    let verdicts: Vec<Verdict> = rows.map(|(old, new)| verdict(old, new)).collect();
    if verdicts.is_empty() {
        return None;
    }
    let count = |of: Verdict| verdicts.iter().filter(|v| **v == of).count();
    Some(format!(
        "With Cofferdam, a's performance is better in {} of {} cells and worse in {}; \
         inconclusive: {}.",
        count(Verdict::Better),
        verdicts.len(),
        count(Verdict::Worse),
        count(Verdict::Inconclusive)
    ))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Better,
    Worse,
    Inconclusive,
}

impl Verdict {
    fn words(self) -> &'static str {
        match self {
            Verdict::Better => "better",
            Verdict::Worse => "worse",
            Verdict::Inconclusive => "inconclusive",
        }
    }
}

fn verdict(without: &IsolationRow, with: &IsolationRow) -> Verdict {
    let (old, new) = (&without.performance, &with.performance);
    match differ(old, new) {
        Some(true) if new.median > old.median => Verdict::Better,
        Some(true) => Verdict::Worse,
        Some(false) | None => Verdict::Inconclusive,
    }
}

/// Chart of the remaining performance of a, percent of its baseline, one lane without and one with
/// Cofferdam.
fn chart(pair: &Pair<'_>) -> Result<Markup, ReportError> {
    let rows = pair.rows().filter_map(|(old, new)| {
        let (old_loss, new_loss) = (
            old.performance_loss_pct.as_ref()?,
            new.performance_loss_pct.as_ref()?,
        );
        Some(Row {
            label: old.scenario.to_string(),
            note: format!(
                "{}% → {}%",
                number(100.0 - old_loss.median),
                number(100.0 - new_loss.median)
            ),
            lanes: vec![
                remaining_marks(old_loss, Tone::Caused),
                remaining_marks(new_loss, Tone::Paid),
            ],
        })
    });
    let rows: Vec<Row> = rows.collect();
    if rows.is_empty() {
        return Ok(html! {});
    }
    let axis = "performance that a kept next to b, % of its level alone";
    let chart = Chart {
        alt: format!("{axis}, without and with Cofferdam"),
        axis: axis.to_owned(),
        from: 0.0,
        legend: &[
            (Tone::Caused, "without Cofferdam"),
            (Tone::Paid, "with Cofferdam"),
        ],
        references: vec![(100.0, "alone")],
        rows,
    };
    Ok(html! {
        div.charts { (figure("Kept next to b", &chart.svg()?)) }
    })
}

fn remaining_marks(loss: &Estimate, tone: Tone) -> Vec<Mark> {
    let remaining = loss.map(|lost| 100.0 - lost);
    let interval = Mark::of_estimate(&remaining, tone);
    let values = remaining.values;
    vec![Mark::Dots { values, tone }, interval]
}

fn table(pair: &Pair<'_>) -> Markup {
    let lost = |row: &IsolationRow| spread_as(row.performance_loss_pct.as_ref(), tenths);
    let p99 = |row: &IsolationRow| row.p99_us.as_ref().map(|e| number(e.median));
    let dash = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
    html! {
        div.scroll tabindex="0" { table.paper {
            thead { tr {
                th { "scenario" } th { "loss without, %" } th { "loss with, %" }
                th { "performance with ÷ without" } th.words { "verdict" }
                th { "p99 without, µs" } th { "with" }
            } }
            tbody { @for (old, new) in pair.rows() {
                @let verdict = verdict(old, new);
                tr {
                    th { (short_name(old)) }
                    td { (lost(old)) }
                    td { (lost(new)) }
                    td { @if old.performance.median > 0.0 {
                        (factor(new.performance.median / old.performance.median))
                    } @else { "–" } }
                    td.words.good[verdict == Verdict::Better].bad[verdict == Verdict::Worse] {
                        (verdict.words())
                    }
                    td { (dash(p99(old))) }
                    td { (dash(p99(new))) }
                }
            } }
        } }
    }
}
