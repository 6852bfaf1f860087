//! One sample: a server started, a client run against it, both ended.

use super::Options;
use super::cores::{Cores, ONE};
use super::programs::{self, Program};
use super::servers::{PORT, Plan, Servers, slab_bytes};
use super::testbed::Testbed;
use crate::data::SCHEMA;
use crate::dataplane::data::{DataplaneCell, DataplaneExperiment, DataplaneSample, EchoServer};
use crate::error::BenchError;
use crate::experiment::Rig;
use crate::rundir::now;
use crate::spawn::{Place, Worker};
use crate::worker::{LoadReport, ServerReport, Work};
use std::collections::HashMap;
use std::time::Duration;

/// Message of all echo experiments but the sizes.
const ECHO: Work = Work::Echo(64);
/// Requests of a sample at low load, however rare they are.
const LEAST_PACED: f64 = 8.0;
/// Connections where they are not varied.
const CONNECTIONS: u32 = 100;
/// Connections where cores are varied: enough for each thread to get its share by hash.
const CONNECTIONS_OF_CORES: u32 = 400;
/// IX's bound.
const BATCH: u32 = 64;
/// Room for connections where the tables are not what is measured.
const ROOM: u32 = 16_384;
/// Connections to one port, at most: a client's address has no more ports.
const PER_PORT: u32 = 12_000;

/// Whom the load comes from.
enum Client {
    /// A Linux client that polls, one request at a time, at most so many a second; 0: the next at
    /// once.
    Ask { rate: f64 },
    /// The generator, with so many connections, at so many requests a second; 0: a closed loop,
    /// with one request on each connection, or on some of them in turn.
    Load { connections: u32, rate: f64 },
    /// The generator, with a connection for each request, so many at a time.
    Fresh { connections: u32 },
    /// The generator, which opens so many connections and lets them be.
    Hold { connections: u32 },
    /// A program's own client, with so many connections.
    Own { program: Program, connections: u32 },
}

/// One measurement.
struct Run {
    client: Client,
    plan: Plan,
    warm_s: f64,
    seconds: f64,
    /// One request at a time: its CPU time says something, as it does with many.
    cost_is_told: bool,
}

/// What it gave.
struct Told {
    client: LoadReport,
    server: ServerReport,
    cpu_us_per_request: Option<f64>,
    /// Packets that the client's device received for an answer, acknowledgements included.
    packets_per_answer: Option<f64>,
    /// Of the server, before the client came and while its connections were idle.
    memory_bytes: [u64; 2],
}

/// Each server's peak with 100 connections, requests a second, in each round: the host may be slower in the
/// next one, and a share of the old peak beyond what it can carry.
pub(super) type Peaks = HashMap<(EchoServer, u32), f64>;

/// Measures one condition once.
pub(super) fn sample(
    rig: &mut Rig<'_>,
    testbed: &Testbed,
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
            // Tables are made for the connections at the start: they count as theirs.
            run.plan.room = 64;
            before = Some(memory_without(rig, testbed, run.plan)?);
            run.plan.ports = cell.at.div_ceil(PER_PORT) as u16;
        }
        run.plan.room = cell.at + 1024;
    }
    let told = once(rig, testbed, &run)?;
    let lost = told.client.latency.lost;
    if lost > 0 {
        let what = "requests were not answered, or connections ended by themselves";
        rig.warn(&format!("{}, round {round}: {lost} {what}", cell.id()))?;
    }
    let [start, idle] = told.memory_bytes;
    let grown = idle.saturating_sub(before.unwrap_or(start));
    let copied_part = copied_part(&told.server);
    Ok(DataplaneSample {
        schema: SCHEMA,
        time: now(),
        cell: *cell,
        round,
        offered_per_s,
        requests_per_s: told.client.requests_per_s,
        latency: told.client.latency,
        packets: told.server.packets,
        stage_cycles: told.server.stage_cycles,
        // Which of a shared CPU's time was the server's cannot be told.
        cpu_us_per_request: told.cpu_us_per_request.filter(|_| !shares_cpu),
        packets_per_answer: told.packets_per_answer,
        copied_part: copied_part.filter(|_| cell.experiment.is_of_sizes()),
        shares_cpu,
        generator_busy: told.client.busy.filter(|_| !shares_cpu),
        bytes_per_connection: (cell.experiment == DataplaneExperiment::Idle)
            .then(|| grown as f64 / f64::from(cell.at)),
    })
}

/// The part of the payload sent that was copied.
fn copied_part(server: &ServerReport) -> Option<f64> {
    let [sent, copied] = server.payload_bytes;
    (sent > 0).then(|| copied as f64 / sent as f64)
}

fn load(connections: u32, rate: f64) -> Client {
    Client::Load { connections, rate }
}

/// Memory of a server that nobody asks.
fn memory_without(rig: &mut Rig<'_>, testbed: &Testbed, plan: Plan) -> Result<u64, BenchError> {
    let mut servers = Servers::start(rig, testbed, plan)?;
    rig.pass(Duration::from_millis(100))?;
    servers.moment()?;
    let bytes = servers.memory_bytes()?;
    servers.end()?;
    Ok(bytes)
}

/// The client's command.
fn command(testbed: &Testbed, run: &Run, shares_cpu: bool) -> String {
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

fn once(rig: &mut Rig<'_>, testbed: &Testbed, run: &Run) -> Result<Told, BenchError> {
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
    // The server may still be attaching. Its empty polls then show what a poll costs.
    rig.pass(Duration::from_millis(60))?;
    let settled = servers.moment()?;
    rig.pass(Duration::from_millis(100))?;
    let begun = servers.moment()?;
    // Who sleeps does not poll in vain: what it looks at before it sleeps is part of its work.
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
    let received = pair.received()?;
    client.go()?;
    let mut cpu_us_per_request = None;
    let mut packets_per_answer = None;
    let mut at_end = at_start;
    wait(rig, &mut client)?;
    if !is_asked {
        // It has opened its connections.
        client.answer::<bool>()?;
    }
    let told: LoadReport = match run.client {
        Client::Ask { .. } => {
            let to = servers.moment()?;
            cpu_us_per_request = to
                .cpu_us_per_request(&begun, poll_cost_s)
                .filter(|_| run.plan.adapts || run.cost_is_told);
            if run.cost_is_told {
                packets_per_answer = to.per_request(&begun, pair.received()? - received);
            }
            last_answer(client)?
        }
        Client::Load { .. } | Client::Fresh { .. } => {
            let from = servers.moment()?;
            wait(rig, &mut client)?;
            let to = servers.moment()?;
            let told = last_answer(client)?;
            let answered = (run.plan.program).map(|_| told.latency.requests);
            cpu_us_per_request = to
                .with_requests(answered)
                .cpu_us_per_request(&from, poll_cost_s);
            told
        }
        Client::Hold { .. } | Client::Own { .. } => {
            rig.pass(Duration::from_millis(200))?;
            at_end = memory(&servers)?;
            client.end_with()?
        }
    };
    Ok(Told {
        client: told,
        server: servers.end()?,
        cpu_us_per_request,
        packets_per_answer,
        memory_bytes: [at_start, at_end],
    })
}

/// A program, asked by a client of its own.
fn own_client(
    rig: &mut Rig<'_>,
    testbed: &Testbed,
    run: &Run,
    mut servers: Servers,
    (program, connections): (Program, u32),
) -> Result<Told, BenchError> {
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
    Ok(Told {
        cpu_us_per_request: to.cpu_us_per_request(&begun, poll_cost_s),
        packets_per_answer: None,
        client,
        server: servers.end()?,
        memory_bytes,
    })
}

/// What a client says at its end, which it is gone after.
fn last_answer(mut client: Worker) -> Result<LoadReport, BenchError> {
    client.answer()
}

/// Until the client says something.
fn wait(rig: &mut Rig<'_>, client: &mut Worker) -> Result<(), BenchError> {
    while !client.has_line(Duration::from_millis(20))? {
        rig.check()?;
    }
    Ok(())
}
