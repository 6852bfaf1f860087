//! Goals of the dataplane.

use crate::data::{Estimate, GoalBound, Judgement};
use crate::dataplane::data::{DataplaneExperiment, DataplaneResult, DataplaneRow, EchoServer};
use crate::evidence::{Figure, goal};

/// Highest p50 of an unloaded echo, ÷ that of blocking sockets.
const GOAL_P50: f64 = 0.45;
/// Lowest requests a second ÷ those of blocking sockets, and ÷ those of busy-polling sockets.
const GOAL_RATE: [f64; 2] = [3.0, 1.3];
/// Highest p50 of an unloaded echo by a protected application, ÷ that of busy-polling sockets.
const GOAL_PROTECTED_P50_TO_BUSY: f64 = 0.9;
/// Highest p99 of a protected application near its peak, in any round, milliseconds.
const GOAL_P99_MS: f64 = 10.0;
/// Load of that p99, percent of the application's own peak.
const NEAR_PEAK: u32 = 90;
/// Lowest share of the peak that remains at 10,000 connections.
const GOAL_CONNECTIONS: f64 = 0.9;
/// Lowest requests a second of `process` ÷ `inline`.
const GOAL_PROCESS: f64 = 0.85;
/// Lowest requests a second of `pkey` ÷ `inline`, at each of these numbers of connections.
const GOAL_PKEY: f64 = 0.97;
const PKEY_CONNECTIONS: [u32; 2] = [100, 10_000];
/// Lowest messages a second ÷ those of blocking sockets, with packets of equal size.
const GOAL_MESSAGES: f64 = 0.8;
/// Smallest message that this judges, bytes.
const LARGE_BYTES: u32 = 16 << 10;
/// Most memory of an idle connection, bytes.
const GOAL_MEMORY_BYTES: f64 = 2048.0;

/// Judgements of all goals, in the order of the experiments.
pub(crate) fn goals(result: &DataplaneResult) -> Vec<Judgement> {
    use DataplaneExperiment::{
        Connections, Idle, Load, Paced, SameRate, SizesJumbo, SizesSegmented, Unloaded,
    };
    use EchoServer::{Inline, Pkey, Process};
    let rows = |experiment, server| {
        let own = result.rows.iter();
        own.filter(move |r: &&DataplaneRow| {
            r.cell.experiment == experiment && r.cell.server == server
        })
    };
    let rate = |r: &&DataplaneRow| r.requests_per_s.median;
    let fastest =
        |experiment, server| rows(experiment, server).max_by(|a, b| rate(a).total_cmp(&rate(b)));
    let peak = fastest(Connections, Inline);
    let process = fastest(Connections, Process);
    let many = rows(Connections, Inline).find(|r| r.cell.at == 10_000);
    let remaining = many
        .zip(peak)
        .map(|(many, peak)| remaining_share(many, peak));
    let idle = rows(Idle, Inline).max_by_key(|r| r.cell.at);
    let judged = |what: &str, from: &str, bound, figure: Option<&Estimate>| {
        let figure = figure.map(Figure::Sampled);
        goal(what, Some(from.to_owned()), bound, figure)
    };
    // Memory has no spread that an interval could show.
    let memory = idle.and_then(|r| r.bytes_per_connection.as_ref());
    let memory = memory.map(highest);
    let messages = |experiment: DataplaneExperiment, mtu| {
        let large = rows(experiment, Inline).filter(|r| r.cell.at >= LARGE_BYTES);
        let ratios = large.filter_map(|r| r.rate_to_blocking.as_ref());
        judged(
            &format!(
                "Messages of 16 KiB and more in packets of {mtu} bytes, at the worst size, inline \
                 ÷ blocking sockets"
            ),
            experiment.label(),
            GoalBound::AtLeast(GOAL_MESSAGES),
            ratios.min_by(|a, b| a.median.total_cmp(&b.median)),
        )
    };
    let pkey = |connections: u32| {
        let row = rows(Connections, Pkey).find(|r| r.cell.at == connections);
        judged(
            &format!("With {connections} connections, requests a second of pkey ÷ inline"),
            "connections",
            GoalBound::AtLeast(GOAL_PKEY),
            row.and_then(|r| r.rate_to_inline.as_ref()),
        )
    };
    let [few, many_pkey] = PKEY_CONNECTIONS.map(pkey);
    let [blocking, busy] = GOAL_RATE.map(GoalBound::AtLeast);
    let beside_sockets = |server: EchoServer, most_to_busy: f64| {
        let whose = format!("the {server} echo's");
        let unloaded = fastest(Unloaded, server);
        let peak = fastest(Connections, server);
        let slow = rows(Paced, server).filter_map(|r| r.p50_to_blocking.as_ref());
        vec![
            judged(
                &format!("Unloaded, {whose} p50 ÷ that of blocking sockets"),
                "unloaded",
                GoalBound::AtMost(GOAL_P50),
                unloaded.and_then(|r| r.p50_to_blocking.as_ref()),
            ),
            judged(
                &format!("Unloaded, {whose} p50 ÷ that of busy-polling sockets"),
                "unloaded",
                GoalBound::AtMost(most_to_busy),
                unloaded.and_then(|r| r.p50_to_busy.as_ref()),
            ),
            judged(
                &format!("At low load, at its worst rate, {whose} p50 ÷ that of blocking sockets"),
                "paced",
                GoalBound::AtMost(1.0),
                slow.max_by(|a, b| a.median.total_cmp(&b.median)),
            ),
            judged(
                &format!("At its peak, {whose} requests a second ÷ those of blocking sockets"),
                "connections",
                blocking,
                peak.and_then(|r| r.rate_to_blocking.as_ref()),
            ),
            judged(
                &format!("At its peak, {whose} requests a second ÷ those of busy-polling sockets"),
                "connections",
                busy,
                peak.and_then(|r| r.rate_to_busy.as_ref()),
            ),
        ]
    };
    let under_load = |server: EchoServer| {
        let half = rows(SameRate, server).next();
        let near = rows(Load, server).find(|r| r.cell.at == NEAR_PEAK);
        [
            judged(
                &format!(
                    "At half of the peak of process, the p99 of {server} ÷ that of blocking sockets"
                ),
                "same-rate",
                GoalBound::AtMost(1.0),
                half.and_then(|r| r.p99_to_blocking.as_ref()),
            ),
            goal(
                format!(
                    "At {NEAR_PEAK}% of its peak, the highest p99 of {server} in any round, ms"
                ),
                Some("load".to_owned()),
                GoalBound::AtMost(GOAL_P99_MS),
                near.map(|r| Figure::Count(highest(&r.p99_us) / 1e3)),
            ),
        ]
    };
    let mut all = beside_sockets(Inline, 1.0);
    all.extend([
        judged(
            "Capacity of a core at its peak's CPU time per request, inline ÷ blocking sockets",
            "connections",
            blocking,
            peak.and_then(|r| r.capacity_to_blocking.as_ref()),
        ),
        judged(
            "Capacity of a core at its peak's CPU time per request, inline ÷ busy-polling sockets",
            "connections",
            busy,
            peak.and_then(|r| r.capacity_to_busy.as_ref()),
        ),
        judged(
            "With 10,000 connections the share of the peak kept",
            "connections",
            GoalBound::AtLeast(GOAL_CONNECTIONS),
            remaining.as_ref(),
        ),
        goal(
            "Most memory of an idle connection, inline, bytes",
            Some("idle".to_owned()),
            GoalBound::AtMost(GOAL_MEMORY_BYTES),
            memory.map(Figure::Count),
        ),
        judged(
            "At its peak, requests a second of process ÷ inline",
            "connections",
            GoalBound::AtLeast(GOAL_PROCESS),
            process.and_then(|r| r.rate_to_inline.as_ref()),
        ),
        few,
        many_pkey,
        messages(SizesSegmented, "1,500"),
        messages(SizesJumbo, "9,000"),
    ]);
    for server in [Process, Pkey] {
        all.extend(beside_sockets(server, GOAL_PROTECTED_P50_TO_BUSY));
        all.extend(under_load(server));
    }
    all
}

/// Largest value of any round.
fn highest(e: &Estimate) -> f64 {
    e.values.iter().copied().fold(e.median, f64::max)
}

/// Share of the peak's median that remains with many connections; the interval is that of `many`.
fn remaining_share(many: &DataplaneRow, peak: &DataplaneRow) -> Estimate {
    let peak = peak.requests_per_s.median;
    many.requests_per_s.map(|rate| rate / peak)
}
