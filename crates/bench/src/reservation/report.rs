//! Sections of reservation runs.

use super::goals::goals;
use super::terminal;
use crate::data::Judgement;
use crate::data::{Estimate, GoalBound};
use crate::evidence::largest;
use crate::report::chart::{Chart, Row, Tone};
use crate::report::error::ReportError;
use crate::report::format::{cpu_count, factor, number, share, times};
use crate::report::section::{figure, not_measured, section, spread};
use crate::reservation::data::{
    Entitlements, PolicyRow, ReservationCell, ReservationCellResult, ReservationPolicy,
    ReservationResult,
};
use crate::run::{Outcome, RunData};
use crate::table::Table;
use maud::{Markup, html};

impl Outcome for ReservationResult {
    fn is_measured(&self) -> bool {
        !self.cells.is_empty()
    }

    fn goals(&self) -> Vec<Judgement> {
        goals(&self.cells)
    }

    fn finding(&self, _run: &RunData) -> Vec<String> {
        finding(self)
    }

    fn sections(&self, _run: &RunData) -> Result<Vec<Markup>, ReportError> {
        sections(self)
    }

    fn tables(&self) -> Vec<Table> {
        terminal::tables(self)
    }
}

/// All sections of the report.
pub fn sections(result: &ReservationResult) -> Result<Vec<Markup>, ReportError> {
    let mut sections = Vec::new();
    for cell in &result.cells {
        sections.push(one(cell)?);
    }
    sections.extend(not_measured(&result.failed));
    Ok(sections)
}

/// Condition in words.
pub fn words(cell: &ReservationCell) -> String {
    let (target, limit, neighbours) = (cell.target, cell.limit, cell.neighbours);
    match cell.id.matches('/').count() {
        0..=2 => format!("{target} next to {limit} {neighbours} neighbours"),
        _ => {
            let threads = count_text(cell.threads, "thread");
            let count = count_text(cell.neighbour_count, "neighbour");
            let count = count.replacen(' ', &format!(" {limit} {neighbours} "), 1);
            format!("{target} with {threads} next to {count}")
        }
    }
}

fn count_text(count: u32, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    }
}

/// Sentences about the worst loss without a policy, and the loss that remains with one.
pub fn finding(result: &ReservationResult) -> Vec<String> {
    let ratio = |cell: &'_ ReservationCellResult, policy| -> Option<Estimate> {
        cell.row(policy)?.to_alone.clone()
    };
    let all: Vec<(&ReservationCellResult, Estimate)> = result
        .cells
        .iter()
        .filter_map(|cell| Some((cell, cell.without()?.to_alone.clone()?)))
        .collect();
    let cases: Vec<_> = all.iter().map(|(cell, e)| (*cell, e)).collect();
    let found = largest(&cases, GoalBound::AtMost(1.0));
    let describe = |what: &str, (cell, without): (&ReservationCellResult, &Estimate)| {
        let with = |policy| ratio(cell, policy).map_or("not measured".to_owned(), |e| times(&e));
        let manager = ratio(cell, ReservationPolicy::CpuManager);
        let manager = manager.map_or(String::new(), |e| {
            format!("the kubelet's static CPU manager {}; ", times(&e))
        });
        format!(
            "{what}: {}, {} as alone; {manager}strict {}, strict with lending {}.",
            words(&cell.cell),
            times(without),
            with(ReservationPolicy::Strict),
            with(ReservationPolicy::Lending)
        )
    };
    let first = match (found.proved, found.doubtful) {
        (Some(proved), _) => Some(describe("Worst without a policy", proved)),
        (None, Some(doubtful)) => Some(describe("Worst without a policy, inconclusive", doubtful)),
        (None, None) => found
            .harmless
            .map(|h| describe("No harm without a policy", h)),
    };
    let is_first = |of: &ReservationCellResult| {
        first
            .as_ref()
            .is_some_and(|text| text.contains(&words(&of.cell)))
    };
    let larger = found.doubtful.filter(|(cell, _)| !is_first(cell));
    let larger = larger.map(|larger| describe("Larger, but inconclusive", larger));
    first.into_iter().chain(larger).collect()
}

/// Sentence about the effect of a reservation; `None` if it was not compared.
pub fn story(result: &ReservationCellResult) -> Option<String> {
    let row = |policy| result.rows.iter().find(|r| r.policy == policy);
    let (without, with) = (
        row(ReservationPolicy::None)?,
        row(ReservationPolicy::Lending)?,
    );
    let lost = without.entitled.as_ref().map_or(String::new(), |e| {
        format!(
            "; without, it lost {} of {} CPUs to forced runqueue sharing",
            number(e.forced_sharing_cpus.median),
            number(e.entitled_cpus.median)
        )
    });
    Some(format!(
        "With {} reserved, a job takes {} as long next to busy neighbours as alone, and {} \
         with Cofferdam keeping the reservation{lost}.",
        cpu_count(result.cell.reserved_cpus),
        times(without.to_alone.as_ref()?),
        times(with.to_alone.as_ref()?),
    ))
}

/// Section of one condition.
pub fn one(result: &ReservationCellResult) -> Result<Markup, ReportError> {
    let cell = &result.cell;
    let what = match cell.target.is_interactive() {
        true => "p99 latency",
        false => "completion time",
    };
    let lead = format!(
        "The target has requested {} and has {}; {} requested {} in all and {} each. Every \
         policy is measured once a round, in a random order.",
        cpu_count(cell.reserved_cpus),
        count_text(cell.threads, "thread"),
        match cell.neighbour_count {
            1 => "the neighbour has".to_owned(),
            count => format!("{count} neighbours have"),
        },
        cpu_count(cell.neighbour_cpus),
        count_text(cell.neighbour_threads, "thread"),
    );
    let diagnosed = result.rows.iter().any(|row| row.entitled.is_some());
    let got = chart(
        result,
        &format!("{what} ÷ alone"),
        (1.0, "alone"),
        |row| row.to_alone.as_ref(),
        factor,
    )?;
    let used = chart(
        result,
        "host utilisation",
        (1.0, "all CPUs"),
        |row| Some(&row.host_utilisation),
        share,
    )?;
    Ok(section(
        &words(cell),
        &lead,
        html! {
            div.charts { (got) (used) }
            div.scroll tabindex="0" { table {
                thead { tr {
                    th { "policy" }
                    th { @if cell.target.is_interactive() { "p99, µs" } @else { "time, s" } }
                    th { "÷ alone" } th { "CPU got ÷ requested" } th { "host utilisation" }
                    @if diagnosed {
                        th { "entitled to, CPUs" }
                        @for cause in Entitlements::<Estimate>::CAUSES { th { (cause) } }
                    }
                } }
                tbody { @for row in &result.rows { tr {
                    th { (row.policy.words()) }
                    td { (spread(row.p99_us.as_ref().or(row.elapsed_s.as_ref()))) }
                    td { (spread(row.to_alone.as_ref())) }
                    td { (spread(Some(&row.cpu_got))) }
                    td { (spread(Some(&row.host_utilisation))) }
                    @if diagnosed {
                        td { (spread(row.entitled.as_ref().map(|e| &e.entitled_cpus))) }
                        @for i in 0..Entitlements::<Estimate>::CAUSES.len() {
                            td { (spread(loss(row, i))) }
                        }
                    }
                } } }
            } }
            @if diagnosed { p.note {
                "The last columns are CPUs that the target was entitled to and did not get, by \
                 cause: "
                "others ran where it waited; it waited while CPUs were idle; its own quota; no \
                 thread "
                "that could run."
            } }
        },
    ))
}

/// Loss of a cause, by its index in [`Entitlements::CAUSES`].
fn loss(row: &PolicyRow, cause: usize) -> Option<&Estimate> {
    row.entitled.as_ref().map(|e| e.losses()[cause])
}

fn chart(
    result: &ReservationCellResult,
    axis: &str,
    reference: (f64, &'static str),
    value: fn(&PolicyRow) -> Option<&Estimate>,
    words: fn(f64) -> String,
) -> Result<Markup, ReportError> {
    let rows = result.rows.iter().filter_map(|row| {
        let value = value(row)?;
        let tone = match row.policy {
            ReservationPolicy::Alone => Tone::Neutral,
            ReservationPolicy::Strict | ReservationPolicy::Lending => Tone::Paid,
            _ => Tone::Caused,
        };
        let label = row.policy.words().to_owned();
        let note = words(value.median);
        Some(Row::of_estimate(label, note, value, [tone; 2]))
    });
    let chart = Chart {
        alt: format!("{}: {axis} by policy", result.cell.id),
        axis: axis.to_owned(),
        from: 0.0,
        legend: &[],
        references: vec![reference],
        rows: rows.collect(),
    };
    Ok(figure(axis, &chart.svg()?))
}
