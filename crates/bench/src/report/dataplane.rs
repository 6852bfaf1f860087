//! Sections of dataplane runs, in the order of IX's figures.

use super::ReportError;
use super::chart::{Chart, Mark, Row, Tone};
use super::format::{estimate, factor, number};
use super::page::{figure, not_measured, section};
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

/// All sections.
pub fn sections(result: &DataplaneResult) -> Result<Vec<Markup>, ReportError> {
    let mut sections = Vec::new();
    for experiment in DataplaneExperiment::ALL {
        let rows: Vec<&DataplaneRow> = result
            .rows
            .iter()
            .filter(|r| r.cell.experiment == *experiment)
            .collect();
        if !rows.is_empty() {
            sections.push(one(*experiment, &rows, &result.congestion_control)?);
        }
    }
    if !result.stage_cycles_per_packet.is_empty() {
        sections.push(stages(result)?);
    }
    sections.extend(not_measured(&result.failed));
    Ok(sections)
}

fn told(experiment: DataplaneExperiment) -> (&'static str, &'static str) {
    match experiment {
        DataplaneExperiment::Unloaded => (
            "Unloaded echo",
            "64 bytes, one request at a time, from a Linux client that polls. Nothing is steered.",
        ),
        DataplaneExperiment::Connections => (
            "Connections",
            "64 bytes, one request on its way on each connection, from a load generator over \
             AF_XDP. Receive work is steered to the CPU of whom it is for.",
        ),
        DataplaneExperiment::Batch => (
            "Batch bound",
            "As above with 100 connections; at most so many packets in a turn of the loop.",
        ),
        DataplaneExperiment::Load => (
            "Latency under load",
            "An open loop at this percentage of the server's own peak. Times count from when a \
             request was due.",
        ),
        DataplaneExperiment::Sizes => (
            "Message size (NetPIPE)",
            "One message at a time and the same back, from a Linux client that polls. The Linux \
             servers have their segmentation offloads; AF_XDP has none.",
        ),
        DataplaneExperiment::ShortConnections => (
            "Short connections",
            "A new connection for each 64-byte request, ended by a reset.",
        ),
    }
}

fn label(row: &DataplaneRow) -> String {
    let words = row.cell.server.words();
    match row.cell.experiment {
        DataplaneExperiment::Unloaded | DataplaneExperiment::ShortConnections => words.to_owned(),
        DataplaneExperiment::Connections => format!("{} connections, {words}", row.cell.at),
        DataplaneExperiment::Batch => format!("B = {}", row.cell.at),
        DataplaneExperiment::Load => format!("{}%, {words}", row.cell.at),
        DataplaneExperiment::Sizes => format!("{} bytes, {words}", row.cell.at),
    }
}

/// Both directions, Mbit/s.
fn goodput(row: &DataplaneRow) -> f64 {
    row.requests_per_s.median * f64::from(row.cell.at) * 8.0 / 1e6
}

fn one(
    experiment: DataplaneExperiment,
    rows: &[&DataplaneRow],
    congestion: &str,
) -> Result<Markup, ReportError> {
    let (title, text) = told(experiment);
    let by_latency = matches!(
        experiment,
        DataplaneExperiment::Unloaded | DataplaneExperiment::Load
    );
    let chart = if by_latency {
        let value: fn(&DataplaneRow) -> &Estimate = match experiment {
            DataplaneExperiment::Load => |r| &r.p99_us,
            _ => |r| &r.p50_us,
        };
        let axis = match experiment {
            DataplaneExperiment::Load => "p99, µs",
            _ => "p50, µs",
        };
        chart(rows, axis, value)?
    } else {
        chart(rows, "requests a second", |r| &r.requests_per_s)?
    };
    let is_sizes = experiment == DataplaneExperiment::Sizes;
    Ok(section(
        title,
        &format!("{text} Congestion control of all ends: {congestion}."),
        html! {
            div.charts { (chart) }
            div.scroll { table {
                thead { tr {
                    th { "condition" } th { "requests/s" } th { "÷ blocking" } th { "÷ busy-polling" }
                    th { "p50, µs" } th { "p99, µs" } th { "p99.9, µs" }
                    th { "p50 ÷ blocking" } th { "process ÷ inline" }
                    @if is_sizes { th { "Mbit/s" } }
                } }
                tbody { @for row in rows { tr {
                    th { (label(row)) }
                    td { (estimate(&row.requests_per_s)) }
                    td { (optional(row.rate_to_blocking.as_ref())) }
                    td { (optional(row.rate_to_busy.as_ref())) }
                    td { (estimate(&row.p50_us)) }
                    td { (estimate(&row.p99_us)) }
                    td { (estimate(&row.p999_us)) }
                    td { (optional(row.p50_to_blocking.as_ref())) }
                    td { (optional(row.rate_to_inline.as_ref())) }
                    @if is_sizes { td { (number(goodput(row))) } }
                } } }
            } }
        },
    ))
}

fn optional(value: Option<&Estimate>) -> String {
    value.map_or("–".to_owned(), estimate)
}

fn chart(
    rows: &[&DataplaneRow],
    axis: &str,
    value: fn(&DataplaneRow) -> &Estimate,
) -> Result<Markup, ReportError> {
    let rows = rows.iter().map(|row| {
        let value = value(row);
        let tone = match row.cell.server {
            EchoServer::Blocking | EchoServer::BusyPolling => Tone::Caused,
            EchoServer::Inline => Tone::Paid,
            EchoServer::Process => Tone::Neutral,
        };
        let note = match &row.rate_to_blocking {
            Some(ratio) => format!(
                "{} ({} × blocking)",
                number(value.median),
                factor(ratio.median)
            ),
            None => number(value.median),
        };
        Row::of_estimate(label(row), note, value, [tone; 2])
    });
    let chart = Chart {
        alt: axis.to_owned(),
        axis: axis.to_owned(),
        from: 0.0,
        references: Vec::new(),
        rows: rows.collect(),
    };
    Ok(figure(axis, &chart.svg()?))
}

fn stages(result: &DataplaneResult) -> Result<Markup, ReportError> {
    let axis = "cycles a packet";
    let rows = result
        .stage_cycles_per_packet
        .iter()
        .map(|(stage, cycles)| Row {
            label: stage.clone(),
            note: number(*cycles),
            lanes: vec![vec![Mark::Bar {
                value: *cycles,
                tone: Tone::Paid,
            }]],
        });
    let chart = Chart {
        alt: axis.to_owned(),
        axis: axis.to_owned(),
        from: 0.0,
        references: Vec::new(),
        rows: rows.collect(),
    };
    Ok(section(
        "Where the time of a packet goes",
        "Cycles of the time-stamp counter in each stage of the inline loop, over the server's whole \
         life, turns without work left out. `flush` is the system call that sends: on veth it copies each \
         packet and runs the device's transmit path. A NIC with zero-copy AF_XDP would leave there \
         only the wake-up.",
        html! { div.charts { (figure(axis, &chart.svg()?)) } },
    ))
}

/// Each goal, and the figure that it is judged by.
pub fn finding(result: &DataplaneResult) -> Vec<String> {
    let mut text = Vec::new();
    let find = |experiment, at: Option<u32>, server| {
        let rows = result.rows.iter().filter(move |r| {
            r.cell.experiment == experiment
                && r.cell.server == server
                && at.is_none_or(|at| r.cell.at == at)
        });
        rows.max_by(|a, b| a.requests_per_s.median.total_cmp(&b.requests_per_s.median))
    };
    let mut judge = |what: &str, value: Option<f64>, goal: f64, is_most: bool| {
        let Some(value) = value else { return };
        let reached = if is_most {
            value <= goal
        } else {
            value >= goal
        };
        let verdict = if reached { "reached" } else { "missed" };
        let word = if is_most { "at most" } else { "at least" };
        text.push(format!(
            "{what} is {}; the goal of {word} {} is {verdict}.",
            number(value),
            number(goal)
        ));
    };
    let unloaded = find(DataplaneExperiment::Unloaded, None, EchoServer::Inline);
    let median = |e: &Option<Estimate>| e.as_ref().map(|e| e.median);
    judge(
        "Unloaded, the inline echo's p50 ÷ that of blocking sockets",
        unloaded.and_then(|r| median(&r.p50_to_blocking)),
        GOAL_P50,
        true,
    );
    judge(
        "Unloaded, the inline echo's p50 ÷ that of busy-polling sockets",
        unloaded.and_then(|r| median(&r.p50_to_busy)),
        1.0,
        true,
    );
    let peak = find(DataplaneExperiment::Connections, None, EchoServer::Inline);
    judge(
        "At its peak, the inline echo's requests a second ÷ those of blocking sockets",
        peak.and_then(|r| median(&r.rate_to_blocking)),
        GOAL_RATE.0,
        false,
    );
    judge(
        "The same ÷ those of busy-polling sockets",
        peak.and_then(|r| median(&r.rate_to_busy)),
        GOAL_RATE.1,
        false,
    );
    let many = find(
        DataplaneExperiment::Connections,
        Some(10_000),
        EchoServer::Inline,
    );
    judge(
        "With 10,000 connections the share of the peak kept",
        many.zip(peak)
            .map(|(m, p)| m.requests_per_s.median / p.requests_per_s.median),
        GOAL_CONNECTIONS,
        false,
    );
    let process = find(DataplaneExperiment::Connections, None, EchoServer::Process);
    judge(
        "At its peak, requests a second of process ÷ inline",
        process.and_then(|r| median(&r.rate_to_inline)),
        GOAL_PROCESS,
        false,
    );
    if text.is_empty() {
        text.push("Nothing that a goal is judged by was measured to its end.".to_owned());
    }
    text
}
