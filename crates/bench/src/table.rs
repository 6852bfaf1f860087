//! Figures for a terminal: their text, without a layout.

use crate::data::{Estimate, Metric};
use crate::report::format;

/// Mark of a figure that was not measured.
const NONE: &str = "–";

/// A table: the first column names the rows, the others are figures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// A line above it; empty where the run's finding introduces it.
    pub lead: String,
    /// Titles of the columns.
    pub head: Vec<String>,
    /// Rows, each with one cell for every column of `head`.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table with these columns.
    pub(crate) fn new<S: Into<String>>(head: impl IntoIterator<Item = S>) -> Table {
        Table {
            head: head.into_iter().map(Into::into).collect(),
            ..Table::default()
        }
    }

    /// Adds a row.
    pub(crate) fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// List of this table; empty if the table has no row.
    pub(crate) fn listed(self) -> Vec<Table> {
        match self.rows.is_empty() {
            true => Vec::new(),
            false => vec![self],
        }
    }
}

/// Text of a figure; a dash if it was not measured.
pub(crate) fn optional(value: Option<f64>, show: fn(f64) -> String) -> String {
    value.map_or(NONE.to_owned(), show)
}

/// Text of an estimate; a dash if it was not measured.
pub(crate) fn estimate(value: Option<&Estimate>) -> String {
    value.map_or(NONE.to_owned(), format::estimate)
}

/// Text of a compared figure with its unit.
pub(crate) fn time(metric: Metric, value: f64) -> String {
    match metric {
        Metric::ElapsedS => format!("{} s", format::number(value)),
        Metric::P99Us => format!("{} µs", format::number(value)),
    }
}
