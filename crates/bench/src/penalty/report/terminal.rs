//! Table of the cells for a terminal.

use crate::data::{Cell, CellResult, Rate};
use crate::report::format;
use crate::table::{Table, optional, time};

/// Table with a row for each cell, followed by one for each treatment.
pub(super) fn cells(cells: &[CellResult]) -> Table {
    let mut table = Table::new([
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
        table.row([
            format::cell(&c.cell),
            format::estimate(&c.penalty),
            optional(c.predicted, format::number),
            time(c.metric, c.baseline.median),
            time(c.metric, c.test.median),
            optional(c.offender_caused_fraction, format::share),
            optional(c.victim_charged_fraction, format::share),
            rate_text(&c.cell, c.received.as_ref()),
        ]);
        for t in &c.treated {
            table.row([
                format!("  {}", t.treatment),
                format::estimate(&t.penalty),
                String::new(),
                String::new(),
                time(c.metric, t.test.median),
                String::new(),
                optional(t.victim_charged_fraction, format::share),
                rate_text(&c.cell, t.received.as_ref()),
            ]);
        }
    }
    table
}

fn rate_text(cell: &Cell, rate: Option<&Rate>) -> String {
    rate.map_or("–".to_owned(), |rate| format::rate(cell.protocol, rate))
}
