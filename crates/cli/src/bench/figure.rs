//! Figures as the tables of results show them.

use cofferdam_bench::data::Metric;
use cofferdam_bench::report::format;

/// A dash for a figure that was not measured.
pub(super) fn optional(value: Option<f64>, show: fn(f64) -> String) -> String {
    value.map_or("–".to_owned(), show)
}

/// A compared figure with its unit.
pub(super) fn time(metric: Metric, value: f64) -> String {
    match metric {
        Metric::ElapsedS => format!("{} s", format::number(value)),
        Metric::P99Us => format!("{} µs", format::number(value)),
    }
}
