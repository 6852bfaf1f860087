//! Table of Volpert et al. (ICPE 2023), with intervals.

use crate::data::{GoalBound, Verdict};
use crate::evidence::judge;
use crate::isolation::data::{GeneratorKind, IsolationRow, IsolationTable, Resource};
use crate::isolation::goals::LOSS_TOLERATED_PCT;
use crate::report::format::{number, scaled};
use crate::report::section::{spread, spread_as};
use maud::{Markup, html};

/// Table with the paper's columns id, short name, a, a′, I_ulr and I_plr, then our own columns.
pub fn paper(of: &IsolationTable, generator: GeneratorKind) -> Markup {
    html! {
        div.scroll tabindex="0" { table.paper {
            thead { tr {
                th { "id" } th.words { "scenario" }
                th { "a, %" } th { "a′, %" } th { "I_ulr" } th { "I_plr" }
                th { "loss of utilisation, %" }
                th { "performance, " (of.resource.performance_unit(generator)) }
                th { "loss of performance, %" } th { "achieved ÷ asked" } th { "p99, µs" }
                th { "p99′ ÷ p99" }
                @if of.resource == Resource::Memory { th { "kills" } }
            } }
            tbody { @for row in &of.rows { (line(of, row)) } }
        } }
    }
}

fn line(of: &IsolationTable, row: &IsolationRow) -> Markup {
    let base = of
        .rows
        .iter()
        .find(|r| r.scenario == row.scenario.baseline());
    let contended = row.scenario.b.is_some();
    let a = base.map_or("–".to_owned(), |r| number(r.utilisation_pct.median));
    html! {
        tr {
            th { (row.id) } td.words { (short_name(row)) }
            td { (a) }
            td { @if contended { (number(row.utilisation_pct.median)) } }
            td { (row.i_ulr.map(points).unwrap_or_default()) }
            td { (row.i_plr.map(points).unwrap_or_default()) }
            td { @if contended { (spread_as(row.utilisation_loss_pct.as_ref(), tenths)) } }
            td { (scaled(row.performance.median)) }
            td.bad[is_loss(row)] {
                @if contended { (spread_as(row.performance_loss_pct.as_ref(), tenths)) }
            }
            td { (spread(row.achieved.as_ref())) }
            td { (row.p99_us.as_ref().map_or("–".to_owned(), |e| number(e.median))) }
            td { @if contended { (spread(row.p99_factor.as_ref())) } }
            @if of.resource == Resource::Memory { td { (row.restarts) } }
        }
    }
}

/// Formats a loss in percent with one digit: smaller differences do not concern a tenant.
pub fn tenths(value: f64) -> String {
    // Adding 0.0 removes the sign of a negative zero.
    format!("{:.1}", (value * 10.0).round() / 10.0 + 0.0)
}

/// Formats with two decimal digits, as the paper does.
pub fn points(value: f64) -> String {
    format!("{value:.2}")
}

/// Whether it is proved that a lost more than the tolerated part.
fn is_loss(row: &IsolationRow) -> bool {
    let loss = row.performance_loss_pct.as_ref();
    loss.is_some_and(|e| judge(GoalBound::AtMost(LOSS_TOLERATED_PCT), e) == Verdict::Missed)
}

/// Short name such as `a_s b_f`, with subscripts as in the paper.
pub fn short_name(row: &IsolationRow) -> Markup {
    html! {
        "a" sub { (row.scenario.a.letter()) }
        @if let Some(b) = row.scenario.b { " b" sub { (b.letter()) } }
    }
}
