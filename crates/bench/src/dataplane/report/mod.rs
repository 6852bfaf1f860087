//! Sections of dataplane runs, in the order of IX's figures.

mod cores;
mod finding;
mod plots;
mod terminal;

use super::goals::goals;
use crate::data::Estimate;
use crate::data::Judgement;
use crate::dataplane::data::{
    DataplaneExperiment, DataplaneResult, DataplaneRow, DataplaneService, EchoServer,
    SERVICE_P99_US,
};
use crate::report::chart::{Chart, Mark, Row, Tone};
use crate::report::error::ReportError;
use crate::report::format::{factor, number};
use crate::report::section::{figure, not_measured, section, spread};
use crate::run::{Goals, Outcome, RunData};
use crate::table::Table;
use maud::{Markup, html};

impl Outcome for DataplaneResult {
    fn place_of_goals(&self) -> Goals {
        Goals::First
    }

    fn is_measured(&self) -> bool {
        !self.rows.is_empty()
    }

    fn goals(&self) -> Vec<Judgement> {
        goals(self)
    }

    fn finding(&self, _run: &RunData) -> Vec<String> {
        finding::finding(self)
    }

    fn sections(&self, _run: &RunData) -> Result<Vec<Markup>, ReportError> {
        sections(self)
    }

    fn tables(&self) -> Vec<Table> {
        terminal::conditions(self).listed()
    }
}

/// Sections of all experiments.
pub fn sections(result: &DataplaneResult) -> Result<Vec<Markup>, ReportError> {
    let mut sections = Vec::new();
    for experiment in DataplaneExperiment::ALL {
        let rows: Vec<&DataplaneRow> = result
            .rows
            .iter()
            .filter(|r| r.cell.experiment == *experiment)
            .collect();
        if !rows.is_empty() {
            let service = result.service.iter();
            let service: Vec<&DataplaneService> =
                service.filter(|s| s.experiment == *experiment).collect();
            sections.push(one(
                *experiment,
                &rows,
                &service,
                &result.congestion_control,
            )?);
        }
    }
    if !result.stage_cycles_per_packet.is_empty() {
        sections.push(stages(result)?);
    }
    sections.extend(not_measured(&result.failed));
    Ok(sections)
}

fn describe(experiment: DataplaneExperiment) -> (&'static str, &'static str) {
    match experiment {
        DataplaneExperiment::Unloaded => (
            "Unloaded echo",
            "64 bytes, one request at a time, from a Linux client that polls. Nothing is steered.",
        ),
        DataplaneExperiment::Paced => (
            "Low load",
            "64 bytes, this many requests a second, one at a time, from a Linux client that polls. \
             The dataplane polls and sleeps as by default. CPU time is all time that its CPU was \
             not idle, including polls that found nothing.",
        ),
        DataplaneExperiment::Connections => (
            "Connections",
            "64 bytes, one outstanding request on each connection, from a load generator over \
             AF_XDP. Receive work is steered to the receiver's CPU.",
        ),
        DataplaneExperiment::Cores => (
            "Multicore",
            "64 bytes, 400 connections, one outstanding request on each, from one load generator \
             that has a CPU of its own; more is better. Linux has one thread per core, each with a \
             listener of its own (SO_REUSEPORT). The dataplane has one loop per core; its \
             application is one thread on the same CPUs. The generator sends through one queue, so \
             the device has one queue, and the first core passes on what belongs to others. \
             Receive work is spread over the server's CPUs, flow by flow (RPS).",
        ),
        DataplaneExperiment::OneCpu => (
            "Cost of the code for several cores",
            "As above, with all loops of the dataplane and its application on the one CPU of the \
             server. Nothing can be gained, and the loss compared with one core is the cost of \
             several: passing packets and frames on, waking each other, and switching between the \
             loops. Loops sleep when they have nothing to do, as they must on a shared CPU. On \
             CPUs of their own they poll, and neither wake nor switch: this is the maximum cost.",
        ),
        DataplaneExperiment::Batch => (
            "Batch bound",
            "64 bytes, 100 connections, one outstanding request on each; at most this many packets \
             in a turn of the loop.",
        ),
        DataplaneExperiment::Load => (
            "Latency under load",
            "An open loop at this percentage of the server's own peak. Times count from when a \
             request was due.",
        ),
        DataplaneExperiment::Cost => (
            "CPU time of a request",
            "All servers at this percentage of the slowest one's peak, in an open loop. Counts the \
             time of the server's CPU that was neither idle nor spent on polls that found nothing. \
             The kernel's work for packets is included. A server that polls takes packets as they \
             come: under more load its batches grow, and a request costs it less.",
        ),
        DataplaneExperiment::SameRate => (
            "Latency at the same load",
            "All servers at this percentage of the peak of an application in a process of its own, \
             in an open loop. Times count from when a request was due: where a server cannot carry \
             the rate, they grow as long as the sample lasts.",
        ),
        DataplaneExperiment::Usr => (
            "memcached, USR",
            "100 connections, an open loop. 10,000 keys of 16 bytes, values of 2 bytes, 99% gets.",
        ),
        DataplaneExperiment::Etc => (
            "memcached, ETC",
            "100 connections, an open loop. 10,000 keys of 20 to 70 bytes, values of 1 to 1,024 \
             bytes from Facebook's published distributions, 75% gets.",
        ),
        DataplaneExperiment::Idle => (
            "Idle connections",
            "Each has carried one request. Memory of the server, its tables included, ÷ \
             connections; for Linux with what the kernel's own memory grew.",
        ),
        DataplaneExperiment::Sizes => (
            "Message size (NetPIPE)",
            "One message at a time and the same back, from a Linux client that polls. The Linux \
             servers have their segmentation offloads; AF_XDP has none.",
        ),
        DataplaneExperiment::SizesSegmented => (
            "Message size in equal packets",
            "As above, with segmentation and receive offloads off on the Linux servers' pair too: \
             all send packets of at most 1,500 bytes.",
        ),
        DataplaneExperiment::SizesJumbo => (
            "Message size in equal packets of 9,000 bytes",
            "As above, with an MTU of 9,000 bytes on both pairs.",
        ),
        DataplaneExperiment::SizesLargest => (
            "Message size, the largest MTU",
            "One message at a time and the same back, with the largest MTU that the dataplane \
             takes, 65,522 bytes, on both pairs. The Linux servers have their segmentation \
             offloads.",
        ),
        DataplaneExperiment::Redis | DataplaneExperiment::RedisPipelined => (
            match experiment {
                DataplaneExperiment::Redis => "redis-server, unmodified",
                _ => "redis-server, unmodified, pipelined",
            },
            "redis-benchmark asks for values of 64 bytes over 50 connections, from the client's \
             CPU; pipelined: with 16 requests in flight on each. On the dataplane by `cofferdam \
             dataplane exec`, loop and program on the server's one CPU. Where the client is the \
             limit, compare the CPU time.",
        ),
        DataplaneExperiment::Memcached => (
            "memcached, unmodified",
            "One thread; 50 connections, one outstanding request on each, of the ETC mix, from the \
             load generator over AF_XDP.",
        ),
        DataplaneExperiment::Nginx => (
            "nginx, unmodified",
            "A master and one worker; wrk asks for 64 bytes over 50 connections that are kept, \
             from the client's CPU.",
        ),
        DataplaneExperiment::ShortConnections => (
            "Short connections",
            "A new connection for each 64-byte request, ended by a reset after the answer; this \
             many at a time. Times count from its opening.",
        ),
    }
}

fn label(row: &DataplaneRow) -> String {
    let words = row.cell.server.words();
    match row.cell.experiment {
        DataplaneExperiment::Unloaded => words.to_owned(),
        DataplaneExperiment::ShortConnections => format!("{} at a time, {words}", row.cell.at),
        DataplaneExperiment::Paced => format!("{}/s, {words}", row.cell.at),
        DataplaneExperiment::Connections
        | DataplaneExperiment::Idle
        | DataplaneExperiment::Redis
        | DataplaneExperiment::RedisPipelined
        | DataplaneExperiment::Memcached
        | DataplaneExperiment::Nginx => {
            format!("{} connections, {words}", row.cell.at)
        }
        DataplaneExperiment::Usr | DataplaneExperiment::Etc => {
            format!("{} k/s, {words}", row.cell.at)
        }
        DataplaneExperiment::Cores | DataplaneExperiment::OneCpu => {
            let cores = if row.cell.at == 1 { "core" } else { "cores" };
            let shared = if row.shares_cpu { ", CPU shared" } else { "" };
            format!("{} {cores}, {words}{shared}", row.cell.at)
        }
        DataplaneExperiment::Batch => format!("B = {}", row.cell.at),
        DataplaneExperiment::Load | DataplaneExperiment::Cost | DataplaneExperiment::SameRate => {
            format!("{}%, {words}", row.cell.at)
        }
        DataplaneExperiment::Sizes
        | DataplaneExperiment::SizesSegmented
        | DataplaneExperiment::SizesJumbo
        | DataplaneExperiment::SizesLargest => format!("{} bytes, {words}", row.cell.at),
    }
}

/// Goodput of both directions, Mbit/s.
fn goodput(row: &DataplaneRow) -> f64 {
    row.requests_per_s.median * f64::from(row.cell.at) * 8.0 / 1e6
}

/// Goodput of both directions that one CPU of the server could carry, Mbit/s.
fn goodput_of_cpu(row: &DataplaneRow) -> Option<f64> {
    let cost = row.cpu_us_per_request.as_ref()?;
    Some(f64::from(row.cell.at) * 8.0 / cost.median)
}

/// Name of the only bars in which more is better.
const RATE: &str = "requests a second";

/// Figure of a row, if the row has it.
type Value = fn(&DataplaneRow) -> Option<&Estimate>;

fn one(
    experiment: DataplaneExperiment,
    rows: &[&DataplaneRow],
    service: &[&DataplaneService],
    congestion: &str,
) -> Result<Markup, ReportError> {
    let (title, text) = describe(experiment);
    let plot = plots::of(experiment, rows)?;
    let bars: Option<(&str, Value)> = match experiment {
        DataplaneExperiment::Unloaded | DataplaneExperiment::Paced => {
            Some(("p50, µs", |r| Some(&r.p50_us)))
        }
        DataplaneExperiment::Load | DataplaneExperiment::SameRate => {
            Some(("p99, µs", |r| Some(&r.p99_us)))
        }
        DataplaneExperiment::Cost => Some(("CPU time, µs", |r| r.cpu_us_per_request.as_ref())),
        DataplaneExperiment::Idle => {
            Some(("bytes a connection", |r| r.bytes_per_connection.as_ref()))
        }
        _ if plot.is_some() => None,
        _ => Some((RATE, |r| Some(&r.requests_per_s))),
    };
    let bars = bars
        .map(|(axis, value)| chart(rows, axis, value))
        .transpose()?;
    let table = match experiment {
        DataplaneExperiment::Idle => memory(rows),
        _ => table(experiment, rows),
    };
    Ok(section(
        title,
        &format!("{text} Congestion control of all ends: {congestion}."),
        html! {
            div.charts {
                @if let Some(plot) = plot { (plot) }
                @if let Some(bars) = bars { (bars) }
            }
            @for sentence in cores::caution(rows) { p.said { (sentence) } }
            @if !service.is_empty() { (highest_rates(service)) }
            (table)
        },
    ))
}

/// Columns of the tables. A table omits the columns that none of its rows has.
const COLUMNS: [(&str, Value); 19] = [
    ("requests/s", |r| Some(&r.requests_per_s)),
    ("requests/s ÷ blocking", |r| r.rate_to_blocking.as_ref()),
    ("requests/s ÷ busy-polling", |r| r.rate_to_busy.as_ref()),
    ("requests/s ÷ inline", |r| r.rate_to_inline.as_ref()),
    ("requests/s ÷ one core", |r| r.rate_to_one_core.as_ref()),
    ("p50, µs", |r| Some(&r.p50_us)),
    ("p99, µs", |r| Some(&r.p99_us)),
    // The clients of programs do not report it.
    ("p99.9, µs", |r| {
        let is_told = !r.cell.experiment.is_of_programs();
        is_told.then_some(&r.p999_us)
    }),
    ("p50 ÷ blocking", |r| r.p50_to_blocking.as_ref()),
    ("p99 ÷ blocking", |r| {
        let is_of_rates = matches!(
            r.cell.experiment,
            DataplaneExperiment::Paced | DataplaneExperiment::SameRate
        );
        r.p99_to_blocking.as_ref().filter(|_| is_of_rates)
    }),
    ("p50 ÷ busy-polling", |r| r.p50_to_busy.as_ref()),
    ("CPU µs a request", |r| r.cpu_us_per_request.as_ref()),
    ("packets an answer", |r| r.packets_per_answer.as_ref()),
    ("part of the payload copied", |r| r.copied_part.as_ref()),
    ("CPU µs ÷ one core", |r| r.cpu_to_one_core.as_ref()),
    ("capacity of one core ÷ blocking", |r| {
        r.capacity_to_blocking.as_ref()
    }),
    ("capacity of one core ÷ busy-polling", |r| {
        r.capacity_to_busy.as_ref()
    }),
    ("capacity of one core ÷ inline", |r| {
        r.capacity_to_inline.as_ref()
    }),
    ("share of time the generator was busy", |r| {
        r.generator_busy.as_ref()
    }),
];

fn table(experiment: DataplaneExperiment, rows: &[&DataplaneRow]) -> Markup {
    let is_sizes = experiment.is_of_sizes();
    let columns = COLUMNS.iter();
    let columns: Vec<&(&str, Value)> = columns
        .filter(|(_, value)| rows.iter().any(|row| value(row).is_some()))
        .collect();
    html! {
        div.scroll tabindex="0" { table {
            thead { tr {
                th { "condition" }
                @if is_sizes { th { "Mbit/s, both ways" } th { "Mbit/s a CPU, both ways" } }
                @for (name, _) in &columns { th { (name) } }
            } }
            tbody { @for row in rows { tr {
                th { (label(row)) }
                @if is_sizes {
                    td { (number(goodput(row))) }
                    td { @if let Some(most) = goodput_of_cpu(row) { (number(most)) } }
                }
                @for (_, value) in &columns { td { (spread(value(row))) } }
            } } }
        } }
    }
}

fn memory(rows: &[&DataplaneRow]) -> Markup {
    html! {
        div.scroll tabindex="0" { table {
            thead { tr { th { "condition" } th { "bytes a connection" } } }
            tbody { @for row in rows { tr {
                th { (label(row)) }
                td { (spread(row.bytes_per_connection.as_ref())) }
            } } }
        } }
    }
}

/// Table of the servers' rates within the latency limit.
fn highest_rates(service: &[&DataplaneService]) -> Markup {
    html! {
        div.scroll tabindex="0" { table {
            thead { tr {
                th { "server" } th { "requests/s at p99 ≤ " (number(SERVICE_P99_US)) " µs" }
                th { "÷ blocking" }
            } }
            tbody { @for one in service { tr {
                th { (one.server.words()) }
                td { (spread(Some(&one.requests_per_s))) }
                td { (spread(one.to_blocking.as_ref())) }
            } } }
        } }
    }
}

fn chart(rows: &[&DataplaneRow], axis: &str, value: Value) -> Result<Markup, ReportError> {
    let rows = rows.iter().filter_map(|row| {
        let value = value(row)?;
        let note = match &row.rate_to_blocking {
            Some(ratio) if axis == RATE => format!(
                "{} ({} blocking)",
                number(value.median),
                factor(ratio.median)
            ),
            _ => number(value.median),
        };
        let tone = tone(row.cell.server);
        Some(Row::of_estimate(label(row), note, value, [tone; 2]))
    });
    let chart = Chart {
        alt: axis.to_owned(),
        axis: axis.to_owned(),
        from: 0.0,
        legend: &[],
        references: Vec::new(),
        rows: rows.collect(),
    };
    let better = if axis == RATE { "more" } else { "less" };
    Ok(figure(
        &format!("{axis}: {better} is better"),
        &chart.svg()?,
    ))
}

fn tone(server: EchoServer) -> Tone {
    match server {
        EchoServer::Blocking => Tone::Caused,
        EchoServer::BusyPolling => Tone::Other,
        EchoServer::Inline => Tone::Paid,
        EchoServer::Pkey | EchoServer::Process | EchoServer::Preload => Tone::Neutral,
    }
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
        legend: &[],
        references: Vec::new(),
        rows: rows.collect(),
    };
    Ok(section(
        "Where the time of a packet goes",
        "Cycles of the time-stamp counter in each stage of the inline loop, over the server's \
         whole life, without turns that had no work. `flush` is the system call that sends: on \
         veth it copies each packet and runs the device's transmit path. A NIC with zero-copy \
         AF_XDP would leave there only the wake-up.",
        html! { div.charts { (figure(axis, &chart.svg()?)) } },
    ))
}
