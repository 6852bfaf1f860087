//! Sections of history runs.

use super::goals::goals;
use super::terminal;
use crate::data::Judgement;
use crate::history::data::{HistoryResult, HistoryRow};
use crate::report::error::ReportError;
use crate::report::format::{bytes, estimate, number};
use crate::report::section::{section, spread};
use crate::run::{Outcome, RunData};
use crate::table::Table;
use maud::{Markup, html};

impl Outcome for HistoryResult {
    fn is_measured(&self) -> bool {
        !self.rows.is_empty()
    }

    fn goals(&self) -> Vec<Judgement> {
        goals(self)
    }

    fn finding(&self, _run: &RunData) -> Vec<String> {
        let of = |row: &HistoryRow| {
            format!(
                "{} days of {} containers ({}) take {}; an append takes {} µs of CPU time.",
                row.days,
                row.containers,
                row.case,
                bytes(row.bytes),
                estimate(&row.append_cpu_us),
            )
        };
        self.rows.iter().map(of).collect()
    }

    fn sections(&self, _run: &RunData) -> Result<Vec<Markup>, ReportError> {
        Ok(vec![stores(&self.rows), reads(&self.rows)])
    }

    fn tables(&self) -> Vec<Table> {
        terminal::tables(self)
    }
}

fn stores(rows: &[HistoryRow]) -> Markup {
    section(
        "Size, and cost of an append",
        "Counts from a seed. The CPU time of an append is the mean of a hundred seconds' frames, \
         with the sums of coarser frames and the removal of old ones.",
        html! { div.scroll tabindex="0" { table {
            thead { tr {
                th { "containers" } th { "what they do" } th { "days" } th { "frames appended" }
                th { "size" }
                th { "bytes a container and day" } th { "bytes a container and second" }
                th { "append, CPU µs" } th { "append, µs" }
            } }
            tbody { @for row in rows { tr {
                th { (row.containers) }
                td { (row.case) }
                td { (row.days) }
                td { (row.frames) }
                td { (bytes(row.bytes)) }
                td { (number(row.bytes_per_container_day())) }
                td { (number(row.bytes_per_container_frame)) }
                td { (spread(Some(&row.append_cpu_us))) }
                td { (spread(Some(&row.append_us))) }
            } } }
        } } },
    )
}

fn reads(rows: &[HistoryRow]) -> Markup {
    section(
        "Reading",
        "As the screen, the page and an export do it, from the file that the writer has open.",
        html! { div.scroll tabindex="0" { table {
            thead { tr { th { "what they do" } th { "read" } th { "frames" } th { "ms" } } }
            tbody { @for row in rows { @for read in &row.reads { tr {
                th { (row.case) }
                td { (read.what) }
                td { (read.frames) }
                td { (spread(Some(&read.ms))) }
            } } } }
        } } },
    )
}
