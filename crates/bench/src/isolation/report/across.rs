//! Runtimes side by side, and the paper's results next to ours.

use super::paper;
use super::table::{points, short_name, tenths};
use crate::isolation::data::{IsolationResult, IsolationTable, Resource};
use crate::report::section::{section, spread_as};
use maud::{Markup, html};

/// Tables of the loss of performance, one for each resource, with a column for each runtime. `None`
/// for a single runtime.
pub fn runtimes(result: &IsolationResult) -> Option<Markup> {
    let several: Vec<(Resource, Vec<&IsolationTable>)> = Resource::ALL
        .iter()
        .map(|r| {
            (
                *r,
                result.tables.iter().filter(|t| t.resource == *r).collect(),
            )
        })
        .filter(|(_, tables): &(_, Vec<_>)| tables.len() > 1)
        .collect();
    if several.is_empty() {
        return None;
    }
    Some(section(
        "Side by side",
        "Loss of performance of tenant a, percent, with its 95% interval. Below 0 it gained; an \
         interval that holds 0 is no finding.",
        html! {
            @for (resource, tables) in &several {
                h3 { (resource) }
                div.scroll tabindex="0" { table.paper {
                    thead { tr { th { "scenario" } @for t in tables { th { (t.title()) } } } }
                    tbody {
                        @for row in tables[0].rows.iter().filter(|r| r.scenario.b.is_some()) { tr {
                            th { (short_name(row)) }
                            @for t in tables {
                                @let other = t.rows.iter().find(|r| r.scenario == row.scenario);
                                @let loss = other.and_then(|r| r.performance_loss_pct.as_ref());
                                td { (spread_as(loss, tenths)) }
                            }
                        } }
                    }
                } }
            }
        },
    ))
}

/// Table of the paper's podman and ours; `None` if this run has no podman.
pub fn with_the_paper(result: &IsolationResult) -> Option<Markup> {
    let tables: Vec<&IsolationTable> = result
        .tables
        .iter()
        .filter(|t| {
            t.runtime == crate::isolation::data::RuntimeKind::Podman
                && paper::podman(t.resource).is_some()
        })
        .collect();
    if tables.is_empty() {
        return None;
    }
    Some(section(
        "The paper's podman and ours",
        "Utilisation and I_plr as the paper prints them (Volpert et al., ICPE 2023), and as \
         measured here. The machines, limits and versions differ: compare trends, not digits.",
        html! {
            @for of in tables {
                h3 { (of.title()) }
                div.scroll tabindex="0" { table.paper {
                    thead { tr {
                        th { "id" } th.words { "scenario" } th { "paper: utilisation, %" }
                        th { "ours, %" } th { "paper: I_plr" } th { "ours" }
                    } }
                    tbody { @for row in of.rows.iter().filter(|r| r.id <= 16) { tr {
                        th { (row.id) } td.words { (short_name(row)) }
                        @let table = paper::podman(of.resource);
                        @let paper = table.and_then(|t| t.get(row.id as usize - 1)).copied();
                        td { (paper.map_or("–".to_owned(), points)) }
                        td { (points(row.utilisation_pct.median)) }
                        td { (paper::i_plr(of.resource, row.id).map(points).unwrap_or_default()) }
                        td { (row.i_plr.map(points).unwrap_or_default()) }
                    } } }
                } }
            }
        },
    ))
}
