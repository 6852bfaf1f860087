//! Tables on standard output.

use crate::units::pct;
use crate::view::{Column, HostView, Row, rows, sort};
use cofferdam_records::accounting::{AccountingRecord, reason};
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use std::io::{IsTerminal, stdout};

/// Columns of the terminal behind standard output. `None` for a file or a pipe, where no line is
/// wrapped, because `grep` needs whole lines.
pub fn terminal_width() -> Option<u16> {
    if !stdout().is_terminal() {
        return None;
    }
    crossterm::terminal::size()
        .ok()
        .map(|(columns, _)| columns)
        .filter(|c| *c > 0)
}

/// Empty table without borders, wrapped to `width`.
pub fn plain(width: Option<u16>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    match width {
        Some(width) => {
            table
                .set_content_arrangement(ContentArrangement::Dynamic)
                .set_width(width);
        }
        None => {
            table.set_content_arrangement(ContentArrangement::Disabled);
        }
    }
    table
}

/// Puts two spaces between columns.
pub fn gaps(table: &mut Table) {
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
}

/// Aligns every column but the first to the right, with two spaces between columns.
pub fn numbers_right(table: &mut Table) {
    for (i, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if i > 0 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
}

/// Text of the ledger of one interval: headline, containers, host. `shown` is `all` without the
/// containers that `--container` excludes; the headline considers all.
pub fn ledger(
    headline: &str,
    all: &AccountingRecord,
    shown: &AccountingRecord,
    width: Option<u16>,
) -> String {
    let mut text = format!("{headline}\n\n");
    let mut rows = rows(shown);
    sort(&mut rows, Column::Owed, false);
    if rows.is_empty() {
        text += "No container to show: start one, or any process in a cgroup and network \
                 namespace of its own.\n";
    } else {
        text += &containers(&rows, width);
    }
    let host = HostView::new(all);
    text += &format!("\n{}\n{}\n", host.cpu_line(usize::MAX), host.health_line());
    text += &unattributed(shown);
    text
}

/// Table of containers. Shares are percent of one CPU.
pub fn containers(rows: &[Row], width: Option<u16>) -> String {
    let (columns, long) = match width {
        None => (Column::ALL.to_vec(), true),
        Some(w) if w >= 120 => (Column::ALL.to_vec(), true),
        // Two spaces between columns: the columns of the screen have their gap inside.
        Some(w) => (Column::fitting(w.saturating_sub(10), 14), false),
    };
    let mut table = plain(width);
    table.set_header(
        columns
            .iter()
            .map(|c| if long { c.long_title() } else { c.title() }),
    );
    for row in rows {
        table.add_row(columns.iter().map(|c| c.text(row)));
    }
    numbers_right(&mut table);
    finish(&table)
}

/// Line of the time that belongs to no container, largest first; empty when there is none.
fn unattributed(record: &AccountingRecord) -> String {
    let share = |ns: u64| crate::units::percent_of(ns as f64, record.length());
    let mut parts: Vec<_> = record
        .unattributed_ns
        .iter()
        .filter_map(|(key, ns)| Some((reason(key)?, *ns)))
        .filter(|(_, ns)| share(*ns) >= 0.05)
        .collect();
    parts.sort_by_key(|(reason, ns)| (std::cmp::Reverse(*ns), *reason));
    if parts.is_empty() {
        return String::new();
    }
    let parts: Vec<_> = parts
        .iter()
        .map(|(reason, ns)| format!("{} {}%", reason.label(), pct(share(*ns))))
        .collect();
    format!("no container's: {} (of one CPU)\n", parts.join(" · "))
}

/// Table as text, without blanks at the ends of lines.
pub fn finish(table: &Table) -> String {
    let mut text = String::new();
    for line in table.lines() {
        text += line.trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::record;

    #[test]
    fn a_ledger_reads_from_the_sentence_down() {
        let text = ledger("Who harms whom.", &record(), &record(), None);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "Who harms whom.");
        assert!(
            lines[2].starts_with("container  CPU %  caused RX %"),
            "{text}"
        );
        assert!(
            lines[3].starts_with("web-3") && lines[3].contains("+33.0"),
            "{text}"
        );
        assert!(
            lines[5].starts_with("db-1") && lines[5].contains("-31.0"),
            "{text}"
        );
        assert!(text.contains("\nnetwork work: CPU 0 44.0%"), "{text}");
        assert!(
            text.contains("no container's: softirq timer 3.6% · host traffic 0.5%"),
            "{text}"
        );
    }

    /// Promise 13.
    #[test]
    fn no_line_is_wider_than_the_terminal() {
        for width in [60_u16, 80, 100, 120, 200] {
            let text = containers(&rows(&record()), Some(width));
            for line in text.lines() {
                assert!(
                    line.chars().count() <= usize::from(width),
                    "{width}: {line}"
                );
            }
            assert!(text.lines().count() == 4, "{width}: nothing wraps:\n{text}");
        }
    }

    #[test]
    fn no_container_is_reported() {
        let mut empty = record();
        empty.containers.clear();
        let text = ledger("", &empty, &empty, None);
        assert!(text.contains("No container to show: start one"), "{text}");
    }
}
