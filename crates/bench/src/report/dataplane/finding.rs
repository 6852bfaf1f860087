//! What the report says first: each goal, and the figure that it is judged by.

use super::super::format::number;
use crate::data::{DataplaneExperiment, DataplaneResult, EchoServer, Estimate, SERVICE_P99_US};

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
    judge(
        "What a core carries at its peak's CPU time a request, inline ÷ blocking sockets",
        peak.and_then(|r| median(&r.capacity_to_blocking)),
        GOAL_RATE.0,
        false,
    );
    judge(
        "The same ÷ busy-polling sockets",
        peak.and_then(|r| median(&r.capacity_to_busy)),
        GOAL_RATE.1,
        false,
    );
    let idle = result.rows.iter().filter(|r| {
        r.cell.experiment == DataplaneExperiment::Idle && r.cell.server == EchoServer::Inline
    });
    judge(
        "Memory of an idle connection in bytes, inline,",
        idle.max_by_key(|r| r.cell.at)
            .and_then(|r| median(&r.bytes_per_connection)),
        GOAL_MEMORY,
        true,
    );
    let process = find(DataplaneExperiment::Connections, None, EchoServer::Process);
    judge(
        "At its peak, requests a second of process ÷ inline",
        process.and_then(|r| median(&r.rate_to_inline)),
        GOAL_PROCESS,
        false,
    );
    for one in &result.service {
        let compared = one.to_blocking.as_ref().map_or(String::new(), |ratio| {
            format!(", {} times what blocking sockets do", number(ratio.median))
        });
        text.push(format!(
            "memcached, {}: {} answers {} requests a second with a p99 of at most {} µs{compared}.",
            one.experiment.to_string().to_uppercase(),
            one.server.words(),
            number(one.requests_per_s.median),
            number(SERVICE_P99_US),
        ));
    }
    if text.is_empty() {
        text.push("Nothing that a goal is judged by was measured to its end.".to_owned());
    }
    text
}
