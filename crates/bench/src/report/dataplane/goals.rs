//! The goals: what each is judged by, and whether it was reached.

use super::super::format::number;
use super::super::page::{section, verdict};
use super::spread;
use crate::data::{DataplaneExperiment, DataplaneResult, DataplaneRow, EchoServer, Estimate};
use maud::{Markup, html};

/// Most p50 of an unloaded echo, ÷ that of blocking sockets.
pub const GOAL_P50: f64 = 0.45;
/// Least requests a second ÷ blocking, and ÷ busy-polling.
pub const GOAL_RATE: (f64, f64) = (3.0, 1.3);
/// Least share of the peak kept at 10,000 connections.
pub const GOAL_CONNECTIONS: f64 = 0.9;
/// Least requests a second of `process` ÷ `inline`.
pub const GOAL_PROCESS: f64 = 0.85;
/// Most bytes of an idle connection.
pub const GOAL_MEMORY: f64 = 2048.0;

/// A goal.
pub(super) struct Goal {
    /// What is judged, as the subject of a sentence.
    pub what: &'static str,
    /// The figure; `None` where it was not measured.
    pub figure: Option<Estimate>,
    goal: f64,
    is_most: bool,
    /// The experiments that give the figure.
    from: &'static str,
}

impl Goal {
    /// Whether its figure reaches it; `None` where there is none.
    pub fn is_reached(&self) -> Option<bool> {
        let figure = self.figure.as_ref()?.median;
        Some(match self.is_most {
            true => figure <= self.goal,
            false => figure >= self.goal,
        })
    }

    /// `at least 3.00`.
    pub fn bound(&self) -> String {
        let word = if self.is_most { "at most" } else { "at least" };
        format!("{word} {}", number(self.goal))
    }
}

/// All of them, in the order of the experiments.
pub(super) fn all(result: &DataplaneResult) -> Vec<Goal> {
    let of = |experiment, at: Option<u32>, server| {
        let rows = result.rows.iter().filter(move |r| {
            r.cell.experiment == experiment
                && r.cell.server == server
                && at.is_none_or(|at| r.cell.at == at)
        });
        rows.max_by(|a, b| a.requests_per_s.median.total_cmp(&b.requests_per_s.median))
    };
    let unloaded = of(DataplaneExperiment::Unloaded, None, EchoServer::Inline);
    let peak = of(DataplaneExperiment::Connections, None, EchoServer::Inline);
    let many = of(
        DataplaneExperiment::Connections,
        Some(10_000),
        EchoServer::Inline,
    );
    let process = of(DataplaneExperiment::Connections, None, EchoServer::Process);
    let idle = result.rows.iter().filter(|r| {
        r.cell.experiment == DataplaneExperiment::Idle && r.cell.server == EchoServer::Inline
    });
    let idle = idle.max_by_key(|r| r.cell.at);
    let goal = |what, figure: Option<Estimate>, goal, is_most, from| Goal {
        what,
        figure,
        goal,
        is_most,
        from,
    };
    let figure = |row: Option<&DataplaneRow>, of: fn(&DataplaneRow) -> &Option<Estimate>| {
        row.and_then(|row| of(row).clone())
    };
    let paced = result.rows.iter().filter(|r| {
        r.cell.experiment == DataplaneExperiment::Paced && r.cell.server == EchoServer::Inline
    });
    let slowest = paced.filter_map(|r| r.p50_to_blocking.clone());
    let slowest = slowest.max_by(|a, b| a.median.total_cmp(&b.median));
    let (unloaded_from, peak_from) = ("unloaded", "connections");
    vec![
        goal(
            "Unloaded, the inline echo's p50 ÷ that of blocking sockets",
            figure(unloaded, |r| &r.p50_to_blocking),
            GOAL_P50,
            true,
            unloaded_from,
        ),
        goal(
            "Unloaded, the inline echo's p50 ÷ that of busy-polling sockets",
            figure(unloaded, |r| &r.p50_to_busy),
            1.0,
            true,
            unloaded_from,
        ),
        goal(
            "At low load, at its worst rate, the inline echo's p50 ÷ that of blocking sockets",
            slowest,
            1.0,
            true,
            "paced",
        ),
        goal(
            "At its peak, the inline echo's requests a second ÷ those of blocking sockets",
            figure(peak, |r| &r.rate_to_blocking),
            GOAL_RATE.0,
            false,
            peak_from,
        ),
        goal(
            "The same ÷ those of busy-polling sockets",
            figure(peak, |r| &r.rate_to_busy),
            GOAL_RATE.1,
            false,
            peak_from,
        ),
        goal(
            "What a core carries at its peak's CPU time a request, inline ÷ blocking sockets",
            figure(peak, |r| &r.capacity_to_blocking),
            GOAL_RATE.0,
            false,
            peak_from,
        ),
        goal(
            "The same ÷ busy-polling sockets",
            figure(peak, |r| &r.capacity_to_busy),
            GOAL_RATE.1,
            false,
            peak_from,
        ),
        goal(
            "With 10,000 connections the share of the peak kept",
            many.zip(peak).map(|(many, peak)| kept(many, peak)),
            GOAL_CONNECTIONS,
            false,
            peak_from,
        ),
        goal(
            "Memory of an idle connection in bytes, inline,",
            figure(idle, |r| &r.bytes_per_connection),
            GOAL_MEMORY,
            true,
            "idle",
        ),
        goal(
            "At its peak, requests a second of process ÷ inline",
            figure(process, |r| &r.rate_to_inline),
            GOAL_PROCESS,
            false,
            peak_from,
        ),
    ]
}

/// What is kept of the peak's median; the interval is that of the requests with many connections.
fn kept(many: &DataplaneRow, peak: &DataplaneRow) -> Estimate {
    let (many, peak) = (&many.requests_per_s, peak.requests_per_s.median);
    Estimate {
        median: many.median / peak,
        low: many.low / peak,
        high: many.high / peak,
        values: many.values.iter().map(|value| value / peak).collect(),
    }
}

/// The goals with their figures; `None` where nothing that is judged was measured.
pub(super) fn table(result: &DataplaneResult) -> Option<Markup> {
    let goals = all(result);
    goals.iter().find(|goal| goal.figure.is_some())?;
    Some(section(
        "Goals",
        "Medians of the rounds, with the 95% interval. The goals are for veth and AF_XDP in copy mode.",
        html! {
            div.scroll { table {
                thead { tr {
                    th { "what" } th { "verdict" } th { "figure" } th { "goal" }
                    th.words { "experiment" }
                } }
                tbody { @for goal in &goals { tr {
                    th.words.goal { (goal.what.trim_end_matches(',')) }
                    td {
                        @match goal.is_reached() {
                            Some(reached) => (verdict(reached)),
                            None => "not measured",
                        }
                    }
                    td { (spread(goal.figure.as_ref())) }
                    td { (goal.bound()) }
                    td.words { code { (goal.from) } }
                } } }
            } }
        },
    ))
}
