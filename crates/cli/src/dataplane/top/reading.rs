//! Rates and changes between two readings of the counters.

use crate::dataplane::elastic;
use crate::exit::one_line;
use cofferdam_dataplane::Stage;
use cofferdam_records::cores::{CoreRecord, grown};
use serde_json::Value;
use std::time::Duration;

/// Counters of failures.
const FAILURE_COUNTERS: [&str; 11] = [
    "lost_packets",
    "refused_packets",
    "out_of_frames",
    "over_quota",
    "readers_stopped",
    "overruns",
    "connections_refused",
    "connections_evicted",
    "timers_refused",
    "flush_errors",
    "offences",
];

/// Stage of the loop.
#[derive(Debug, PartialEq)]
pub struct StageRow {
    /// Name of the stage.
    pub name: String,
    /// Share of the time of turns with work, 0 to 1.
    pub share: f64,
    /// Cycles of the time-stamp counter for each packet received; `None` without packets.
    pub cycles_a_packet: Option<f64>,
}

/// Attached application.
#[derive(Debug, PartialEq)]
pub struct ApplicationRow {
    /// Name of the application in the configuration.
    pub name: String,
    /// Open connections.
    pub connections: u64,
    /// Received frames that it has not returned.
    pub held_frames: u64,
}

/// One of several cores: name and figures as text.
#[derive(Debug, PartialEq)]
pub struct CoreRow {
    /// Number of the core, and its CPU if it has one of its own.
    pub name: String,
    /// Flow groups; packets a second received, from other cores, and sent; share of the loop's time
    /// with work, percent; waiting time of a packet, microseconds.
    pub numbers: [u64; 6],
}

/// Rates and changes between two readings of the counters, as `top` prints them.
#[derive(Debug, Default)]
pub struct CounterChanges {
    /// Device, packet rates, batches and sleeps, in two lines.
    pub head: [String; 2],
    /// Stages of the loop, in its order.
    pub stages: Vec<StageRow>,
    /// Batches of at most 1, 2, 4, … packets that occurred, with their count.
    pub batches: Vec<(u32, u64)>,
    /// Counters of the network stack with their rates per second, the most frequent first.
    pub stack: Vec<(String, f64)>,
    /// Failures, if any.
    pub failures: Option<String>,
    /// Attached applications.
    pub applications: Vec<ApplicationRow>,
    /// Cores, if there are several.
    pub cores: Vec<CoreRow>,
    /// State of elastic cores, if there are any.
    pub elastic: Option<String>,
}

/// Growth of each number of an object, with its name.
fn counter_growth(before: &Value, now: &Value, key: &str) -> Vec<(String, u64)> {
    let Some(object) = now.get(key).and_then(Value::as_object) else {
        return Vec::new();
    };
    object
        .keys()
        .map(|name| (name.clone(), grown(before, now, &format!("/{key}/{name}"))))
        .collect()
}

impl CounterChanges {
    /// Changes from `before` to `now`, which is `time` later.
    pub fn new(before: &Value, now: &Value, time: Duration) -> CounterChanges {
        let count = |name: &str| grown(before, now, &format!("/counts/{name}"));
        let seconds = time.as_secs_f64().max(1e-3);
        let rate = |name: &str| count(name) as f64 / seconds;
        let text = |key| now.get(key).and_then(Value::as_str).unwrap_or("?");
        let packets = count("received_packets");
        let batches = count("batches").max(1) as f64;
        let mut stages = counter_growth(before, now, "stage_cycles");
        // JSON sorts the names; the loop's order is more useful.
        stages.sort_by_key(|(name, _)| Stage::ALL.iter().position(|s| s.name() == name));
        let busy: u64 = stages.iter().map(|(_, cycles)| cycles).sum();
        let idle = count("idle_cycles");
        let head = [
            format!(
                "{}: {:.0} packets/s in, {:.0} out; {:.0}% of the loop's time with work",
                one_line(text("device")),
                rate("received_packets"),
                rate("sent_packets"),
                busy as f64 / (busy + idle).max(1) as f64 * 100.0,
            ),
            format!(
                "{:.1} packets a batch, {:.1} waiting after it; {:.0} sleeps/s, {:.0} wake-ups/s; \
                 {} frames free",
                packets as f64 / batches,
                count("queued_packets") as f64 / batches,
                rate("sleeps"),
                rate("wakeups"),
                now.get("free_frames").and_then(Value::as_u64).unwrap_or(0),
            ),
        ];
        let stages = stages.into_iter().map(|(name, cycles)| StageRow {
            name,
            share: cycles as f64 / busy.max(1) as f64,
            cycles_a_packet: (packets > 0).then(|| cycles as f64 / packets as f64),
        });
        let batches = (0..9).map(|class| {
            let counted = grown(before, now, &format!("/batch_sizes/{class}"));
            (1 << class, counted)
        });
        let mut stack = counter_growth(before, now, "stack");
        stack.retain(|(_, n)| *n > 0);
        stack.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
        let mut failures: Vec<String> = FAILURE_COUNTERS
            .into_iter()
            .filter(|name| count(name) > 0)
            .map(|name| format!("{} {}", count(name), name.replace('_', " ")))
            .collect();
        if count("offences") > 0 {
            failures.push(format!("the last: {}", one_line(text("last_offence"))));
        }
        CounterChanges {
            head,
            stages: stages.collect(),
            batches: batches.filter(|(_, n)| *n > 0).collect(),
            stack: stack
                .into_iter()
                .map(|(name, n)| (name.replace('_', " "), n as f64 / seconds))
                .collect(),
            failures: (!failures.is_empty()).then(|| failures.join(", ")),
            applications: applications(now),
            cores: cores(before, now, seconds),
            elastic: elastic::line(now),
        }
    }
}

/// Rows of the cores; none for a single core, whose figures are in the head.
fn cores(before: &Value, now: &Value, seconds: f64) -> Vec<CoreRow> {
    let all = cofferdam_records::cores::cores(before, now, seconds);
    let row = |core: CoreRecord| CoreRow {
        name: core.cpu.map_or_else(
            || core.core.to_string(),
            |cpu| format!("{} (cpu {cpu})", core.core),
        ),
        numbers: [
            core.groups,
            core.received_per_s as u64,
            core.steered_in_per_s as u64,
            core.sent_per_s as u64,
            (core.busy * 100.0) as u64,
            core.queue_delay_ns / 1000,
        ],
    };
    match all.len() {
        0 | 1 => Vec::new(),
        _ => all.into_iter().map(row).collect(),
    }
}

fn applications(now: &Value) -> Vec<ApplicationRow> {
    let all = now.get("applications").and_then(Value::as_array);
    let row = |application: &Value| {
        let number = |key| application.get(key).and_then(Value::as_u64).unwrap_or(0);
        let name = application.get("name").and_then(Value::as_str);
        ApplicationRow {
            name: one_line(name.unwrap_or("?")),
            connections: number("connections"),
            held_frames: number("held_frames"),
        }
    };
    all.map(|all| all.iter().map(row).collect())
        .unwrap_or_default()
}
