//! Sections of simulation runs.

use super::goals::{GOAL_DIFFERENCE_PCT, goals};
use super::terminal;
use crate::data::Judgement;
use crate::report::error::ReportError;
use crate::report::format::{number, share};
use crate::report::section::{not_measured, section, spread, spread_as};
use crate::run::{Goals, Outcome, RunData};
use crate::simulation::data::{SimulationCaseResult, SimulationResult};
use crate::table::Table;
use maud::{Markup, html};

impl Outcome for SimulationResult {
    fn is_measured(&self) -> bool {
        !self.cases.is_empty()
    }

    fn goals(&self) -> Vec<Judgement> {
        goals(&self.cases)
    }

    fn place_of_goals(&self) -> Goals {
        Goals::Counted
    }

    fn finding(&self, _run: &RunData) -> Vec<String> {
        finding(self)
    }

    fn sections(&self, _run: &RunData) -> Result<Vec<Markup>, ReportError> {
        Ok(sections(self))
    }

    fn tables(&self) -> Vec<Table> {
        terminal::tables(self)
    }
}

/// Sentences about the number of cases that agree, and the one that differs most.
pub fn finding(result: &SimulationResult) -> Vec<String> {
    let of = |c: &&SimulationCaseResult| c.difference_pct.median <= GOAL_DIFFERENCE_PCT;
    let close = result.cases.iter().filter(of).count();
    let by = |a: &&SimulationCaseResult, b: &&SimulationCaseResult| {
        a.difference_pct.median.total_cmp(&b.difference_pct.median)
    };
    let mut lines = vec![format!(
        "In {close} of {} cases every tenant's simulated share is within {} points of the measured \
         one (medians).",
        result.cases.len(),
        number(GOAL_DIFFERENCE_PCT)
    )];
    if let Some(worst) = result.cases.iter().max_by(by) {
        let row = worst.most_different();
        let example = row.map_or(String::new(), |r| {
            format!(
                ": {} got {} and {} simulated",
                r.name,
                share(r.measured.median),
                share(r.simulated.median)
            )
        });
        lines.push(format!(
            "The largest difference is {} points, in {}{example}.",
            number(worst.difference_pct.median),
            worst.case.id
        ));
    }
    lines
}

/// All sections of the report.
pub fn sections(result: &SimulationResult) -> Vec<Markup> {
    let mut sections = vec![summary(result)];
    sections.extend(result.cases.iter().map(one));
    sections.extend(not_measured(&result.failed));
    sections
}

fn summary(result: &SimulationResult) -> Markup {
    section(
        "All cases",
        "The difference is that of the tenant whose share differs most, in percent of the host's \
         CPU time. Shares are of the CPU time that there was for the tenants: without what other \
         processes and the hypervisor took of it.",
        html! { div.scroll tabindex="0" { table {
            thead { tr {
                th { "case" } th { "difference, points" } th { "taken by others, %" }
                th { "repeated" } th { "disturbed" }
            } }
            tbody { @for c in &result.cases { tr {
                th { (c.case.id) }
                td { (spread(Some(&c.difference_pct))) }
                td { (spread(Some(&c.taken_pct))) }
                td { (c.repeated) }
                td { (c.disturbed) }
            } } }
        } } },
    )
}

fn one(result: &SimulationCaseResult) -> Markup {
    section(
        &result.case.id,
        "",
        html! { div.scroll tabindex="0" { table {
            thead { tr {
                th { "tenant" } th { "threads" } th { "weight" } th { "measured share" }
                th { "simulated share" }
            } }
            tbody { @for (row, tenant) in result.rows.iter().zip(&result.case.tenants) { tr {
                th { (row.name) }
                td { (tenant.threads) }
                td { (tenant.weight) }
                td { (spread_as(Some(&row.measured), share)) }
                td { (spread_as(Some(&row.simulated), share)) }
            } } }
        } } },
    )
}
