//! One sample: starts a server, runs a client against it, and ends both.

use super::Options;
use super::cores::{Cores, ONE};
use super::programs::{self, Program};
use super::servers::{PORT, Plan, Servers, slab_bytes};
use super::testbed::DataplaneTestbed;
use crate::data::SCHEMA;
use crate::dataplane::data::{DataplaneCell, DataplaneExperiment, DataplaneSample, EchoServer};
use crate::error::BenchError;
use crate::experiment::Rig;
use crate::rundir::now;
use crate::spawn::{Place, Worker};
use crate::worker::{LoadReport, ServerReport, Work};
use std::collections::HashMap;
use std::time::Duration;

/// Message of all echo experiments except those of sizes.
const ECHO: Work = Work::Echo(64);
/// Fewest requests of a sample at low load, however rare they are.
const LEAST_PACED: f64 = 8.0;
/// Connections of experiments that do not vary them.
const CONNECTIONS: u32 = 100;
/// Connections of the experiments with cores: enough for each thread to get its share by hash.
const CONNECTIONS_OF_CORES: u32 = 400;
/// Batch bound of IX.
const BATCH: u32 = 64;
/// Table capacity in connections, if memory is not measured.
const ROOM: u32 = 16_384;
/// Most connections to one port: a client's address has no more ports.
const PER_PORT: u32 = 12_000;

/// Source of the load.
enum Client {
    /// Linux client that polls, with one request at a time. `rate`: most requests a second; 0: no
    /// pause.
    Ask { rate: f64 },
    /// Generator with this number of connections. `rate`: requests a second in an open loop. With 0
    /// the loop is closed: one request in flight on each connection.
    Load { connections: u32, rate: f64 },
    /// Generator with one connection for each request; `connections` are open at a time.
    Fresh { connections: u32 },
    /// Generator that opens connections and leaves them idle.
    Hold { connections: u32 },
    /// A program's own client.
    Own { program: Program, connections: u32 },
}

/// One measurement.
struct Run {
    client: Client,
    plan: Plan,
    warm_s: f64,
    seconds: f64,
    /// Whether to measure the CPU time although only one request is in flight.
    cost_is_told: bool,
}

/// Result of a measurement.
struct RunFigures {
    client: LoadReport,
    server: ServerReport,
    cpu_us_per_request: Option<f64>,
    /// Packets that the client's device received per answer, with acknowledgements.
    packets_per_answer: Option<f64>,
    /// Memory of the server before the client's start, and with idle connections.
    memory_bytes: [u64; 2],
}

/// Peak of each server with 100 connections, requests a second, by round. A slower host could not
/// carry the peak of an earlier round.
pub(super) type Peaks = HashMap<(EchoServer, u32), f64>;

/// Measures one condition once.
pub(super) fn sample(
    rig: &mut Rig<'_>,
    testbed: &DataplaneTestbed,
    options: &Options,
    cell: &DataplaneCell,
    round: u32,
    peaks: &mut Peaks,
) -> Result<DataplaneSample, BenchError> {
    let (warm_s, seconds) = if options.quick {
        (0.2, 0.6)
    } else {
        (0.3, 1.2)
    };
    let seconds = match cell.experiment {
        DataplaneExperiment::Paced => f64::max(seconds, LEAST_PACED / f64::from(cell.at)),
        _ => seconds,
    };
    let run = |server: EchoServer, work: Work, client: Client| Run {
        client,
        plan: Plan {
            server,
            work,
            batch: BATCH,
            room: ROOM,
            ports: 1,
            cores: ONE,
            adapts: false,
            program: Program::of(cell.experiment),
        },
        warm_s,
        seconds,
        cost_is_told: cell.experiment.is_of_sizes(),
    };
    let mut peak = |rig: &mut Rig<'_>, server: EchoServer| {
        if let Some(peak) = peaks.get(&(server, round)) {
            return Ok::<f64, BenchError>(*peak);
        }
        let closed = run(server, ECHO, load(CONNECTIONS, 0.0));
        let peak = once(rig, testbed, &closed)?.client.requests_per_s;
        peaks.insert((server, round), peak);
        Ok(peak)
    };
    let share = f64::from(cell.at) / 100.0;
    let offered_per_s = match cell.experiment {
        DataplaneExperiment::Load => Some(share * peak(rig, cell.server)?),
        DataplaneExperiment::Cost => {
            let mut slowest = f64::INFINITY;
            for server in EchoServer::OWN.iter().filter(|s| s.missing().is_none()) {
                slowest = slowest.min(peak(rig, *server)?);
            }
            Some(share * slowest)
        }
        DataplaneExperiment::SameRate => Some(share * peak(rig, EchoServer::Process)?),
        DataplaneExperiment::Usr | DataplaneExperiment::Etc => Some(f64::from(cell.at) * 1000.0),
        _ => None,
    };
    let work = match cell.experiment {
        experiment if experiment.is_of_sizes() => Work::Echo(cell.at),
        DataplaneExperiment::Usr => Work::Usr,
        DataplaneExperiment::Etc | DataplaneExperiment::Memcached => Work::Etc,
        _ => ECHO,
    };
    let client = match cell.experiment {
        DataplaneExperiment::Unloaded => Client::Ask { rate: 0.0 },
        experiment if experiment.is_of_sizes() => Client::Ask { rate: 0.0 },
        DataplaneExperiment::Paced => Client::Ask {
            rate: f64::from(cell.at),
        },
        DataplaneExperiment::ShortConnections => Client::Fresh {
            connections: cell.at,
        },
        DataplaneExperiment::Connections | DataplaneExperiment::Memcached => load(cell.at, 0.0),
        DataplaneExperiment::Cores | DataplaneExperiment::OneCpu => load(CONNECTIONS_OF_CORES, 0.0),
        DataplaneExperiment::Idle => Client::Hold {
            connections: cell.at,
        },
        experiment => match Program::of(experiment) {
            Some(program) => Client::Own {
                program,
                connections: cell.at,
            },
            None => load(CONNECTIONS, offered_per_s.unwrap_or(0.0)),
        },
    };
    let mut run = run(cell.server, work, client);
    match cell.experiment {
        DataplaneExperiment::Batch => run.plan.batch = cell.at,
        DataplaneExperiment::Paced => run.plan.adapts = true,
        DataplaneExperiment::Cores => run.plan.cores = Cores::Each(cell.at),
        DataplaneExperiment::OneCpu => run.plan.cores = Cores::Together(cell.at),
        _ => {}
    }
    let shares_cpu = run.plan.cores.share(rig);
    let mut before = None;
    if cell.experiment == DataplaneExperiment::Idle {
        if !cell.server.is_linux() {
            // Tables are allocated for the connections at the start: they count as theirs.
            run.plan.room = 64;
            before = Some(memory_without(rig, testbed, run.plan)?);
            run.plan.ports = cell.at.div_ceil(PER_PORT) as u16;
        }
        run.plan.room = cell.at + 1024;
    }
    let figures = once(rig, testbed, &run)?;
    let lost = figures.client.latency.lost;
    if lost > 0 {
        let what = "requests were not answered, or connections ended by themselves";
        rig.warn(&format!("{}, round {round}: {lost} {what}", cell.id()))?;
    }
    let [start, idle] = figures.memory_bytes;
    let grown = idle.saturating_sub(before.unwrap_or(start));
    let copied_part = copied_part(&figures.server);
    Ok(DataplaneSample {
        schema: SCHEMA,
        time: now(),
        cell: *cell,
        round,
        offered_per_s,
        requests_per_s: figures.client.requests_per_s,
        latency: figures.client.latency,
        packets: figures.server.packets,
        stage_cycles: figures.server.stage_cycles,
        // On a shared CPU the server's part of the time is unknown.
        cpu_us_per_request: figures.cpu_us_per_request.filter(|_| !shares_cpu),
        packets_per_answer: figures.packets_per_answer,
        copied_part: copied_part.filter(|_| cell.experiment.is_of_sizes()),
        shares_cpu,
        generator_busy: figures.client.busy.filter(|_| !shares_cpu),
        bytes_per_connection: (cell.experiment == DataplaneExperiment::Idle)
            .then(|| grown as f64 / f64::from(cell.at)),
    })
}

/// Part of the sent payload that was copied.
fn copied_part(server: &ServerReport) -> Option<f64> {
    let [sent, copied] = server.payload_bytes;
    (sent > 0).then(|| copied as f64 / sent as f64)
}

fn load(connections: u32, rate: f64) -> Client {
    Client::Load { connections, rate }
}

/// Memory of a server without clients, bytes.
fn memory_without(
    rig: &mut Rig<'_>,
    testbed: &DataplaneTestbed,
    plan: Plan,
) -> Result<u64, BenchError> {
    let mut servers = Servers::start(rig, testbed, plan)?;
    rig.pass(Duration::from_millis(100))?;
    servers.moment()?;
    let bytes = servers.memory_bytes()?;
    servers.end()?;
    Ok(bytes)
}

/// Command line of the client.
fn command(testbed: &DataplaneTestbed, run: &Run, shares_cpu: bool) -> String {
    let pair = testbed.pair(run.plan.server);
    let (to, warm, seconds) = (pair.address, run.warm_s, run.seconds);
    let (connections, rate, seconds, fresh) = match run.client {
        Client::Ask { rate } => {
            let size = match run.plan.work {
                Work::Echo(bytes) => bytes,
                Work::Usr | Work::Etc => 0,
            };
            return format!(
                "dp-ask --to {to} --port {PORT} --size {size} --warm {warm} --seconds {seconds} \
                 --rate {rate}"
            );
        }
        Client::Load { connections, rate } => (connections, rate, seconds, 0),
        Client::Fresh { connections } => (connections, 0.0, seconds, 1),
        Client::Hold { connections } | Client::Own { connections, .. } => {
            (connections, 0.0, 0.0, 0)
        }
    };
    format!(
        "dp-load --device eth0 --address {} --to {to} --port {PORT} --ports {} \
         --connections {connections} --work {} --rate {rate} --warm {warm} --seconds {seconds} \
         --fresh {fresh} --yields {}",
        pair.generator,
        run.plan.ports,
        run.plan.work,
        u8::from(shares_cpu)
    )
}

fn once(
    rig: &mut Rig<'_>,
    testbed: &DataplaneTestbed,
    run: &Run,
) -> Result<RunFigures, BenchError> {
    let pair = testbed.pair(run.plan.server);
    let is_asked = matches!(run.client, Client::Ask { .. });
    let steered = !is_asked && !matches!(run.client, Client::Hold { .. });
    match steered {
        true => pair.steer(&run.plan.cores.cpus(rig), &[rig.peer_cpu])?,
        false => pair.steer(&[], &[])?,
    }
    let mut servers = Servers::start(rig, testbed, run.plan)?;
    if let Client::Own {
        program,
        connections,
    } = run.client
    {
        return own_client(rig, testbed, run, servers, (program, connections));
    }
    let place = Place {
        netns: pair.client.clone(),
        cgroups: Vec::new(),
        cpu: Some(rig.peer_cpu),
    };
    let mut client = Worker::start(&place, &command(testbed, run, run.plan.cores.share(rig)))?;
    // The server may still be attaching. Its empty polls then show the cost of a poll.
    rig.pass(Duration::from_millis(60))?;
    let settled = servers.moment()?;
    rig.pass(Duration::from_millis(100))?;
    let begun = servers.moment()?;
    // A server that sleeps has no empty polls: its checks before it sleeps are part of its work.
    let polls = !run.plan.cores.sleep(rig) && !run.plan.adapts;
    let poll_cost_s = begun.poll_cost_s(&settled).filter(|_| polls);
    let memory = |servers: &Servers| -> Result<u64, BenchError> {
        let kernel = if run.plan.server.is_linux() {
            slab_bytes()?
        } else {
            0
        };
        Ok(servers.memory_bytes()? + kernel)
    };
    let at_start = memory(&servers)?;
    let received = pair.received_packets()?;
    client.go()?;
    let mut cpu_us_per_request = None;
    let mut packets_per_answer = None;
    let mut at_end = at_start;
    wait(rig, &mut client)?;
    if !is_asked {
        // The first line says that the client has opened its connections.
        client.answer::<bool>()?;
    }
    let client_report: LoadReport = match run.client {
        Client::Ask { .. } => {
            let to = servers.moment()?;
            cpu_us_per_request = to
                .cpu_us_per_request(&begun, poll_cost_s)
                .filter(|_| run.plan.adapts || run.cost_is_told);
            if run.cost_is_told {
                packets_per_answer = to.per_request(&begun, pair.received_packets()? - received);
            }
            last_answer(client)?
        }
        Client::Load { .. } | Client::Fresh { .. } => {
            let from = servers.moment()?;
            wait(rig, &mut client)?;
            let to = servers.moment()?;
            let report = last_answer(client)?;
            let answered = (run.plan.program).map(|_| report.latency.requests);
            cpu_us_per_request = to
                .with_requests(answered)
                .cpu_us_per_request(&from, poll_cost_s);
            report
        }
        Client::Hold { .. } | Client::Own { .. } => {
            rig.pass(Duration::from_millis(200))?;
            at_end = memory(&servers)?;
            client.end_with()?
        }
    };
    Ok(RunFigures {
        client: client_report,
        server: servers.end()?,
        cpu_us_per_request,
        packets_per_answer,
        memory_bytes: [at_start, at_end],
    })
}

/// Measures a program with its own client.
fn own_client(
    rig: &mut Rig<'_>,
    testbed: &DataplaneTestbed,
    run: &Run,
    mut servers: Servers,
    (program, connections): (Program, u32),
) -> Result<RunFigures, BenchError> {
    let settled = servers.moment()?;
    rig.pass(Duration::from_millis(100))?;
    let begun = servers.moment()?;
    let poll_cost_s = begun.poll_cost_s(&settled);
    let who = (program, run.plan.server);
    let client = programs::ask(rig, testbed, who, connections, run.seconds)?;
    let to = servers
        .moment()?
        .with_requests(Some(client.latency.requests));
    let memory_bytes = [servers.memory_bytes()?; 2];
    Ok(RunFigures {
        cpu_us_per_request: to.cpu_us_per_request(&begun, poll_cost_s),
        packets_per_answer: None,
        client,
        server: servers.end()?,
        memory_bytes,
    })
}

/// Last line of a client, which has ended by itself.
fn last_answer(mut client: Worker) -> Result<LoadReport, BenchError> {
    client.answer()
}

/// Waits for a line of the client.
fn wait(rig: &mut Rig<'_>, client: &mut Worker) -> Result<(), BenchError> {
    while !client.has_line(Duration::from_millis(20))? {
        rig.check()?;
    }
    Ok(())
}
