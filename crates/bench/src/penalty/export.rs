//! Judged cells as a Markdown table next to the report, for a document or a diff of two runs.

use super::data::PenaltyResult;
use super::goals::{JudgedCell, judge_cells};
use crate::data::{Estimate, Treatment, Verdict};
use crate::error::BenchError;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Name of the table's file within a run directory.
pub const TABLE: &str = "grid.md";

/// Writes the table, if a cell was enforced. Its verdicts are those of the report. `is_busy`: the
/// host did other work before the run.
pub(super) fn write(dir: &Path, result: &PenaltyResult, is_busy: bool) -> Result<(), BenchError> {
    let mut judged = judge_cells(&result.cells);
    for row in &mut judged {
        row.doubt(is_busy);
    }
    if judged.is_empty() {
        return Ok(());
    }
    let path = dir.join(TABLE);
    fs::write(&path, table(&judged)).map_err(|source| BenchError::Output { path, source })
}

fn table(judged: &[JudgedCell<'_>]) -> String {
    let mut text = String::from(
        "| cell | penalty, vanilla | penalty, enforced | offender's CPU, enforced | goodput kept | \
         goodput kept, CPU idle | missed | inconclusive |\n|---|---|---|---|---|---|---|---|\n",
    );
    for row in judged {
        let named = |verdict| match row.goals_that_are(verdict) {
            none if none.is_empty() => "–".to_owned(),
            some => some.join(", "),
        };
        let by = match row.treated.treatment {
            Treatment::Agent => " by the agent",
            _ => "",
        };
        let figure = |e: Option<&Estimate>| e.map_or("–".to_owned(), interval_text);
        // Writing to a String cannot fail.
        let _taken = writeln!(
            text,
            "| `{}`{by} | {} | {} | {} | {} | {} | {} | {} |",
            row.cell.cell.id,
            interval_text(&row.cell.penalty),
            interval_text(&row.treated.penalty),
            figure(row.treated.offender_corrected.as_ref()),
            figure(row.treated.goodput_kept.as_ref()),
            figure(row.treated.idle_goodput_kept.as_ref()),
            named(Verdict::Missed),
            named(Verdict::Inconclusive),
        );
    }
    text
}

fn interval_text(e: &Estimate) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::evidence;
    use crate::report::tests::sample;
    use crate::run::RunResult;

    /// Offender that uses too much CPU, measured on a calm and on a busy host.
    /// Promise 41.
    #[test]
    fn the_table_and_the_report_have_the_same_verdicts() {
        for is_busy in [false, true] {
            let mut run = sample::penalty();
            run.manifest.is_busy = is_busy;
            let Some(RunResult::Penalty(result)) = &mut run.result else {
                panic!("a penalty run");
            };
            let mut cell = sample::enforced(result.cells.remove(0), 1.0);
            cell.penalty = sample::five(4.5);
            cell.treated[0].penalty = sample::five(1.5);
            result.cells = vec![cell];
            let folder = tempfile::tempdir().unwrap();
            write(folder.path(), result, is_busy).unwrap();
            let text = fs::read_to_string(folder.path().join(TABLE)).unwrap();
            let row = text.lines().last().unwrap();
            let columns: Vec<&str> = row.split(" | ").collect();
            let goals = evidence::of(&run);
            let has = |verdict| goals.iter().any(|g| g.verdict == verdict);
            assert_eq!(columns[6] != "–", has(Verdict::Missed), "{row}");
            assert_eq!(columns[7] != "– |", has(Verdict::Inconclusive), "{row}");
            assert_eq!(has(Verdict::Missed), !is_busy);
        }
    }
}
