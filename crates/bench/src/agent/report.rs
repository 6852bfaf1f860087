//! Sections of the agent benchmark's report: CPU cost of the agent, cost of the diagnosis, and
//! answers to the container runtime.

use super::goals::goals;
use super::terminal;
use crate::agent::data::{AgentCostRow, AgentDuty, AgentResult, AnswerRow, DiagnosisCostRow};
use crate::agent::goals::{GOAL_CPU_PCT, GOAL_SWITCHES};
use crate::data::Estimate;
use crate::data::Judgement;
use crate::report::chart::{Chart, Row, Tone};
use crate::report::error::ReportError;
use crate::report::format::{bytes, estimate, number};
use crate::report::section::{figure, not_measured, section, spread};
use crate::run::{Outcome, RunData};
use crate::table::Table;
use maud::{Markup, html};

impl Outcome for AgentResult {
    fn is_measured(&self) -> bool {
        !(self.cost.is_empty() && self.diagnosis.is_empty() && self.answers.is_empty())
    }

    fn goals(&self) -> Vec<Judgement> {
        goals(self)
    }

    fn finding(&self, _run: &RunData) -> Vec<String> {
        let at_work = self
            .cost
            .iter()
            .filter(|row| row.duty != AgentDuty::Observe);
        let mut text: Vec<String> = at_work
            .map(|row| {
                format!(
                    "An agent that manages {} containers and {} takes {}% of a CPU and {}.",
                    row.containers,
                    row.duty.words(),
                    estimate(&row.cpu_pct),
                    bytes(row.resident_bytes),
                )
            })
            .collect();
        let worst = self.diagnosis.iter();
        let worst = worst.min_by(|a, b| a.ratio.median.total_cmp(&b.ratio.median));
        text.extend(worst.map(|row| {
            format!(
                "Where the diagnosis costs most, {}, processes that do nothing but wake each other \
                 keep {} of their round trips.",
                row.case,
                estimate(&row.ratio),
            )
        }));
        text.extend(self.answers.iter().map(|row| {
            format!(
                "A container runtime that makes {} containers waits {} ms for 99 of 100 answers.",
                row.containers,
                estimate(&row.p99_ms),
            )
        }));
        text
    }

    fn sections(&self, _run: &RunData) -> Result<Vec<Markup>, ReportError> {
        let mut sections = Vec::new();
        if !self.cost.is_empty() {
            sections.push(cost(&self.cost)?);
        }
        if !self.diagnosis.is_empty() {
            sections.push(diagnosis(&self.diagnosis)?);
            sections.push(programs(&self.diagnosis));
        }
        if !self.answers.is_empty() {
            sections.push(runtime_answers(&self.answers));
        }
        sections.extend(not_measured(&self.failed));
        Ok(sections)
    }

    fn tables(&self) -> Vec<Table> {
        terminal::tables(self)
    }
}

/// Legend of the rounds and their summary.
const ROUNDS: &[(Tone, &str)] = &[
    (Tone::Paid, "each round"),
    (Tone::Caused, "median, 95% interval"),
];

fn row(label: &str, value: &Estimate) -> Row {
    let tones = [Tone::Paid, Tone::Caused];
    Row::of_estimate(label.to_owned(), estimate(value), value, tones)
}

fn cost(rows: &[AgentCostRow]) -> Result<Markup, ReportError> {
    let chart = Chart {
        alt: "CPU time of the agent, percent of one CPU, by what it does".to_owned(),
        axis: "percent of one CPU".to_owned(),
        from: 0.0,
        legend: ROUNDS,
        references: vec![(GOAL_CPU_PCT, "goal")],
        rows: rows
            .iter()
            .map(|r| row(r.duty.words(), &r.cpu_pct))
            .collect(),
    };
    let chart = figure("CPU time of the agent", &chart.svg()?);
    Ok(section(
        "Cost of the agent",
        "A separate agent for every point, scraped once; a few containers receive a trickle of \
         datagrams, the others are idle.",
        html! {
            div.charts { (chart) }
            div.scroll tabindex="0" { table {
                thead { tr {
                    th { "the agent" } th { "containers" } th { "with traffic" }
                    th { "CPU, % of one" } th { "resident" } th { "control step, ms" }
                } }
                tbody { @for row in rows { tr {
                    th { (row.duty.words()) }
                    td { (row.containers) }
                    td { (row.busy) }
                    td { (spread(Some(&row.cpu_pct))) }
                    td { (bytes(row.resident_bytes)) }
                    td { (spread(Some(&row.step_ms))) }
                } } }
            } }
        },
    ))
}

fn diagnosis(rows: &[DiagnosisCostRow]) -> Result<Markup, ReportError> {
    let ratios = rows.iter().flat_map(|r| r.ratio.values.iter().copied());
    let lowest = ratios.filter(|v| v.is_finite()).fold(0.95, f64::min);
    // Ratios are close together near 1: the axis begins at the lowest, and says so.
    let from = (lowest * 20.0 - 0.5).floor() / 20.0;
    let chart = Chart {
        alt: "round trips with the diagnosis on over round trips with it off, by case".to_owned(),
        axis: format!("round trips on ÷ off (axis begins at {})", number(from)),
        from,
        legend: ROUNDS,
        references: vec![(GOAL_SWITCHES, "goal"), (1.0, "free")],
        rows: rows.iter().map(|r| row(r.case.label(), &r.ratio)).collect(),
    };
    let chart = figure("Round trips kept", &chart.svg()?);
    Ok(section(
        "Cost of the diagnosis",
        "Two processes do nothing but wake each other over a pipe. Off, on and an empty program at \
         each switch take turns. No real load switches so much, and what is lost with an empty \
         program no program there can avoid. In windows, as the agent counts while nobody loses \
         anything, a fifth of the time is counted.",
        html! {
            div.charts { (chart) }
            div.scroll tabindex="0" { table {
                thead { tr {
                    th { "the processes" } th { "off, /s" } th { "on, /s" } th { "on ÷ off" }
                    th { "empty program ÷ off" }
                    th { "in windows ÷ off" } th { "pairs" }
                    th { "programs, % of a round trip" }
                } }
                tbody { @for row in rows { tr {
                    th { (row.case) }
                    td { (number(row.off.median)) }
                    td { (number(row.on.median)) }
                    td { (spread(Some(&row.ratio))) }
                    td { (spread(row.empty_ratio.as_ref())) }
                    td { (spread(row.windows_ratio.as_ref())) }
                    td { (row.ratio.values.len()) }
                    td { (number(row.programs_pct)) }
                } } }
            } }
        },
    ))
}

fn runtime_answers(rows: &[AnswerRow]) -> Markup {
    section(
        "Answers to the container runtime",
        "A simulated runtime asks over NRI before it makes each container, and every tenth asks \
         for CPUs of its own. Timed where the runtime waits, in rounds with an agent each.",
        html! { div.scroll tabindex="0" { table {
            thead { tr {
                th { "pods there, and containers made" } th { "containers that live" }
                th { "median, ms" } th { "99th percentile, ms" }
                th { "longest, ms" }
            } }
            tbody { @for row in rows { tr {
                th { (row.containers) }
                td { (row.live) }
                td { (spread(Some(&row.p50_ms))) }
                td { (spread(Some(&row.p99_ms))) }
                td { (number(row.max_ms)) }
            } } }
        } } },
    )
}

fn programs(rows: &[DiagnosisCostRow]) -> Markup {
    section(
        "Cost of each program",
        "As measured by the kernel, including the time of the measurement itself.",
        html! { div.scroll tabindex="0" { table {
            thead { tr {
                th { "the processes" } th { "program" } th { "runs a round trip" }
                th { "ns a run" } th { "of them for measuring" }
            } }
            tbody { @for row in rows { @for program in &row.programs { tr {
                th { (row.case) }
                td { (program.name) }
                td { (number(program.runs_per_round_trip)) }
                td { (number(program.ns_per_run)) }
                td { (number(row.statistics_ns_per_run)) }
            } } } }
        } } },
    )
}
