//! One sample: a server started, a client run against it, both ended.

use super::Options;
use super::scene::{Pair, Scene};
use crate::data::{DataplaneCell, DataplaneExperiment, DataplaneSample, EchoServer, SCHEMA};
use crate::error::BenchError;
use crate::experiment::Rig;
use crate::rundir::now;
use crate::spawn::{Place, Worker};
use crate::worker::{LoadReport, ServerReport};
use std::collections::HashMap;
use std::time::Duration;

const PORT: u16 = 7007;
/// Message of all experiments but the sizes.
const MESSAGE_BYTES: u32 = 64;
/// Connections where they are not varied.
const CONNECTIONS: u32 = 100;
/// IX's bound.
const BATCH: u32 = 64;

/// Server processes; the last is told to end first.
struct Servers(Vec<Worker>);

impl Servers {
    fn start(
        rig: &Rig<'_>,
        scene: &Scene,
        server: EchoServer,
        batch: u32,
    ) -> Result<Servers, BenchError> {
        let pair = scene.pair(server);
        let place = Place {
            netns: Some(pair.server.name.clone()),
            cgroups: Vec::new(),
            cpu: Some(rig.victim_cpu),
        };
        let address = pair.address;
        let socket = scene.socket().display().to_string();
        let lines = match server {
            EchoServer::Blocking => vec![format!("dp-epoll --port {PORT} --spin 0")],
            EchoServer::BusyPolling => vec![format!("dp-epoll --port {PORT} --spin 1")],
            EchoServer::Inline => vec![format!(
                "dp-inline --device eth0 --address {address} --port {PORT} --batch {batch}"
            )],
            EchoServer::Process => vec![
                format!(
                    "dp-dataplane --device eth0 --address {address} --socket {socket} --batch {batch}"
                ),
                format!("dp-attached --socket {socket} --port {PORT}"),
            ],
        };
        let mut workers = Vec::new();
        for line in lines {
            let mut worker = Worker::start(&place, &line)?;
            worker.go()?;
            workers.push(worker);
        }
        Ok(Servers(workers))
    }

    /// Ends all; what the first, which has the loop, tells.
    fn end(self) -> Result<ServerReport, BenchError> {
        let mut told = ServerReport::default();
        for worker in self.0.into_iter().rev() {
            told = worker.end_with()?;
        }
        Ok(told)
    }
}

/// Measures one condition once.
pub(super) fn sample(
    rig: &mut Rig<'_>,
    scene: &Scene,
    options: &Options,
    cell: &DataplaneCell,
    round: u32,
    peaks: &mut HashMap<EchoServer, f64>,
) -> Result<DataplaneSample, BenchError> {
    let pair = scene.pair(cell.server);
    let (warm, seconds) = if options.quick {
        (0.2, 0.6)
    } else {
        (0.3, 1.2)
    };
    let offered_per_s = match cell.experiment {
        DataplaneExperiment::Load => {
            let peak = match peaks.get(&cell.server) {
                Some(peak) => *peak,
                None => {
                    let closed = generator(pair, CONNECTIONS, 0.0, warm, seconds);
                    once(rig, scene, cell, BATCH, &closed, true)?
                        .0
                        .requests_per_s
                }
            };
            peaks.insert(cell.server, peak);
            Some(peak * f64::from(cell.at) / 100.0)
        }
        _ => None,
    };
    let asked = |size: u32, fresh: u8| {
        format!(
            "dp-ask --to {} --port {PORT} --size {size} --warm {warm} --seconds {seconds} --fresh {fresh}",
            pair.address
        )
    };
    let (client, steered, batch) = match cell.experiment {
        DataplaneExperiment::Unloaded => (asked(MESSAGE_BYTES, 0), false, BATCH),
        DataplaneExperiment::Sizes => (asked(cell.at, 0), false, BATCH),
        DataplaneExperiment::ShortConnections => (asked(MESSAGE_BYTES, 1), false, BATCH),
        DataplaneExperiment::Connections => {
            (generator(pair, cell.at, 0.0, warm, seconds), true, BATCH)
        }
        DataplaneExperiment::Batch => (
            generator(pair, CONNECTIONS, 0.0, warm, seconds),
            true,
            cell.at,
        ),
        DataplaneExperiment::Load => {
            let rate = offered_per_s.unwrap_or_default();
            (
                generator(pair, CONNECTIONS, rate, warm, seconds),
                true,
                BATCH,
            )
        }
    };
    let (told, server) = once(rig, scene, cell, batch, &client, steered)?;
    Ok(DataplaneSample {
        schema: SCHEMA,
        time: now(),
        cell: *cell,
        round,
        offered_per_s,
        requests_per_s: told.requests_per_s,
        latency: told.latency,
        packets: server.packets,
        stage_cycles: server.stage_cycles,
    })
}

/// The load generator's command; `rate` 0: a closed loop.
fn generator(pair: &Pair, connections: u32, rate: f64, warm: f64, seconds: f64) -> String {
    format!(
        "dp-load --device eth0 --address {} --to {} --port {PORT} --connections {connections} \
         --size {MESSAGE_BYTES} --rate {rate} --warm {warm} --seconds {seconds}",
        pair.generator, pair.address
    )
}

fn once(
    rig: &mut Rig<'_>,
    scene: &Scene,
    cell: &DataplaneCell,
    batch: u32,
    client: &str,
    steered: bool,
) -> Result<(LoadReport, ServerReport), BenchError> {
    let pair = scene.pair(cell.server);
    pair.steer(steered.then_some((rig.victim_cpu, rig.peer_cpu)))?;
    let servers = Servers::start(rig, scene, cell.server, batch)?;
    let place = Place {
        netns: Some(pair.client.name.clone()),
        cgroups: Vec::new(),
        cpu: Some(rig.peer_cpu),
    };
    let mut client = Worker::start(&place, client)?;
    // The server may still be attaching.
    rig.pass(Duration::from_millis(150))?;
    client.go()?;
    while !client.has_line(Duration::from_millis(20))? {
        rig.check()?;
    }
    let told: LoadReport = client.answer()?;
    drop(client);
    Ok((told, servers.end()?))
}
