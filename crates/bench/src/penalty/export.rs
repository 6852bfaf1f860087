//! The judged cells as a Markdown table, beside the report: for a document, or a diff of two runs.

use super::data::PenaltyResult;
use super::goals::{Judged, judged};
use crate::data::{Estimate, Treatment};
use crate::error::BenchError;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Name of the table's file within a run directory.
pub const TABLE: &str = "grid.md";

/// Writes the table, if a cell was enforced.
pub(super) fn write(dir: &Path, result: &PenaltyResult) -> Result<(), BenchError> {
    let judged = judged(&result.cells);
    if judged.is_empty() {
        return Ok(());
    }
    let path = dir.join(TABLE);
    fs::write(&path, table(&judged)).map_err(|source| BenchError::Output { path, source })
}

fn table(judged: &[Judged<'_>]) -> String {
    let mut text = String::from(
        "| cell | penalty, vanilla | penalty, enforced | offender's CPU, enforced | \
         goodput kept | goodput kept, CPU idle | missed |\n|---|---|---|---|---|---|---|\n",
    );
    for row in judged {
        let missed = row.missed();
        let by = match row.treated.treatment {
            Treatment::Agent => " by the agent",
            _ => "",
        };
        let figure = |e: Option<&Estimate>| e.map_or("–".to_owned(), shown);
        // A String takes all that is written.
        let _taken = writeln!(
            text,
            "| `{}`{by} | {} | {} | {} | {} | {} | {} |",
            row.cell.cell.id,
            shown(&row.cell.penalty),
            shown(&row.treated.penalty),
            figure(row.treated.offender_corrected.as_ref()),
            figure(row.treated.goodput_kept.as_ref()),
            figure(row.treated.idle_goodput_kept.as_ref()),
            if missed.is_empty() {
                "–".to_owned()
            } else {
                missed.join(", ")
            },
        );
    }
    text
}

fn shown(e: &Estimate) -> String {
    match e.interval() {
        Some(interval) => format!(
            "{:.2} [{:.2}, {:.2}]",
            e.median,
            interval.low(),
            interval.high()
        ),
        None => format!("{:.2}", e.median),
    }
}
