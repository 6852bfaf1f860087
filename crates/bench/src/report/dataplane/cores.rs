//! The tables of several cores, and what must be said beside them.

use super::super::format::{estimate, number};
use super::{label, optional};
use crate::data::{DataplaneExperiment, DataplaneRow};
use maud::{Markup, html};
use std::collections::BTreeSet;

/// Share of its time from which on the generator is the limit.
const GENERATOR_BUSY: f64 = 0.95;

/// What a reader must know of these rows so as not to be misled; nothing where nothing is special.
pub(super) fn caution(rows: &[&DataplaneRow]) -> Vec<String> {
    let mut text = Vec::new();
    let shared = rows.iter().filter(|r| r.shares_cpu);
    let shared: BTreeSet<u32> = shared.map(|r| r.cell.at).collect();
    if let Some(count) = shared.first() {
        text.push(format!(
            "With {count} cores the server has the load generator's CPU as well: this host has no other. \
             These points, drawn hollow, tell what all of the host's CPUs do together, client \
             included, and not what a second core brings. There the generator gives the CPU away \
             whenever it has nothing to do, the dataplane's loops sleep instead of polling, and the \
             CPU time of a request cannot be told."
        ));
    }
    let is_limit = |r: &DataplaneRow| {
        let busy = r.generator_busy.as_ref();
        busy.is_some_and(|b| b.median >= GENERATOR_BUSY)
    };
    for row in rows.iter().filter(|r| is_limit(r)) {
        text.push(format!(
            "{}: the load generator was busy nearly all the time. It is the limit here; the server \
             may carry more.",
            label(row)
        ));
    }
    text
}

/// The table of either experiment.
pub(super) fn table(experiment: DataplaneExperiment, rows: &[&DataplaneRow]) -> Markup {
    let compared = experiment == DataplaneExperiment::Cores;
    html! {
        div.scroll { table {
            thead { tr {
                th { "condition" } th { "requests/s" } th { "÷ one core" }
                @if compared { th { "÷ blocking" } th { "÷ busy-polling" } }
                th { "p50, µs" } th { "p99, µs" }
                th { "CPU µs a request, all CPUs" } th { "÷ one core" }
                th { "generator busy" }
            } }
            tbody { @for row in rows { tr {
                th { (label(row)) }
                td { (estimate(&row.requests_per_s)) }
                td { (optional(row.rate_to_one_core.as_ref())) }
                @if compared {
                    td { (optional(row.rate_to_blocking.as_ref())) }
                    td { (optional(row.rate_to_busy.as_ref())) }
                }
                td { (estimate(&row.p50_us)) }
                td { (estimate(&row.p99_us)) }
                td { (optional(row.cpu_us_per_request.as_ref())) }
                td { (optional(row.cpu_to_one_core.as_ref())) }
                td {
                    @match &row.generator_busy {
                        Some(busy) => { (number(busy.median * 100.0)) "%" }
                        None => "–",
                    }
                }
            } } }
        } }
    }
}
